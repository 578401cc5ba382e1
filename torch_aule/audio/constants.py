"""Windows, filters and matrices: computed in float64 on the CPU, rounded once, kept on the device that uses them."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import torch

MOST_KEPT = 64
_kept: dict[Hashable, torch.Tensor] = {}


def constant(make: Callable[..., torch.Tensor], *arguments: Hashable, like: torch.Tensor) -> torch.Tensor:
    """The result of ``make(*arguments)``, with the real dtype and on the device of a tensor; not to be written into."""
    dtype = like.real.dtype  # of a complex one, its parts'
    # A compiler's tensors belong to one graph, and what was made outside does not belong to it.
    if torch.compiler.is_compiling() or type(like) not in (torch.Tensor, torch.nn.Parameter):
        return make(*arguments).to(like.device, dtype)
    key = (make, arguments, dtype, like.device)
    if key not in _kept:
        with torch.inference_mode(False), torch.no_grad():  # gradients may need it later
            made = make(*arguments).to(like.device, dtype)
        while len(_kept) >= MOST_KEPT:
            del _kept[next(iter(_kept))]
        _kept[key] = made
    return _kept[key]


def hann(length: int) -> torch.Tensor:
    """The periodic Hann window, float64."""
    return torch.hann_window(length, dtype=torch.float64)
