"""Families of kernels by name: which ones serve a device, and plans with one of them alone."""

from __future__ import annotations

import torch

from torch_aule import _C
from torch_aule.backend.overrides import override

__all__ = ["available_variants", "set_kernel_variant"]

# Kernel -> the override that chooses its family, and the families.
_KERNELS = {"flash_attn": ("attention_variant", tuple(_C.attention_families()))}


def _kernel(op: str, kernel: str) -> tuple[str, tuple[str, ...]]:
    if kernel not in _KERNELS:
        raise ValueError(f"{op}: expected kernel to be one of {', '.join(_KERNELS)}, but got {kernel!r}")
    return _KERNELS[kernel]


def set_kernel_variant(kernel: str, name: str | None) -> None:
    """Plan a kernel with one family alone, as ``attention_variant`` in ``TORCH_AULE_OVERRIDES`` does from the start.

    The setting is the process's. Calls that the family cannot serve take another one, as they do with the variable.
    :func:`torch_aule.tune.override` sets it for a block.

    Parameters
    ----------
    kernel : str
        ``"flash_attn"``.
    name : str or None
        One of :func:`available_variants`; None: the planner chooses again.

    Raises
    ------
    ValueError
        For a kernel or a family that is none, or one that the current device does not have.

    Examples
    --------
    >>> torch.aule.set_kernel_variant("flash_attn", "simt")
    >>> torch.aule.set_kernel_variant("flash_attn", None)
    """
    op = "set_kernel_variant"
    member, _ = _kernel(op, kernel)
    available = available_variants(kernel) if name is not None else ()
    if name is not None and name not in available:
        raise ValueError(f"{op}: expected name to be one of {', '.join(available)} here, but got {name!r}")
    changed = _C.overrides()
    changed.set(member, name or "")
    _C.set_overrides(changed)


def available_variants(kernel: str, head_dim: int = 64, v_dim: int | None = None, device=None) -> tuple[str, ...]:
    """Names of the families that can serve a kernel on a device.

    Parameters
    ----------
    kernel : str
        ``"flash_attn"``: asked for float16 over 1024 keys, with as many queries and with one.
    head_dim : int, default 64
        Head size of query and key.
    v_dim : int, optional
        Head size of value; that of the query by default.
    device : torch.device, str or int, optional
        Default: the current device.

    Returns
    -------
    tuple of str
        For :func:`set_kernel_variant`; docs/use/attention.md says what each family is. While it looks, the process
        plans with one after the other.

    Raises
    ------
    ValueError
        For a kernel that is none.
    """
    member, names = _kernel("available_variants", kernel)
    index = torch.device("aule" if device is None else device).index
    index = torch.aule.current_device() if index is None else index
    found = []
    for name in names:
        with override(**{member: name}):
            served = (
                torch.ops.aule._attention_variants(head_dim, head_dim if v_dim is None else v_dim, index, queries)
                for queries in (1024, 1)
            )
            if any(f"forward={name}" in passes for passes in served):
                found.append(name)
    return tuple(found)
