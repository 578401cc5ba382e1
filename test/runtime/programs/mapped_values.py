"""Small values between the host and blocks that it sees, or not: `mode` is unified, mapped, window or unmapped.

Prints what must not depend on the mode: statistics and the snapshot of a fixed sequence of allocations.
"""

import json
import os
import sys
import tempfile

import torch

import torch_aule  # noqa: F401
from torch_aule import _C, profiler

mode = sys.argv[1]
MIB = 1 << 20
SEGMENT = 2 * MIB  # of small blocks
DTYPES = [
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex32, torch.complex64, torch.complex128,
    torch.bool, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32,
    torch.uint64, torch.float8_e4m3fn, torch.float8_e5m2,
]  # fmt: skip


def taken() -> int:
    return _C.memory_layout(0)["mapped_bytes"]


def rows_of(work) -> list[str]:
    """Names of the host's spans and of the device's commands while `work` runs."""
    torch.aule.synchronize()
    with profiler.profile() as p:
        work()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        p.export_chrome_trace(path)
        with open(path) as file:
            return [e["name"] for e in json.load(file)["traceEvents"] if e.get("ph") == "X"]


def accounts() -> None:
    torch.aule.empty_cache()
    torch.aule.reset_peak_memory_stats()
    torch.aule.reset_accumulated_memory_stats()
    kept = [torch.empty(n, dtype=torch.uint8, device="aule") for n in (1, 700, MIB, MIB - 5, 3 * MIB, 40, 11 * MIB)]
    del kept[1:4]
    kept.append(torch.ones(300, device="aule"))
    stats = {k: v for k, v in torch.aule.memory_stats().items() if k.split(".")[-1] in ("current", "peak")}
    segments = [
        (s["total_size"], s["allocated_size"], s["segment_type"], [(b["size"], b["state"]) for b in s["blocks"]])
        for s in torch.aule.memory_snapshot()
    ]
    print(json.dumps([stats, sorted(segments)]))


def layout() -> None:
    found = _C.memory_layout(0)
    assert torch.aule.get_device_properties().unified_memory == (mode == "unified")
    assert found["heaps"] and all(heap < len(found["heaps"]) for heap, _ in found["types"])
    if mode in ("unified", "unmapped"):
        assert found["mapped_type"] == -1 and found["mapped_bytes"] == found["mapped_limit_bytes"] == 0
    else:
        heap, flags = found["types"][found["mapped_type"]]
        assert flags & 7 == 7  # local to the device, visible to the host, coherent
        assert found["mapped_limit_bytes"] == (2 * SEGMENT if mode == "window" else found["heaps"][heap][0])
        assert 0 < found["mapped_bytes"] <= found["mapped_limit_bytes"]


def values() -> None:
    for dtype in DTYPES:
        host = torch.tensor([1, 0, 3, 2, 5, 7, 6]).to(dtype)
        mine = host.to("aule")
        for fresh in (True, False):
            for k in range(len(host)):
                if fresh:
                    mine = mine.clone()  # the kernel that writes it is pending
                expected, found = host[k].item(), mine[k].item()
                assert found == expected and type(found) is type(expected), (dtype, found, expected)
            for at in (slice(1, 4), slice(3, None), slice(0, None, 2)):
                if fresh:
                    mine = mine.clone()
                assert mine[at].tolist() == host[at].tolist(), (dtype, at)
                assert torch.equal(mine[at].cpu().view(torch.uint8), host[at].contiguous().view(torch.uint8))
        for k in (0, 5):  # an upload to an odd offset, to an idle stream and behind a kernel; the neighbours stay
            for busy in (False, True):
                if busy:
                    mine = mine.clone()
                else:
                    torch.aule.synchronize()
                mine[k : k + 1].copy_(host[2:3])
                expected = host.clone()
                expected[k : k + 1].copy_(host[2:3])
                assert torch.equal(mine.cpu().view(torch.uint8), expected.view(torch.uint8)), (dtype, k, busy)
                mine = host.to("aule")
    z = torch.tensor(1 + 2j, device="aule")
    assert z.conj().item() == 1 - 2j and z.conj().imag.item() == -2
    assert torch.tensor(3.5, device="aule").item() == 3.5
    assert torch.tensor([[1, 2], [3, 4]], device="aule").tolist() == [[1, 2], [3, 4]]
    for n in (63, 64, 65, 1000, 64 << 10, (64 << 10) + 1, MIB):  # both sides of what goes without a command
        host = (torch.arange(n) * 7 % 251).to(torch.uint8)
        mine = host.to("aule")
        assert torch.equal(mine.cpu(), host)
        mine.bitwise_xor_(255)
        assert torch.equal(mine.cpu(), 255 - host)
        mine.copy_(host)  # behind the copy or the kernel
        assert torch.equal(mine.cpu(), host)


def paths() -> None:
    """Which values go without commands of the device."""
    one = torch.ones((), device="aule")
    one.item()
    names = rows_of(lambda: [one.item() for _ in range(7)])
    assert names.count("aule submit") == names.count("copy device to host") == (7 if mode == "unmapped" else 0), names
    names = rows_of(lambda: [one.add_(1).item() for _ in range(7)])
    assert names.count("copy device to host") == (7 if mode == "unmapped" else 0), names
    assert names.count("aule submit") >= 7
    names = rows_of(lambda: torch.tensor(2.0, device="aule"))
    assert names.count("copy host to device") == (1 if mode == "unmapped" else 0), names
    many = torch.ones(17, device="aule")
    names = rows_of(many.cpu)  # 68 bytes
    assert names.count("copy device to host") == (0 if mode == "unified" else 1), names
    assert one.item() == 8 and many.cpu().sum() == 17


def streams() -> None:
    side = [torch.aule.Stream() for _ in range(3)]
    x = torch.zeros(5, device="aule")
    large = torch.ones(1 << 18, device="aule")
    for k in range(1, 25):
        stream = side[k % 3]
        stream.wait_stream(torch.aule.current_stream())
        with torch.aule.stream(stream):
            large = large.sin()
            x += 1
            event = stream.record_event()
        if k % 4 == 0:
            torch.aule.current_stream().wait_event(event)
        elif k % 4 == 1:
            event.synchronize()
        elif k % 4 == 2:
            while not event.query():
                pass
            torch.aule.current_stream().wait_event(event)  # which need not wait
        else:
            stream.synchronize()
        assert x[k % 5].item() == k, k
        assert x.tolist() == [k] * 5, k
    # An upload behind another stream's work comes before what is read later, on whatever stream.
    for k in range(20):
        with torch.aule.stream(side[0]):
            large = large.cos()
            x.copy_(torch.full((5,), float(k)))
        assert x[1].item() == k
        with torch.aule.stream(side[1]):
            assert x[2].item() == k
    torch.aule.synchronize()
    # Two uploads to one place, from two streams, the first behind work.
    for k in range(20):
        with torch.aule.stream(side[0]):
            large = large.cos()
            x.copy_(torch.full((5,), -1.0))
        with torch.aule.stream(side[1]):
            x.copy_(torch.full((5,), float(k)))
            assert x.tolist() == [k] * 5
    torch.aule.synchronize()


def reuse() -> None:
    addresses = set()
    for k in range(50):
        x = torch.full((4,), float(k), device="aule")
        y = x * 2
        addresses.add(y.data_ptr())
        del x
        z = torch.tensor([k, k + 1], device="aule")  # in the block that `x` had, whose reader may still run
        assert y.tolist() == [2 * k] * 4 and z.tolist() == [k, k + 1]
        del y, z
    assert len(addresses) < 50


def capture() -> None:
    graph = torch.aule.Graph()
    x = torch.ones(3, device="aule")
    for read in (lambda: x[0].item(), x.cpu, lambda: x.copy_(torch.zeros(3)), lambda: torch.tensor(2.0, device="aule")):
        try:
            with torch.aule.graph(graph):
                read()
        except RuntimeError as error:
            assert "captured" in str(error), error
        else:
            raise AssertionError("no error")
    assert x.tolist() == [1, 1, 1]
    graph = torch.aule.Graph()
    with torch.aule.graph(graph):
        y = x + 1
    for k in range(5):
        x.copy_(torch.full((3,), float(k)))
        graph.replay()
        assert y[k % 3].item() == k + 1 and y.tolist() == [k + 1] * 3


def errors() -> None:
    table, x = torch.arange(10.0, device="aule"), torch.ones((), device="aule")
    for wait in (False, True):
        table[torch.tensor([3, 12], device="aule")]
        if wait:
            stream = torch.aule.current_stream()
            while not stream.query():
                pass
        try:
            x.item()
        except IndexError as error:
            assert "12" in str(error) and "10" in str(error), error
        else:
            raise AssertionError("no error")
        assert x.item() == 1


def falls_back() -> None:
    """Without memory that the host sees, blocks are in other memory of the device."""
    torch.aule.synchronize()
    torch.aule.empty_cache()
    before = taken()

    def segment(values: int = 1):  # of small blocks: one is all in use, so that the next block needs another
        return [torch.full((MIB // 4,), float(k + values), device="aule") for k in range(2)]

    if mode in ("mapped", "window"):
        _C.inject_allocation_failures(1, SEGMENT)  # what is refused is the host's view of it alone
        blocks = [segment()]
        _C.inject_allocation_failures(0, 0)
        assert taken() == before
        blocks += [segment(3), segment(5), segment(7)]
        limit = _C.memory_layout(0)["mapped_limit_bytes"]
        assert taken() == min(limit, before + 3 * SEGMENT), (before, taken())
    else:
        blocks = [segment(1), segment(3), segment(5), segment(7)]
        assert taken() == 0
    found = [b[0].item() for pair in blocks for b in pair]
    assert found == [1, 2, 3, 4, 5, 6, 7, 8], found
    for pair in blocks:
        for b in pair:
            b[7:9].copy_(torch.tensor([9.0, 10.0]))
            assert b[6:10].tolist() == [b[0].item(), 9, 10, b[0].item()]
    del blocks, pair, b
    torch.aule.empty_cache()
    assert taken() <= before


accounts()
layout()
values()
paths()
streams()
reuse()
capture()
errors()
falls_back()
