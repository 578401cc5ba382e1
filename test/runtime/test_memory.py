"""The caching allocator through torch.aule and torch.accelerator: statistics, reuse, pinned memory."""

import gc

import pytest
import torch

pytestmark = [pytest.mark.smoke, pytest.mark.validated]

MIB = 2**20


@pytest.fixture(autouse=True)
def clean(device):
    gc.collect()
    torch.aule.synchronize()
    torch.aule.empty_cache()
    torch.aule.reset_peak_memory_stats()


def test_allocated_and_reserved(device):
    before = torch.aule.memory_allocated()
    x = torch.empty(8 * MIB, dtype=torch.uint8, device=device)
    assert torch.aule.memory_allocated() - before == 8 * MIB
    assert torch.aule.memory_reserved() >= torch.aule.memory_allocated()
    del x
    assert torch.aule.memory_allocated() == before
    assert torch.aule.max_memory_allocated() >= before + 8 * MIB
    reserved = torch.aule.memory_reserved()
    assert reserved >= 8 * MIB
    torch.aule.empty_cache()
    assert torch.aule.memory_reserved() < reserved
    assert torch.aule.max_memory_reserved() >= reserved
    torch.aule.reset_peak_memory_stats()
    assert torch.aule.max_memory_allocated() == torch.aule.memory_allocated()
    assert torch.accelerator.memory_allocated() == torch.aule.memory_allocated()
    assert torch.accelerator.memory_reserved() == torch.aule.memory_reserved()


def test_freed_memory_is_reused_on_its_stream(device):
    x = torch.empty(3 * MIB, device=device)
    address = x.data_ptr()
    del x
    reserved = torch.aule.memory_reserved()
    for _ in range(20):
        y = torch.empty(3 * MIB, device=device)
        assert y.data_ptr() == address
        y.fill_(1)
        del y
    assert torch.aule.memory_reserved() == reserved


def test_stats_keys_and_summary(device):
    keep = torch.ones(1000, device=device)
    stats = torch.aule.memory_stats()
    for key in ("allocated_bytes.all.current", "reserved_bytes.large_pool.peak", "active.small_pool.allocated",
                "inactive_split_bytes.all.freed", "segment.all.current", "num_ooms", "num_alloc_retries"):  # fmt: skip
        assert key in stats, key
    assert (
        torch.aule.memory_stats_as_nested_dict()["allocated_bytes"]["all"]["current"]
        == stats["allocated_bytes.all.current"]
    )
    allocated = stats["allocation.all.allocated"]
    torch.aule.reset_accumulated_memory_stats()
    assert torch.aule.memory_stats()["allocation.all.allocated"] < allocated
    text = torch.aule.memory_summary()
    assert "reserved memory" in text and torch.aule.get_device_name() in text
    assert len(torch.aule.memory_summary(abbreviated=True)) < len(text)
    assert torch.accelerator.memory_stats()["allocated_bytes.all.current"] == torch.aule.memory_allocated()
    del keep


def test_snapshot(device):
    keep = torch.ones(1000, device=device)
    segments = torch.aule.memory_snapshot()
    assert sum(s["total_size"] for s in segments) == torch.aule.memory_reserved()
    assert sum(s["allocated_size"] for s in segments) == torch.aule.memory_allocated()
    for s in segments:
        assert sum(b["size"] for b in s["blocks"]) == s["total_size"]
        assert s["address"] == s["blocks"][0]["address"]
    at = keep.data_ptr()
    assert any(b["address"] == at and b["requested_size"] == 4000 for s in segments for b in s["blocks"])


def test_mem_get_info(device):
    free, total = torch.aule.mem_get_info()
    assert 0 < free <= total
    assert torch.accelerator.get_memory_info()[1] == total
    assert torch.aule.recommended_max_memory() == total
    torch.aule.ipc_collect()


def test_memory_fraction(device):
    torch.aule.empty_cache()
    total = torch.aule.mem_get_info()[1]
    kept = torch.aule.memory_reserved() / total  # tables of other tests' kernels stay
    torch.aule.set_per_process_memory_fraction(kept + 0.05)
    try:
        assert torch.aule.get_per_process_memory_fraction() == pytest.approx(kept + 0.05)
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(int(total * 0.1), dtype=torch.uint8, device=device)
        assert torch.ones(10, device=device).cpu().sum().item() == 10
    finally:
        torch.aule.set_per_process_memory_fraction(1.0)
    torch.aule.set_per_process_memory_fraction(0)  # as torch.cuda: nothing more is reserved
    try:
        assert torch.aule.get_per_process_memory_fraction() == 0
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(int(total * 0.05), dtype=torch.uint8, device=device)
    finally:
        torch.aule.set_per_process_memory_fraction(1.0)
    for bad in (-0.1, 1.5):
        with pytest.raises(ValueError):
            torch.aule.set_per_process_memory_fraction(bad)
    with pytest.raises(TypeError):
        torch.aule.set_per_process_memory_fraction("half")


def test_under_pressure_the_least_recently_used_segment_goes(device):
    first, second, third = (torch.empty(64 * MIB, dtype=torch.uint8, device=device) for _ in range(3))
    addresses = [t.data_ptr() for t in (first, second, third)]
    del second, first, third  # in the order of their last use
    limit = torch.aule.memory_reserved() + 40 * MIB
    torch.aule.set_per_process_memory_fraction(limit / torch.aule.mem_get_info()[1])
    try:
        larger = torch.empty(96 * MIB, dtype=torch.uint8, device=device)  # fits into none, and once one is gone
        kept = {s["address"] for s in torch.aule.memory_snapshot()}
        assert [a in kept for a in addresses] == [True, False, True]
        assert larger.numel() and torch.aule.memory_reserved() <= limit
    finally:
        torch.aule.set_per_process_memory_fraction(1.0)


def test_cached_segments_leave_room_for_chunks_of_streams(device):
    """Which may come from the same heap: they would fail with nothing in use but the cache."""
    torch.aule.empty_cache()
    free, total = torch.aule.mem_get_info()
    room = min(128 << 20, total // 16)
    for i in range(64):  # each is too large for those before it
        torch.empty(total // 40 + i * (4 << 20), dtype=torch.uint8, device=device)
    torch.aule.synchronize()
    assert torch.aule.memory_reserved() > free // 2, "the cache did not grow"
    assert torch.aule.mem_get_info()[0] >= room
    torch.aule.empty_cache()


def test_zero_bytes(device):
    before = torch.aule.memory_allocated()
    x = torch.empty(0, 5, device=device)
    assert x.cpu().shape == (0, 5) and torch.aule.memory_allocated() == before
    assert torch.empty(3, 0, device=device).clone().shape == (3, 0)


def test_split_and_merge(device):
    parts = [torch.empty(MIB + i * 4096, dtype=torch.uint8, device=device) for i in range(12)]
    for i in (1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10):
        parts[i] = None
    free = [b for s in torch.aule.memory_snapshot() for b in s["blocks"] if b["state"] == "inactive"]
    for segment in torch.aule.memory_snapshot():
        states = [b["state"] for b in segment["blocks"]]
        assert ("inactive", "inactive") not in zip(states, states[1:]), "neighbouring free blocks were not merged"
    assert free


def test_values_survive_churn(device):
    """Blocks that are freed and reused while work is in flight never leak one tensor's values into another."""
    kept = []
    for i in range(200):
        x = torch.full((257 + 31 * (i % 7),), float(i), device=device)
        y = x.clone()
        if i % 5 == 0:
            kept.append((i, y))
        del x, y
    for i, y in kept:
        assert torch.equal(y.cpu(), torch.full(y.shape, float(i)))


def state_of(address):
    blocks = (b for s in torch.aule.memory_snapshot() for b in s["blocks"])
    return next(b["state"] for b in blocks if b["address"] <= address < b["address"] + b["size"])


def test_record_stream(device):
    side = torch.Stream(device=device)
    x = torch.full((MIB,), 3.0, device=device)
    plain = torch.ones(MIB, device=device)
    side.wait_stream(torch.aule.current_stream())
    with torch.aule.stream(side):
        y = x.clone()
    x.record_stream(side)
    addresses = x.data_ptr(), plain.data_ptr()
    del x, plain
    # The other stream has still to pass it; what one stream alone used is free at once.
    assert [state_of(a) for a in addresses] == ["active_pending_free", "inactive"]
    z = torch.full((MIB,), 4.0, device=device)
    side.synchronize()
    assert y.cpu().unique().tolist() == [3.0] and z.cpu().unique().tolist() == [4.0]
    w = torch.full((MIB,), 5.0, device=device)  # an allocation looks after what is pending
    assert state_of(addresses[0]) != "active_pending_free" and w[0].item() == 5


# --- pinned memory ------------------------------------------------------------------------------------------------


def test_pinned(device):
    x = torch.randn(1000).pin_memory()
    assert x.is_pinned() and x[10:].is_pinned() and not torch.randn(3).is_pinned()
    cuda = torch.cuda.is_available()  # then torch's factories pin through CUDA, whatever the current accelerator is
    assert cuda or torch.empty(5, pin_memory=True).is_pinned()
    y = x.to(device, non_blocking=True)
    assert torch.equal(y.cpu(), x)
    back = torch.empty(1000).pin_memory()
    back.copy_(y, non_blocking=True)
    torch.aule.synchronize()
    assert torch.equal(back, x)
    if hasattr(torch.accelerator, "empty_host_cache"):  # torch 2.12 and later
        torch.accelerator.empty_host_cache()


def test_pinned_block_is_not_reused_before_its_copy(device):
    targets = []
    for i in range(50):
        source = torch.full((100_000,), float(i)).pin_memory()
        targets.append(source.to(device, non_blocking=True))
        del source  # the next pinned tensor must not take its memory while the copy is recorded only
    for i, t in enumerate(targets):
        assert t[0].item() == i and t[-1].item() == i


def test_non_blocking_to_cpu(device):
    x = torch.arange(5000, device=device, dtype=torch.float32)
    y = (x.clone()).to("cpu", non_blocking=True)
    torch.aule.synchronize()
    assert torch.equal(y, torch.arange(5000, dtype=torch.float32))


def test_dataloader_pins(device):
    data = torch.utils.data.TensorDataset(torch.arange(64.0).reshape(32, 2), torch.arange(32))
    for workers in (0, 1):
        seen = []
        for x, y in torch.utils.data.DataLoader(data, batch_size=8, pin_memory=True, num_workers=workers):
            assert x.is_pinned() and y.is_pinned()
            seen.append(x.to(device, non_blocking=True))
        assert torch.equal(torch.cat(seen).cpu(), data.tensors[0])


def test_bytes_do_not_leak(device):
    gc.collect()
    before = torch.aule.memory_allocated()
    for _ in range(50):
        x = torch.randn(100, 10, device=device, requires_grad=True)
        (x.clone() + 0).sum().backward()
    del x
    gc.collect()
    torch.aule.synchronize()
    assert torch.aule.memory_allocated() == before
