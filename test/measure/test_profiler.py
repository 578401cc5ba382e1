"""torch.profiler on the device: times, parents, rows, clocks; labels; what it costs when it is off."""

import json
import threading

import pytest
import torch
import torch.nn as nn
from torch.utils.flop_counter import FlopCounterMode

from torch_aule import profiler


def profiled(function, **options):
    with profiler.profile(**options) as p:
        function()
    return p


def device_events(p):
    return [e for e in p.events() if e.device_type == torch.autograd.DeviceType.PrivateUse1]


def trace_of(p, tmp_path):
    path = tmp_path / "trace.json"
    p.export_chrome_trace(str(path))
    return [e for e in json.loads(path.read_text())["traceEvents"] if e.get("ph") == "X"]


def rows_of(events, category):
    return [e for e in events if e.get("cat") == category]


@pytest.mark.validated
def test_times(device):
    """Device times of products grow with their size, and lie within the wall time of the block."""
    totals = []
    for n in (64, 512):
        a = torch.randn(n, n, device=device)
        (a @ a).sum().item()
        p = profiled(lambda a=a: [a @ a for _ in range(3)])
        mm = next(row for row in p.key_averages() if row.key == "aten::mm")
        assert mm.count >= 3
        totals.append(mm.self_device_time_total)
        kernels = device_events(p)
        assert sum(e.time_range.elapsed_us() for e in kernels) > 0
        assert "AULE" in p.key_averages().table(sort_by="self_device_time_total")
    assert 0 < totals[0] < totals[1]


def test_rows_are_sorted_by_the_name_of_the_device(device):
    """As PyTorch takes the names of its own devices for that of any."""
    x = torch.randn(200, 200, device=device)
    (x @ x).exp().sum().item()
    p = profiled(lambda: (x @ x).exp().sum())
    for rows in (p.key_averages(), p.events()):
        for name in ("device_time_total", "self_device_time_total", "device_time", "self_device_memory_usage"):
            ours = name.replace("device", "aule")
            assert rows.table(sort_by=ours) == rows.table(sort_by=name)
            assert [getattr(row, ours) for row in rows] == [getattr(row, name) for row in rows]
    assert any(row.aule_time_total > 0 for row in p.key_averages())


def test_parents(device, tmp_path):
    """Each kernel belongs to the operator that recorded it, in backward threads too."""
    net = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 8)).to(device)
    x = torch.randn(16, 32, device=device)
    net(x).sum().backward()
    events = trace_of(profiled(lambda: net(x).sum().backward()), tmp_path)
    operators = {e["args"]["External id"]: e["name"] for e in rows_of(events, "cpu_op")}
    kernels = rows_of(events, "kernel")
    assert kernels
    parents = {e["name"]: operators[e["args"]["External id"]] for e in kernels}
    assert all(parents.values())
    assert {"aten::gelu", "aten::gelu_backward"} <= set(parents.values())
    assert {"aten::addmm", "aten::mm"} & set(parents.values())


def test_rows(device, tmp_path):
    """A row for each stream, within the window of the host's operators; copies with bytes and direction."""
    streams = [torch.aule.Stream(), torch.aule.Stream()]
    x = torch.randn(1 << 16, device=device)
    host = torch.randn(1 << 16)

    def work():
        for stream in streams:
            with torch.aule.stream(stream):
                x.exp()
        host.to(device)
        x.cpu()
        torch.zeros(1 << 16, device=device)

    work()
    events = trace_of(profiled(work), tmp_path)
    kernels = rows_of(events, "kernel")
    assert len({e["tid"] for e in kernels if e["args"]["stream"] in {s.stream_id for s in streams}}) == 2
    host_rows = rows_of(events, "cpu_op")
    first, last = min(e["ts"] for e in host_rows), max(e["ts"] + e["dur"] for e in host_rows)
    slack = 2000  # us: clocks without calibration, and a last wait
    for e in kernels:
        assert first - slack <= e["ts"] and e["ts"] + e["dur"] <= last + 200_000
    copies = rows_of(events, "gpu_memcpy")
    names = {e["name"] for e in copies}
    assert {"copy host to device", "copy device to host"} <= names or torch.aule.get_device_properties().unified_memory
    assert all(e["args"]["bytes"] > 0 for e in copies)
    assert {"aule submit", "aule wait"} <= {e["name"] for e in rows_of(events, "privateuse1_runtime")}


def test_annotations(device, tmp_path):
    x = torch.randn(1000, device=device)

    def work():
        with torch.profiler.record_function("outer"):
            with profiler.range("inner"):
                x.exp()
            profiler.mark("here")
        torch.aule.synchronize()

    spans = rows_of(trace_of(profiled(work), tmp_path), "gpu_user_annotation")
    assert {"inner"} <= {e["name"] for e in spans}


def test_ranges_are_of_a_thread():
    assert profiler.range_push("a") == 0 and profiler.range_push("b") == 1
    errors = []

    def other():
        try:
            profiler.range_pop()
        except RuntimeError as error:
            errors.append(error)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert len(errors) == 1
    assert profiler.range_pop() == 1 and profiler.range_pop() == 0


def test_start_and_stop(device, tmp_path):
    with pytest.raises(RuntimeError, match="start"):
        profiler.stop()
    profiler.start(str(tmp_path / "t.json"))
    with pytest.raises(RuntimeError, match="stop"):
        profiler.start()
    torch.ones(10, device=device).sum().item()
    p = profiler.stop()
    assert device_events(p) and (tmp_path / "t.json").stat().st_size > 0


def test_graph(device, tmp_path):
    x = torch.ones(100, device=device)
    graph = torch.aule.Graph()
    with torch.aule.graph(graph):
        for _ in range(5):
            x = x + 1
    events = trace_of(profiled(lambda: (graph.replay(), torch.aule.synchronize())), tmp_path)
    replays = [e for e in rows_of(events, "kernel") if e["name"].startswith("graph replay")]
    assert len(replays) == 1 and replays[0]["args"]["commands"] == 5


def test_schedule_keeps_no_memory(device):
    x = torch.randn(1000, device=device)
    schedule = torch.profiler.schedule(wait=1, warmup=1, active=2, repeat=0)
    counts = []
    with profiler.profile(schedule=schedule, on_trace_ready=lambda p: counts.append(len(device_events(p)))) as p:
        for _ in range(40):
            x.exp().sum().item()
            p.step()
    assert len(counts) == 10 and max(counts[1:]) <= counts[1] + 2 and min(counts) > 0


def test_events_of_autograd_profiler(device):
    x = torch.randn(100, 100, device=device)
    with torch.autograd.profiler.profile(use_device="aule", use_kineto=False) as p:
        x @ x
    row = next(row for row in p.key_averages() if row.key == "aten::mm")
    assert row.self_device_time_total > 0 or row.device_time_total > 0


def test_nothing_without_a_trace(device):
    """After a trace no command is stamped any more."""
    x = torch.randn(100, device=device)
    profiled(lambda: x.exp())
    again = profiled(lambda: None)
    assert not device_events(again)


@pytest.mark.parametrize("key_heads", [4, 2])
def test_flops(device, key_heads):
    """Attention counts as PyTorch counts its own: 2 products forward, 5 backward; and a layer with its activation."""
    q = torch.randn(2, 4, 48, 32, device=device, requires_grad=True)
    k, v = (torch.randn(2, key_heads, 40, size, device=device, requires_grad=True) for size in (32, 32))
    with FlopCounterMode(display=False) as forward:
        out = nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=key_heads != 4)
    with FlopCounterMode(display=False) as backward:
        out.sum().backward()
    product = 2 * 2 * 4 * 48 * 40 * 32
    assert forward.get_total_flops() == 2 * product and backward.get_total_flops() == 5 * product
    x, w = torch.randn(3, 5, 16, device=device), torch.randn(7, 16, device=device)
    with FlopCounterMode(display=False) as linear:
        torch.ops.aule.linear_bias_act(x, w)
    assert linear.get_total_flops() == 2 * 15 * 16 * 7
