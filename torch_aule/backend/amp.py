"""Mixed precision: shims over ``torch.amp`` with the device filled in.

``torch.autocast("aule")`` without a dtype means float16, as on CUDA, so that a program with a GradScaler behaves as it
does there. bfloat16 needs no scaler and works on every device; ask for it by ``dtype=torch.bfloat16``.
"""

from __future__ import annotations

import torch

__all__ = ["GradScaler", "autocast", "get_amp_supported_dtype"]


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The dtypes that ``torch.autocast("aule", dtype=...)`` accepts."""
    return [torch.float16, torch.bfloat16, torch.float32]


class autocast(torch.amp.autocast):
    """``torch.autocast("aule", ...)``.

    Parameters
    ----------
    enabled : bool, default True
        False: nothing is cast.
    dtype : torch.dtype, optional
        float16, bfloat16 or float32; float16 by default. PyTorch warns of another one and casts nothing.
    cache_enabled : bool, default True
        Whether casts of weights are kept until the context ends.
    """

    def __init__(self, enabled: bool = True, dtype: torch.dtype | None = None, cache_enabled: bool = True):
        super().__init__("aule", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class GradScaler(torch.amp.GradScaler):
    """``torch.amp.GradScaler("aule", ...)``: scales losses so that gradients in float16 do not vanish.

    Parameters
    ----------
    init_scale : float, default 65536
        The first scale.
    growth_factor : float, default 2
        What the scale is multiplied by after `growth_interval` steps without an infinite gradient.
    backoff_factor : float, default 0.5
        What it is multiplied by after a step with one, which is skipped.
    growth_interval : int, default 2000
        In steps.
    enabled : bool, default True
        False: losses and gradients stay as they are.
    """

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ):
        super().__init__("aule", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
