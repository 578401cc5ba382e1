"""Functions that may change without notice: attention over the keys that come first in an order."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from torch_aule.attention import window_sides
from torch_aule.attention.rotary import apply_rope_separate

__all__ = ["gravity_attention", "spatial_sort"]


def spatial_sort(keys: torch.Tensor, values: torch.Tensor, sort_dim: int = 0) -> torch.Tensor:
    """The order of keys along one of their features.

    Parameters
    ----------
    keys : torch.Tensor
        ``[batch, heads, seq, head_dim]``.
    values : torch.Tensor
        ``[batch, heads, seq, v_dim]``: only its first three sizes are looked at.
    sort_dim : int, default 0
        The feature of `keys`, from ``-head_dim`` to ``head_dim - 1``.

    Returns
    -------
    torch.Tensor
        int64 ``[batch, heads, seq]``: positions of keys, smallest feature first; of equal ones the first stays first.

    Raises
    ------
    ValueError
        For shapes that do not fit together, or a feature that is not there.
    """
    if keys.dim() != 4 or values.dim() != 4 or keys.shape[:3] != values.shape[:3]:
        raise ValueError(
            "spatial_sort: expected keys and values of shape [batch, heads, seq, dim], but got "
            f"{list(keys.shape)} and {list(values.shape)}"
        )
    if not -keys.size(-1) <= sort_dim < keys.size(-1):
        raise ValueError(f"spatial_sort: expected sort_dim within {keys.size(-1)} features, but got {sort_dim}")
    return torch.sort(keys[..., sort_dim], dim=-1, stable=True).indices


def gravity_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    indices: torch.Tensor,
    rot_cos: torch.Tensor | None = None,
    rot_sin: torch.Tensor | None = None,
    causal: bool = False,
    max_attend: int | None = None,
    window_size: int = -1,
) -> torch.Tensor:
    """Attention over the first `max_attend` keys of an order, such as :func:`spatial_sort` gives.

    Causality and window are of the keys' positions in the sequence, not of those in the order.

    Parameters
    ----------
    q : torch.Tensor
        ``[batch, heads, q_len, head_dim]``.
    k, v : torch.Tensor
        ``[batch, heads, k_len, head_dim]``.
    indices : torch.Tensor
        int64 ``[batch, heads, k_len]``.
    rot_cos, rot_sin : torch.Tensor, optional
        Rotary tables ``[seq, head_dim / 2]``, applied to `q` and `k` at their positions first.
    causal : bool, default False
        A query sees keys up to its own position.
    max_attend : int, optional
        Default: all keys.
    window_size : int, default -1
        Keys that a query sees around its position; -1: no window.

    Returns
    -------
    torch.Tensor
        ``[batch, heads, q_len, v_dim]``. A query that sees none of the keys has a row of zeros.

    Raises
    ------
    ValueError
        For shapes that do not fit together, one table without the other, or a `max_attend` below 1.
    """
    if indices.shape != k.shape[:-1]:
        raise ValueError(
            f"gravity_attention: expected indices of shape {list(k.shape[:-1])}, but got {list(indices.shape)}"
        )
    if (rot_cos is None) != (rot_sin is None):
        raise ValueError("gravity_attention: expected rot_cos and rot_sin together")
    count = k.size(-2) if max_attend is None else min(max_attend, k.size(-2))
    if max_attend is not None and max_attend < 1:
        raise ValueError(f"gravity_attention: expected max_attend of at least 1, but got {max_attend}")
    if rot_cos is not None and rot_sin is not None:
        q, k = apply_rope_separate(q, k, rot_cos, rot_sin)
    first = indices[..., :count]
    k, v = (t.gather(2, first.unsqueeze(-1).expand(*first.shape, t.size(-1))) for t in (k, v))
    left, right = window_sides("gravity_attention", window_size, causal)
    mask = None
    if causal or left >= 0 or right >= 0:
        distance = torch.arange(q.size(-2), device=q.device).view(-1, 1) - first.unsqueeze(-2)  # query less key
        mask = distance >= 0 if causal else torch.ones_like(distance, dtype=torch.bool)
        if left >= 0:
            mask = mask & (distance <= left)
        if right >= 0:
            mask = mask & (-distance <= right)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
