"""Products with packed weights, as the hooks of several packages need them."""

from __future__ import annotations

import torch

__all__ = ["is_group", "packed_linear"]


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
    y = torch.ops.aule.quantized_linear(x, packed.view(torch.uint8), format, bias if same else None, scales, group)
    return y if same else (y + bias).to(x.dtype)
