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
    """``torch.autocast("aule", ...)``."""

    def __init__(self, enabled: bool = True, dtype: torch.dtype | None = None, cache_enabled: bool = True):
        super().__init__("aule", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class GradScaler(torch.amp.GradScaler):
    """``torch.amp.GradScaler("aule", ...)``."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ):
        super().__init__("aule", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
