"""Attention with tensors of the device: the dense call, rotary positions, caches of keys and values, families.

:mod:`torch_aule.functional` has the forms with positions inside, of several lengths and with blocks of a mask.
"""

from torch_aule.attention.flash import (
    active_attention_variants,
    aule_attention,
    flash_attention,
    window_sides,  # noqa: F401  for the forms of attention elsewhere in the package
)

__all__ = ["active_attention_variants", "aule_attention", "flash_attention"]
