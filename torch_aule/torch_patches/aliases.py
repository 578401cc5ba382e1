"""Other names of operators; each calls the operator itself, gradient and fake kernel included."""

from __future__ import annotations

import torch

__all__ = ["install"]

_NAMES = {"sdpa_decode": "flash_attn_decode", "rope": "rotary_embedding", "paged_attn": "paged_attention"}
_library: torch.library.Library | None = None  # its definitions last as long as it does


def install() -> None:
    """Define ``torch.ops.aule.sdpa_decode``, ``rope`` and ``paged_attn``."""
    global _library
    _library = torch.library.Library("aule", "FRAGMENT")
    for alias, name in _NAMES.items():
        operator = getattr(torch.ops.aule, name).default
        _library.define(str(operator._schema).replace(f"aule::{name}", alias))
        _library.impl(alias, operator, "CompositeImplicitAutograd")
