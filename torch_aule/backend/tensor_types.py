"""``torch.aule.FloatTensor`` and its kin: the tensor types of old programs, for a device that torch makes none for."""

from __future__ import annotations

import torch

__all__ = ["TYPES"]

_DTYPES = {
    "BFloat16Tensor": torch.bfloat16,
    "BoolTensor": torch.bool,
    "ByteTensor": torch.uint8,
    "CharTensor": torch.int8,
    "DoubleTensor": torch.float64,
    "FloatTensor": torch.float32,
    "HalfTensor": torch.float16,
    "IntTensor": torch.int32,
    "LongTensor": torch.int64,
    "ShortTensor": torch.int16,
}


class _TensorType(type):
    """Its instances are called, and asked with isinstance, like ``torch.FloatTensor``."""

    def __instancecheck__(cls, instance):
        return isinstance(instance, torch.Tensor) and instance.device.type == "aule" and instance.dtype == cls.dtype

    def __call__(cls, *args, device=None):
        device = torch.device("aule" if device is None else device)
        if device.type != "aule":
            raise RuntimeError(f"legacy constructor expects device type aule, but device type {device.type} was passed")
        if len(args) == 1 and isinstance(args[0], torch.Tensor):
            if not isinstance(args[0], cls):
                raise TypeError(f"expected {cls.__name__} (got {args[0].type()})")
            return args[0].detach().view_as(args[0])
        if len(args) == 1 and not isinstance(args[0], (int, torch.Size)):
            return torch.tensor(args[0], dtype=cls.dtype, device=device)
        return torch.empty(*(args or (0,)), dtype=cls.dtype, device=device)


# Named in full: Tensor.type(torch.aule.FloatTensor) goes by the name.
TYPES = {
    name: _TensorType(
        f"torch.aule.{name}",
        (),
        {
            "__doc__": f"The type of tensors of {dtype} on this device: ``isinstance``, ``Tensor.type`` and, as a "
            "call, values or sizes.",
            "__module__": "torch_aule.backend.tensor_types",
            "dtype": dtype,
            "is_sparse": False,
        },
    )
    for name, dtype in _DTYPES.items()
}
