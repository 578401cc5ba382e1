"""Shared by the hooks for packed weights: rows and products with them, and the device of a model of them."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

import torch

from torch_aule.integrations.patch import Patches, attribute, aule_is_default, parameters_of, wrap

__all__ = [
    "FORMAT_OF_BITS", "default_map", "is_group", "loads_by_default", "numbers", "packed_experts", "packed_linear",
    "rows_of", "stays_packed", "zeros_of",
]  # fmt: skip

FORMAT_OF_BITS = {4: "int4", 8: "int8"}  # of numbers without a sign


def numbers(rows: torch.Tensor, bits: int) -> torch.Tensor:
    """Numbers of `bits` bits, 4 or 8, that neighbour in bytes, the first of two in the low half."""
    return torch.stack((rows & 15, rows >> 4), -1).flatten(-2) if bits == 4 else rows


def rows_of(q: torch.Tensor, bits: int) -> torch.Tensor:
    """The bytes that :func:`numbers` was given."""
    return q[..., ::2] | q[..., 1::2] << 4 if bits == 4 else q.contiguous()


def zeros_of(q: torch.Tensor, bits: int) -> torch.Tensor:
    """Zero points or rows of uint8 as the format of `bits` bits has them: int8 has a sign."""
    return (q ^ 128).view(torch.int8) if bits == 8 else q


def is_group(size: int) -> bool:
    """Whether the kernels take groups of this size."""
    return size >= 8 and size & (size - 1) == 0


def packed_linear(
    x: torch.Tensor,
    packed: torch.Tensor,
    format: str,
    scales: list[torch.Tensor],
    group: list[int],
    bias: torch.Tensor | None,
) -> torch.Tensor:
    """``F.linear`` of x with a packed weight; a bias of another dtype is added afterwards."""
    same = bias is None or bias.dtype == x.dtype
    rows = packed if packed.dtype == torch.uint8 else packed.view(torch.uint8)
    y = torch.ops.aule.quantized_linear(x, rows, format, bias if same else None, scales, group)
    return y if same else (y + bias).to(x.dtype)


def packed_experts(
    x: torch.Tensor,
    ids: torch.Tensor,
    weights: torch.Tensor,
    first: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    gate: Callable[[torch.Tensor], torch.Tensor],
    second: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """The layer of experts: rows of x through those that ids [tokens, slots] name, and their sum by weights.

    `first` and `second` multiply rows [m, k] with the weights of their experts [m, slots] -> [m, slots, n].
    """
    tokens, slots = ids.shape
    inner = gate(first(x, ids)).reshape(tokens * slots, -1)
    out = second(inner, ids.reshape(-1, 1)).reshape(tokens, slots, -1)
    return (out * weights.float().unsqueeze(-1)).sum(1).to(x.dtype)


def default_map(device_map: Any) -> Any:
    """A device_map of ``from_pretrained``; without one the whole model goes to aule, if programs would expect that."""
    if device_map is None and aule_is_default():
        return {"": torch.device("aule", torch.aule.current_device())}
    return device_map


def loads_by_default(class_name: str) -> Callable[[ModuleType, Patches], None]:
    """The hook for the device_map of a quantizer of transformers: :func:`default_map`."""

    def install(module: ModuleType, patches: Patches) -> None:
        owner = attribute(module, class_name, type)
        own: Any = getattr(owner, "update_device_map", None)  # some quantizers inherit it
        parameters_of(own, "self", "device_map")

        @wrap(own)
        def update_device_map(self, device_map):
            return own(self, default_map(device_map))

        patches.set(owner, "update_device_map", update_device_map)

    return install


def stays_packed(class_name: str, serves: Callable[[Any], bool]) -> Callable[[ModuleType, Patches], None]:
    """The hook for a quantizer of transformers that makes models dense where it does not know the accelerator."""

    def install(module: ModuleType, patches: Patches) -> None:
        owner = attribute(module, class_name, type)
        own = attribute(owner, "validate_environment", FunctionType)

        @wrap(own)
        def validate_environment(self, *args, **kwargs):
            if self.quantization_config.dequantize or not serves(self) or not aule_is_default():
                return own(self, *args, **kwargs)
            importlib.import_module("accelerate")  # which loads the model

        def update_device_map(self, device_map):
            return device_map if self.quantization_config.dequantize else default_map(device_map)

        patches.set(owner, "validate_environment", validate_environment)
        patches.set(owner, "update_device_map", update_device_map)

    return install
