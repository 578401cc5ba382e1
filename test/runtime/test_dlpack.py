"""DLPack: the same memory within PyTorch, a copy for who asks for the CPU, an error for the rest."""

import numpy as np
import pytest
import torch
from torch.utils.dlpack import DLDeviceType, to_dlpack

from helpers import ALL_DTYPES, random_tensor

pytestmark = pytest.mark.validated


@pytest.mark.parametrize("dtype", [*ALL_DTYPES, torch.complex64], ids=str)
@pytest.mark.parametrize("by_capsule", [True, False], ids=["capsule", "tensor"])
def test_within_torch_memory_is_shared(device, dtype, by_capsule):
    x = torch.randn(3, 7, dtype=dtype) if dtype.is_complex else random_tensor(3, 7, dtype=dtype)
    there = x.to(device)
    back = torch.from_dlpack(to_dlpack(there) if by_capsule else there)
    assert back.data_ptr() == there.data_ptr() and back.device == there.device == torch.device("aule:0")
    assert back.dtype == dtype and back.shape == x.shape
    assert torch.equal(torch.view_as_real(back.cpu()) if dtype.is_complex else back.cpu(),
                       torch.view_as_real(x) if dtype.is_complex else x)  # fmt: skip
    there.zero_()
    assert not torch.any(torch.view_as_real(back.cpu()) if dtype.is_complex else back.cpu())


def test_views_and_empty_tensors(device):
    x = torch.randn(4, 5, 6, device=device)
    for view in (x.transpose(0, 2)[1:, ::2], x[2], x[:, :0], x[1, 2, 3], x.expand(2, 4, 5, 6)):
        back = torch.from_dlpack(view)
        assert back.shape == view.shape and torch.equal(back.cpu(), view.cpu())
        # PyTorch itself writes stride 1 where a size is below 2, on every device.
        assert all(a == b for a, b, n in zip(back.stride(), view.stride(), view.shape) if n > 1)


def test_the_import_keeps_the_memory_alive(device):
    x = torch.arange(1000.0, device=device)
    back = torch.from_dlpack(x)
    del x
    others = [torch.full((1000,), -1.0, device=device) for _ in range(20)]
    back += 1
    assert torch.equal(back.cpu(), torch.arange(1.0, 1001.0)) and len(others) == 20
    before = torch.aule.memory_allocated()
    del back
    assert torch.aule.memory_allocated() < before


def test_work_that_is_recorded_comes_first(device):
    """The capsule is made while the work that fills the tensor may not have been submitted."""
    x = torch.zeros(2**16, device=device)
    for _ in range(50):
        x += 1
    back = torch.from_dlpack(x) * 2
    assert back.cpu().unique().tolist() == [100]


def test_device_and_copy(device):
    x = torch.randn(3, 4)
    there = x.to(device)
    assert there.__dlpack_device__() == (DLDeviceType.kDLExtDev, 0)
    assert x.__dlpack_device__() == (DLDeviceType.kDLCPU, 0)
    for where in ("aule", "aule:0", device):
        assert torch.from_dlpack(there, device=where).data_ptr() == there.data_ptr()
        to_device = torch.from_dlpack(x, device=where)
        assert to_device.device.type == "aule" and torch.equal(to_device.cpu(), x)
    assert torch.from_dlpack(there, copy=True).data_ptr() != there.data_ptr()
    host = torch.from_dlpack(there, device="cpu")
    assert host.device.type == "cpu" and torch.equal(host, x)
    with pytest.raises(ValueError, match="without copying"):
        torch.from_dlpack(there, device="cpu", copy=False)
    with pytest.raises(BufferError, match="require gradient"):
        torch.from_dlpack(there.clone().requires_grad_())


def test_numpy(device):
    x = torch.randn(3, 4)
    there = x.to(device)
    with pytest.raises((BufferError, RuntimeError), match="device"):
        np.from_dlpack(there)
    if np.lib.NumpyVersion(np.__version__) >= "2.1.0":
        np.testing.assert_array_equal(np.from_dlpack(there, device="cpu"), x.numpy())
        with pytest.raises((ValueError, BufferError), match="copy"):
            np.from_dlpack(there, device="cpu", copy=False)
    array = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    if torch.__version__ >= "2.13":  # earlier ones may ask numpy to copy to the device
        assert torch.from_dlpack(array, device="aule").tolist() == array.tolist()
    assert torch.from_dlpack(array).to(device).tolist() == array.tolist()
    with pytest.raises(TypeError, match="host memory"):
        np.asarray(there)


def test_subclasses_are_asked(device):
    class Named(torch.Tensor):
        asked = 0

        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            Named.asked += function is torch.Tensor.__dlpack_device__
            return super().__torch_function__(function, types, args, kwargs or {})

    x = torch.ones(3, device=device).as_subclass(Named)
    assert x.__dlpack_device__() == (DLDeviceType.kDLExtDev, 0) and Named.asked == 1
