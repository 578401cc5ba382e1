"""Checks of arguments that several modules share: a device's index, operands under autocast."""

from __future__ import annotations

from typing import TypeVar

import torch

from torch_aule import _C
from torch_aule.errors import VulkanInitError

DeviceLike = torch.device | str | int | None
Operand = TypeVar("Operand", torch.Tensor, torch.Tensor | None)


def _get_device_index(device: DeviceLike, optional: bool = False, allow_cpu: bool = False) -> int:
    """Index of `device`, which may be an int, ``"aule"``, ``"aule:1"``, a torch.device or None.

    Parameters
    ----------
    device
        What the caller passed.
    optional
        Whether None, or a device without an index, stands for the current device.
    allow_cpu
        Whether the CPU is accepted; its index is -1.
    """
    if isinstance(device, int) and not isinstance(device, bool):
        return device
    if isinstance(device, str):
        device = torch.device(device)
    index = None
    if isinstance(device, torch.device):
        if device.type == "cpu" and allow_cpu:
            return -1
        if device.type != "aule":
            raise ValueError(f"expected an aule device, got {device}")
        index = device.index
    elif device is not None:
        raise TypeError(f"expected a device as an int, a str or a torch.device, got {type(device).__name__}")
    if index is None:
        if not optional:
            raise ValueError(f"expected a device with an index, got {device}")
        return _C.current_device()
    return index


def checked_index(device: DeviceLike) -> int:
    """Like :func:`_get_device_index` with ``optional=True``; raises when no such device exists."""
    index = _get_device_index(device, optional=True)
    count = _C.device_count()
    if not 0 <= index < count:
        reason = f" ({_C.unavailable_reason()})" if count == 0 else ""
        text = f"invalid device aule:{index}: {count} aule device(s) are available{reason}"
        raise RuntimeError(text) if count else VulkanInitError(text)
    return index


def autocast_operands(*tensors: Operand) -> tuple[Operand, ...]:
    """Operands in the dtype of ``torch.autocast("aule")`` where that is on, as PyTorch's own products have them.

    float64 and tensors of other devices stay as they are.
    """
    if not torch.is_autocast_enabled("aule"):
        return tensors
    dtype = torch.get_autocast_dtype("aule")

    def cast(t):
        eligible = t is not None and t.device.type == "aule" and t.is_floating_point() and t.dtype != torch.float64
        return t.to(dtype) if eligible else t

    return tuple(map(cast, tensors))
