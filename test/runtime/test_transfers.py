"""Transfers with priorities: torch_aule.backend.transfers."""

import pytest
import torch

from helpers import in_threads
from torch_aule.backend.transfers import TransferEngine

pytestmark = pytest.mark.validated


@pytest.mark.parametrize("pinned", [False, True])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 5), (1023,), (7, 300, 11)])
def test_both_ways_with_and_without_staging(device, shape, pinned):
    engine = TransferEngine(device, piece_bytes=1000)  # odd pieces, down to one byte
    for dtype in (torch.float32, torch.float16, torch.uint8, torch.complex64):
        source = torch.rand(shape).mul(200).to(dtype)
        source = source.pin_memory() if pinned else source
        there = torch.empty(shape, dtype=dtype, device=device)
        back = torch.empty(shape, dtype=dtype, pin_memory=pinned)
        up = engine.enqueue(source, there)
        up.wait()
        down = engine.enqueue(there, back)
        down.wait()
        assert torch.equal(back, source) and torch.equal(there.cpu(), source)
        assert up.state == down.state == "COMPLETED" and up.bytes == source.nbytes
    assert engine.stats()["to_device"]["completed"] == engine.stats()["to_host"]["completed"] == 4


def test_offset_views_and_other_bytes_stay(device):
    engine = TransferEngine(device, piece_bytes=256)
    base, source = torch.full((50, 20), -1.0, device=device), torch.rand(60, 20)
    engine.enqueue(source[7:37], base[11:41]).wait()
    assert torch.equal(base[11:41].cpu(), source[7:37])
    assert bool((base[:11] == -1).all()) and bool((base[41:] == -1).all())
    host = torch.full((50, 20), -2.0)
    engine.enqueue(base[12:20], host[5:13]).wait()
    assert torch.equal(host[5:13], source[8:16]) and bool((host[:5] == -2).all()) and bool((host[13:] == -2).all())


def test_a_higher_priority_overtakes_between_pieces(device):
    """Only calls of the engine move it on, so what is queued when the device is asked is known."""
    engine = TransferEngine(device, piece_bytes=1 << 16, depth=1)
    sources = [torch.rand(1 << 16) for _ in range(4)]  # four pieces each
    targets = [torch.empty(1 << 16, device=device) for _ in sources]
    first, low, high, equal = (engine.enqueue(s, t, p) for s, t, p in zip(sources, targets, (0, -1, 5, 5)))
    order, left = [], {"first": first, "low": low, "high": high, "equal": equal}
    while left:
        for name in [name for name, transfer in left.items() if transfer.state == "COMPLETED"]:
            order.append(name)
            del left[name]
    assert order == ["high", "equal", "first", "low"]  # the first one was overtaken after its first pieces
    assert all(torch.equal(t.cpu(), s) for s, t in zip(sources, targets))


def test_what_is_queued_can_be_cancelled(device):
    engine = TransferEngine(device, piece_bytes=1 << 16, depth=1)
    source, there, kept = torch.rand(1 << 20), torch.empty(1 << 20, device=device), torch.zeros(64, device=device)
    running = engine.enqueue(source, there)
    waiting = engine.enqueue(torch.ones(64), kept, priority=-1)
    assert running.state == "RUNNING" and not running.cancel() and waiting.state == "QUEUED"
    row = engine.stats()["to_device"]
    assert (row["queued"], row["running"], row["completed"]) == (1, 1, 0)
    assert waiting.cancel() and not waiting.cancel() and waiting.state == "CANCELLED"
    waiting.wait()  # nothing to wait for
    engine.synchronize()
    assert running.state == "COMPLETED" and kept.sum().item() == 0
    row = engine.stats()["to_device"]
    assert (row["queued"], row["running"], row["completed"], row["cancelled"]) == (0, 0, 1, 1)
    assert row["bytes"] == source.nbytes and row["seconds"] > 0 and row["deepest_queue"] >= 1
    assert engine.stats()["to_host"]["bytes"] == 0


def test_transfers_follow_the_current_stream(device):
    engine = TransferEngine(device)
    back = torch.empty(300, 300)
    for i in range(5):
        x = torch.rand(300, 300, device=device)
        for _ in range(5):
            x = x @ x * 0.01
        x.fill_(i)
        engine.enqueue(x, back).wait()
        assert bool((back == i).all())


def test_tensors_live_until_their_transfer_has_ended(device):
    engine = TransferEngine(device, piece_bytes=1 << 14)
    wanted, back = torch.rand(1 << 14), torch.empty(1 << 14)
    x = wanted.to(device)
    transfer = engine.enqueue(x, back)
    del x
    torch.full((1 << 14,), -1.0, device=device)  # would take the memory
    transfer.wait()
    assert torch.equal(back, wanted)
    engine.enqueue(torch.rand(1 << 16), torch.empty(1 << 16, device=device))
    del engine, transfer  # with a copy under way
    torch.aule.synchronize()


def test_threads_share_an_engine(device):
    engine = TransferEngine(device, piece_bytes=1 << 12)

    def work(i):
        for j in range(5):
            source, there = torch.full((3000,), float(10 * i + j)), torch.empty(3000, device=device)
            engine.enqueue(source, there, priority=i).wait()
            back = torch.empty(3000)
            engine.enqueue(there, back, priority=j).wait()
            assert torch.equal(back, source)

    in_threads(work)
    assert engine.stats()["to_host"]["completed"] == 20


def test_overlap_is_measured(device):
    x, source = torch.rand(200, 200, device=device), torch.rand(1 << 16)
    row = TransferEngine(device).measure_overlap(lambda: x @ x, source, torch.empty(1 << 16, device=device))
    assert min(row["work_ms"], row["copy_ms"], row["both_ms"]) > 0 and 0 <= row["hidden"] <= 1


def test_wrong_arguments_raise(device):
    engine, host, there = TransferEngine(device), torch.rand(4, 3), torch.empty(4, 3, device=device)
    for src, dst, what in [
        (host, host, "one tensor of aule and one of the CPU"),
        (there, there, "one tensor of aule and one of the CPU"),
        (host, there.double(), "one dtype and shape"),
        (host[:3], there, "one dtype and shape"),
        (host.t(), torch.empty(3, 4, device=device), "contiguous"),
    ]:
        with pytest.raises(ValueError, match=f"TransferEngine.enqueue: expected.*{what}"):
            engine.enqueue(src, dst)
    with pytest.raises(RuntimeError, match="requires no gradient"):
        engine.enqueue(host, torch.empty(4, 3, device=device, requires_grad=True))
    with pytest.raises(ValueError, match="at least 1"):
        TransferEngine(device, depth=0)
    version = there._version
    engine.enqueue(host, there).wait()
    assert there._version == version + 1
