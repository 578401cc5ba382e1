"""The allocator's history: events, call stacks, the ring; PyTorch's own viewer reads the snapshot."""

import gc
import inspect
import pickle
import subprocess
import sys
import threading

import pytest
import torch
from torch.cuda import _memory_viz

from torch_aule.backend import memory

pytestmark = pytest.mark.validated

MIB = 2**20


@pytest.fixture
def history(device):
    """Starts with an empty cache: no event of another test's memory."""
    gc.collect()
    torch.aule.synchronize()
    torch.aule.empty_cache()
    yield memory._record_memory_history
    memory._record_memory_history(None)


def events(found, *actions):
    return [e for e in found["device_traces"][0] if not actions or e["action"] in actions]


def own_lines(frames):
    return [f["line"] for f in frames if f["filename"] == __file__]


def here():
    return inspect.currentframe().f_back.f_lineno


def test_each_allocation_has_its_free(history, device):
    history(stacks="python")
    for size in (5, 1000, 3 * MIB + 7):
        x = torch.empty(size, dtype=torch.uint8, device=device)
        (x + 1).sum()
        del x
    found = memory._snapshot()
    open_blocks = {}
    for e in events(found):
        if e["action"] == "alloc":
            assert e["addr"] not in open_blocks and e["size"] > 0
            open_blocks[e["addr"]] = e["size"]
        elif e["action"] == "free_requested":
            assert open_blocks[e["addr"]] == e["size"]
        elif e["action"] == "free_completed":
            assert open_blocks.pop(e["addr"]) == e["size"]
    assert not open_blocks
    kinds = [e["action"] for e in events(found)]
    assert kinds.count("alloc") == kinds.count("free_completed") >= 6 and kinds[-1] == "snapshot"
    times = [e["time_us"] for e in events(found)]
    assert times == sorted(times) and times[0] > 1_600_000_000_000_000


def test_addresses_are_in_their_segments(history, device):
    history(stacks="python")
    kept = [torch.empty(size, device=device) for size in (3, 700, 16 * MIB)]
    found = memory._snapshot()
    segments = {s["address"]: s["total_size"] for s in found["segments"]}
    made = {e["addr"]: e["size"] for e in events(found, "segment_alloc")}
    # Of small blocks too, unless another test's tensors hold a segment that has room.
    assert made.items() <= segments.items() and made
    blocks = {b["address"]: b for s in found["segments"] for b in s["blocks"]}
    for x in kept:
        event = next(e for e in events(found, "alloc") if e["addr"] == x.data_ptr())
        block = blocks[x.data_ptr()]
        assert block["state"] == "active_allocated" and block["size"] == event["size"] >= x.numel() * 4
        assert block["requested_size"] == x.numel() * 4 and block["frames"] == event["frames"] != []
        assert any(a <= event["addr"] and event["addr"] + event["size"] <= a + n for a, n in segments.items())
    for segment in found["segments"]:
        assert sum(b["size"] for b in segment["blocks"]) == segment["total_size"]
        assert all(b["frames"] == [] for b in segment["blocks"] if b["state"] == "inactive")
    del kept, x
    torch.aule.empty_cache()
    freed = {e["addr"]: e["size"] for e in events(memory._snapshot(), "segment_free")}
    assert made.items() <= freed.items()


def test_frames_name_the_lines_of_the_test(history, device):
    history(stacks="python")
    x, made = torch.empty(999, device=device), here()
    address = x.data_ptr()
    freed = here() + 1
    del x
    found = memory._snapshot()
    (alloc,) = (e for e in events(found, "alloc") if e["addr"] == address)
    (free,) = (e for e in events(found, "free_requested") if e["addr"] == address)
    assert own_lines(alloc["frames"])[0] == made and own_lines(free["frames"])[0] == freed
    assert alloc["frames"][0]["name"] == inspect.currentframe().f_code.co_name
    assert not any(f["filename"].endswith((".cpp", ".so")) for f in alloc["frames"])


@pytest.mark.skipif(sys.platform != "linux", reason="PyTorch's unwinder is for Linux")
def test_frames_of_cpp(history, device):
    history(stacks="all")
    x, made = torch.empty(999, device=device), here()
    (alloc,) = (e for e in events(memory._snapshot(), "alloc") if e["addr"] == x.data_ptr())
    assert made in own_lines(alloc["frames"]) and len(alloc["frames"]) > 2 * len(inspect.stack())


@pytest.mark.parametrize(
    "context, with_stack",
    [
        (None, set()),
        ("state", {"block"}),
        ("alloc", {"block", "alloc", "free_requested"}),
        ("all", {"block", "alloc", "free_requested"}),
    ],
)
def test_contexts(history, device, context, with_stack):
    history(context=context, stacks="python")
    x, made = torch.empty(999, device=device), here()
    address, seen = x.data_ptr(), {}
    block = next(b for s in memory._snapshot()["segments"] for b in s["blocks"] if b["address"] == address)
    seen["block"] = block["frames"]
    del x
    for e in events(memory._snapshot(), "alloc", "free_requested"):
        if e["addr"] == address:
            seen[e["action"]] = e["frames"]
    assert set(seen) == {"block", "alloc", "free_requested"}
    assert {name for name, frames in seen.items() if frames} == with_stack
    # Without a stack of its own a free has the allocation's.
    assert context != "alloc" or own_lines(seen["free_requested"])[0] == made


def test_only_the_state(history, device):
    history("state", stacks="python")
    x = torch.empty(999, device=device)
    found = memory._snapshot()
    assert events(found) == []
    assert any(own_lines(b["frames"]) for s in found["segments"] for b in s["blocks"] if b["address"] == x.data_ptr())


def test_the_ring_keeps_the_last(history, device):
    history(stacks="python", max_entries=7)
    for size in range(1, 30):
        torch.empty(512 * size, dtype=torch.uint8, device=device)
    found = events(memory._snapshot())
    assert len(found) == 7 and found[-1]["action"] == "snapshot"
    assert [e["size"] for e in found[:-1]] == [512 * 28] * 3 + [512 * 29] * 3
    history(stacks="python", max_entries=3)  # what was kept is cut to the last
    torch.empty(512, dtype=torch.uint8, device=device)
    assert len(events(memory._snapshot())) == 3
    history(stacks="python", max_entries=5)
    torch.empty(512, dtype=torch.uint8, device=device)
    found = events(memory._snapshot())
    assert [e["action"] for e in found] == ["snapshot", "alloc", "free_requested", "free_completed", "snapshot"]


def test_what_is_skipped_and_forgotten(history, device):
    history(stacks="python", skip_actions=["free_requested", "snapshot"])
    torch.empty(5, device=device)
    kinds = {e["action"] for e in events(memory._snapshot())}
    assert {"alloc", "free_completed"} <= kinds and not {"free_requested", "snapshot"} & kinds
    history(stacks="python", clear_history=True)
    assert [e["action"] for e in events(memory._snapshot())] == ["snapshot"]
    history(None)
    torch.empty(5, device=device)
    assert events(memory._snapshot()) == []


def test_out_of_memory(history, device):
    history(stacks="python")
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(2**50, dtype=torch.uint8, device=device)
    (oom,) = events(memory._snapshot(), "oom")
    assert oom["size"] == 2**50 and oom["device_free"] > 0 and own_lines(oom["frames"]) and "addr" not in oom


def test_memory_that_another_stream_uses(history, device):
    history(stacks="python")
    side = torch.aule.Stream()
    x = torch.ones(1000, device=device)
    address = x.data_ptr()
    side.wait_stream(torch.aule.current_stream())
    with torch.aule.stream(side):
        x + 1
    x.record_stream(side)
    del x
    torch.aule.synchronize()
    torch.empty(5, device=device)  # the allocator looks at what is pending
    mine = events(memory._snapshot(), "alloc", "free_requested", "free_completed")
    kinds = [e["action"] for e in mine if e["addr"] == address]
    assert kinds[:3] == ["alloc", "free_requested", "free_completed"]


def test_threads(history, device):
    """Threads that allocate while another takes snapshots: stacks need Python's lock, events the allocator's."""
    history(stacks="python", max_entries=50)

    def work():
        for size in range(1, 40):
            (torch.ones(size * 100, device=device, requires_grad=True) * 2).sum().backward()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert len(events(memory._snapshot())) <= 50
    for thread in threads:
        thread.join()


def test_pytorchs_viewer(history, device, tmp_path):
    history(stacks="python")
    net = torch.nn.Sequential(torch.nn.Linear(33, 65), torch.nn.GELU(), torch.nn.Linear(65, 7)).to(device)
    net(torch.randn(9, 33, device=device)).sum().backward()
    path = tmp_path / "memory.pickle"
    memory._dump_snapshot(path)
    found = pickle.loads(path.read_bytes())
    assert set(found) == {"segments", "device_traces", "allocator_settings", "external_annotations"}
    for page in (_memory_viz.trace_plot(found), _memory_viz.segment_plot(found)):
        assert "<script" in page and len(page) > 1000
    assert "entries" in _memory_viz.trace(found) and "segments:" in _memory_viz.segsum(found)
    for command in ("trace", "trace_plot", "segment_plot"):
        out = ["-o", str(tmp_path / f"{command}.html")] if "plot" in command else []
        done = subprocess.run(
            [sys.executable, "-m", "torch.cuda._memory_viz", command, str(path), *out], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr


def test_errors(history, device):
    for wrong in ({"enabled": "some"}, {"context": "frees"}, {"stacks": "cpp"}, {"max_entries": 0},
                  {"skip_actions": ["malloc"]}):  # fmt: skip
        with pytest.raises(ValueError, match=f"record_memory_history: .*{next(iter(wrong))}"):
            history(**wrong)
    with pytest.raises(RuntimeError, match="invalid device"):
        history(device=99)
    with pytest.raises(RuntimeError, match="invalid device"):
        memory._snapshot("aule:99")
    with pytest.raises(OSError):
        memory._dump_snapshot("/nowhere/at/all.pickle")


def test_a_history_that_is_kept_to_the_end():
    """Tensors that go with the interpreter ask for no stack."""
    program = (
        "import torch, torch_aule\n"
        "torch.aule.memory._record_memory_history()\n"
        "x = torch.ones(5, device='aule')\n"
        "torch.kept = [x]\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0 and not done.stderr, done.stderr
