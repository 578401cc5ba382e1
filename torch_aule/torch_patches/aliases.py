"""Other names of operators; each calls the operator itself, gradient and fake kernel included."""

from __future__ import annotations

import torch

from torch_aule.sampling import sample

__all__ = ["install"]

_NAMES = {"sdpa_decode": "flash_attn_decode", "rope": "rotary_embedding", "paged_attn": "paged_attention"}
_library: torch.library.Library | None = None  # its definitions last as long as it does


def _topk_sample(logits, k, temperature=1.0):
    return sample(logits, temperature, k)[0]


def install() -> None:
    """Define ``torch.ops.aule.sdpa_decode``, ``rope``, ``paged_attn`` and ``topk_sample``."""
    global _library
    _library = torch.library.Library("aule", "FRAGMENT")
    for alias, name in _NAMES.items():
        operator = getattr(torch.ops.aule, name).default
        _library.define(str(operator._schema).replace(f"aule::{name}", alias))
        _library.impl(alias, operator, "CompositeImplicitAutograd")
    _library.define("topk_sample(Tensor logits, int k, float temperature=1.0) -> Tensor")
    _library.impl("topk_sample", _topk_sample, "CompositeImplicitAutograd")
