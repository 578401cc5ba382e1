"""Rotary position embedding in one pass."""

from __future__ import annotations

import torch

__all__ = ["apply_rope_separate", "rotary_embedding"]


class _InPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, cos, sin, positions, interleaved):
        ctx.save_for_backward(cos, sin, positions)
        ctx.interleaved = interleaved
        ctx.mark_dirty(x)
        torch.ops.aule.rotary_embedding_(x, cos, sin, positions, interleaved)
        return x

    @staticmethod
    def backward(ctx, grad):
        turned = torch.ops.aule.rotary_embedding(grad, *ctx.saved_tensors, ctx.interleaved, True)
        return turned, None, None, None, None


def rotary_embedding(
    x: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    positions: torch.Tensor | None = None,
    *,
    interleaved: bool = False,
    inplace: bool = False,
) -> torch.Tensor:
    """Turn queries or keys by angles that grow with their position, as RoFormer, GPT-NeoX and Llama do.

    Of each token the first ``2 * half`` elements are turned in pairs, ``(a, b)`` to ``(a cos - b sin, a sin + b cos)``;
    what lies behind them stays. Computed in float32, in one kernel. Differentiable in `x`, any number of times.

    Parameters
    ----------
    x : torch.Tensor
        ``[batch, heads, tokens, size]``, or without the first ones, of any strides; float32, float16 or bfloat16. A
        tensor that has tokens before heads is given as ``x.transpose(1, 2)``, which copies nothing.
    cos, sin : torch.Tensor
        ``[rows, half]``, the cosine and sine of each position's angles, with ``2 * half <= size``.
    positions : torch.Tensor, optional
        ``[tokens]`` or ``[batch, tokens]``, int64 or int32: each token's row of the tables. Without it token ``i`` has
        row ``i``. One that is out of range raises an ``IndexError`` at the next synchronisation.
    interleaved : bool, default False
        Pairs are neighbours, ``2 j`` and ``2 j + 1`` (RoFormer), instead of ``j`` and ``j + half`` (GPT-NeoX, Llama).
    inplace : bool, default False
        Write to `x`, whose last dimension must then be dense.

    Returns
    -------
    torch.Tensor
        As `x`, or `x` itself.

    Raises
    ------
    NotImplementedError
        If `cos` or `sin` require a gradient.
    RuntimeError
        For arguments that do not fit together: shapes, dtypes, an odd last dimension, or more tokens than the tables
        have rows.

    Examples
    --------
    >>> angles = torch.outer(torch.arange(1024), 10000 ** (-torch.arange(0, 64, 2) / 64)).to("aule")
    >>> q = torch.randn(2, 8, 1024, 64, device="aule")
    >>> q = torch_aule.rotary_embedding(q, angles.cos(), angles.sin())
    """
    if cos.requires_grad or sin.requires_grad:
        raise NotImplementedError("rotary_embedding: no gradient for cos and sin; detach them")
    if inplace:
        return _InPlace.apply(x, cos, sin, positions, interleaved)
    return torch.ops.aule.rotary_embedding(x, cos, sin, positions, interleaved)


def turn_neighbours(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """`x` with neighbours as pairs, on the device or elsewhere; the tables have at least a row for each token."""
    if x.device.type == "aule":
        return rotary_embedding(x, cos, sin, interleaved=True)
    cos, sin = (table[: x.size(-2)].float() for table in (cos, sin))
    head, tail = x.float().split([2 * cos.size(-1), x.size(-1) - 2 * cos.size(-1)], dim=-1)
    a, b = head[..., 0::2], head[..., 1::2]
    turned = torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1).flatten(-2)
    return torch.cat((turned, tail), -1).to(x.dtype)


def checked_table(op: str, name: str, table: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """The table without its leading dimension of one."""
    flat = table.squeeze(0) if table.dim() == 3 and table.size(0) == 1 else table
    if flat.dim() != 2 or 2 * flat.size(1) != q.size(-1):
        raise ValueError(
            f"{op}: expected {name} of shape [seq, {q.size(-1) / 2:g}] or [1, seq, {q.size(-1) / 2:g}], half of the "
            f"head size of q, but got {list(table.shape)}"
        )
    return flat


def apply_rope_separate(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Turn queries and keys by the angles of their positions: ``x * cos + rotate_half(x) * sin``.

    Pairs are elements ``j`` and ``j + head_dim / 2``, as in GPT-NeoX and Llama. Differentiable in `q` and `k`.

    Parameters
    ----------
    q, k : torch.Tensor
        ``[batch, heads, tokens, head_dim]``, or without the first ones, on a device aule; float32, float16 or bfloat16.
    cos, sin : torch.Tensor
        ``[seq, head_dim / 2]`` or ``[1, seq, head_dim / 2]``, such as :func:`precompute_rope_frequencies` makes, with
        at least as many rows as tokens. Token ``i`` has row ``i``.

    Returns
    -------
    q, k : torch.Tensor
        As the arguments.

    Raises
    ------
    ValueError, RuntimeError
        For tables that do not fit.

    References
    ----------
    J. Su, Y. Lu, S. Pan, A. Murtadha, B. Wen, Y. Liu, "RoFormer: Enhanced Transformer with Rotary Position Embedding",
    2021, arXiv:2104.09864.
    """
    cos, sin = (checked_table("apply_rope_separate", name, t, q) for name, t in (("cos", cos), ("sin", sin)))
    return rotary_embedding(q, cos, sin), rotary_embedding(k, cos, sin)
