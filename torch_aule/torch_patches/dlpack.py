"""DLPack: PyTorch's capsules carry tensors of the device, but its Python side does not name the device's DLPack type.

`Tensor.__dlpack_device__` compares the device's type with "privateuse1", the name that a registered backend replaces.
A device tensor is of DLPack's type "extension device", whose memory only this process's PyTorch understands. Another
library gets a copy if it asks for the CPU, as in ``numpy.from_dlpack(x, device="cpu")``; otherwise it refuses it.
"""

from __future__ import annotations

import functools

import torch
from torch.overrides import handle_torch_function, has_torch_function_unary

__all__ = ["install"]


def install(device_type: str) -> None:
    """Wrap `torch.Tensor.__dlpack_device__`."""
    original = torch.Tensor.__dlpack_device__

    @functools.wraps(original)
    def __dlpack_device__(self):
        if has_torch_function_unary(self):
            return handle_torch_function(torch.Tensor.__dlpack_device__, (self,), self)
        if self.device.type != device_type:
            return original(self)
        from torch.utils.dlpack import DLDeviceType

        return DLDeviceType.kDLExtDev, self.device.index

    torch.Tensor.__dlpack_device__ = __dlpack_device__  # type: ignore[method-assign]
