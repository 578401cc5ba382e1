"""Names that programs call on torch.cuda: what they do here, or the error that says why not."""

import warnings

import pytest
import torch


@pytest.fixture
def sync_debug_mode():
    yield torch.aule.set_sync_debug_mode
    torch.aule.set_sync_debug_mode(0)


@pytest.mark.parametrize("name", ["utilization", "temperature", "memory_usage", "power_draw", "clock_rate"])
def test_what_vulkan_does_not_tell(name):
    with pytest.raises(NotImplementedError, match="Vulkan has no query"):
        getattr(torch.aule, name)()
    with pytest.raises(RuntimeError, match="invalid device"):
        getattr(torch.aule, name)(99)


def test_peers():
    assert torch.aule.can_device_access_peer(0, "aule:0") is False
    with pytest.raises(RuntimeError, match="invalid device"):
        torch.aule.can_device_access_peer(0, 99)


def test_no_external_stream():
    with pytest.raises(NotImplementedError, match="another library's Vulkan queue"):
        torch.aule.ExternalStream(1234)


def test_old_names_of_memory():
    x = torch.ones(1000, device="aule")
    assert torch.aule.memory_cached() == torch.aule.memory_reserved() >= 4000
    assert torch.aule.max_memory_cached() == torch.aule.max_memory_reserved()
    del x
    torch.aule.empty_cache()
    torch.aule.reset_max_memory_cached()
    assert torch.aule.max_memory_cached() == torch.aule.memory_cached()


pinned_for_cuda = pytest.mark.skipif(
    torch.cuda.is_available(), reason="beside CUDA torch's factories pin memory through it"
)


@pinned_for_cuda
def test_host_memory_stats():
    torch.aule.reset_accumulated_host_memory_stats()
    before = torch.aule.host_memory_stats()
    x = torch.empty(10000, pin_memory=True)
    during = torch.aule.host_memory_stats()
    assert during["active_bytes.current"] - before["active_bytes.current"] >= 40000
    assert during["active_requests.current"] - before["active_requests.current"] == 1
    assert during["active_bytes.peak"] >= during["active_bytes.current"]
    assert during["active_requests.allocated"] == 1
    del x
    torch.aule.reset_peak_host_memory_stats()
    after = torch.aule.host_memory_stats()
    assert after["active_bytes.current"] == before["active_bytes.current"] == after["active_bytes.peak"]
    assert torch.aule.host_memory_stats_as_nested_dict()["active_bytes"]["peak"] == after["active_bytes.peak"]
    torch.aule.reset_accumulated_host_memory_stats()
    assert torch.aule.host_memory_stats()["active_requests.allocated"] == 0


WAITS = {
    "item": lambda x: x[0].item(),
    "cpu": lambda x: x.cpu(),
    "strided": lambda x: x[::2].cpu(),
    "copy": lambda x: torch.empty(8).copy_(x),
    "nonzero": lambda x: x.nonzero(),
    "mask": lambda x: x[x > 0],
    "bool": lambda x: bool((x > 0).any()),
    "tolist": lambda x: x.tolist(),
}


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_sync_debug_mode_finds_waits(wait, sync_debug_mode):
    x = torch.ones(8, device="aule")
    sync_debug_mode("warn")
    assert torch.aule.get_sync_debug_mode() == 1
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        expected = wait(x)
    assert any("synchronizing aule operation" in str(w.message) for w in caught)
    sync_debug_mode(2)
    with pytest.raises(RuntimeError, match="synchronizing aule operation"):
        wait(x)
    sync_debug_mode("default")
    torch.testing.assert_close(wait(x), expected)


@pinned_for_cuda
def test_sync_debug_mode_leaves_the_rest(sync_debug_mode):
    sync_debug_mode("error")
    x = torch.ones(8).to("aule")
    host = torch.empty(8, pin_memory=True)
    host.copy_(x * 2, non_blocking=True)
    torch.aule.synchronize()
    assert host.tolist() == [2.0] * 8
    for mode in (3, "loud", -1):
        with pytest.raises(ValueError, match="the mode is one of"):
            sync_debug_mode(mode)
    assert torch.aule.get_sync_debug_mode() == 2


@pytest.mark.parametrize("name", ["FloatTensor", "LongTensor", "HalfTensor", "BoolTensor", "ByteTensor", "ShortTensor"])
def test_legacy_tensor_types(name):
    kind, on_cpu = getattr(torch.aule, name), getattr(torch, name)
    x = kind([1, 0, 3])
    assert x.device.type == "aule" and x.dtype == on_cpu.dtype
    assert torch.equal(x.cpu(), on_cpu([1, 0, 3]))
    assert isinstance(x, kind) and not isinstance(x.cpu(), kind) and not isinstance(x.double(), kind)
    assert kind(2, 3).shape == (2, 3) and kind().shape == (0,) and kind(torch.Size([4])).shape == (4,)
    assert torch.equal(kind(x), x)
    assert x.type() == f"torch.aule.{name}"
    for wanted in (kind, f"torch.aule.{name}"):
        moved = torch.tensor([2.0, 0.0]).type(wanted)
        assert isinstance(moved, kind) and moved.cpu().tolist() == on_cpu([2, 0]).tolist()
    with pytest.raises(TypeError, match="expected"):
        kind(torch.ones(2))
    with pytest.raises(RuntimeError, match="legacy constructor"):
        kind(2, device="cpu")
