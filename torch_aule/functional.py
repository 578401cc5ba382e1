"""Kernels in functional form: attention with positions inside and its tables, sampling, reference kernels."""

from __future__ import annotations

import torch

from torch_aule.attention import flash_attention, window_sides
from torch_aule.attention.positions import (
    alibi_slopes,
    apply_pope,
    linear_rope_frequencies,
    ntk_rope_frequencies,
    precompute_pope_frequencies,
    precompute_rope_frequencies,
    yarn_rope_frequencies,
)
from torch_aule.attention.rotary import apply_rope_separate, checked_table, rotary_embedding
from torch_aule.compat.reference_kernels import diagonal_matmul, fused_linear_rowsum, layer_norm, softmax
from torch_aule.indices import autocast_operands
from torch_aule.sampling import sample

__all__ = [
    "alibi_slopes",
    "apply_pope",
    "apply_rope_separate",
    "block_sparse_attention",
    "diagonal_matmul",
    "flash_attention_rope",
    "fused_linear_rowsum",
    "layer_norm",
    "linear_rope_frequencies",
    "ntk_rope_frequencies",
    "precompute_pope_frequencies",
    "precompute_rope_frequencies",
    "rope",
    "sample",
    "softmax",
    "varlen_attention",
    "yarn_rope_frequencies",
]


def flash_attention_rope(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    causal: bool = True,
    scale: float | None = None,
    window_size: int = -1,
) -> torch.Tensor:
    """Attention of queries and keys that are turned by the angles of their positions (RoPE).

    Two kernels turn queries and keys once, in float32 arithmetic, and the attention kernel follows. Differentiable in
    `q`, `k` and `v`.

    Parameters
    ----------
    q : torch.Tensor
        ``[batch, heads, q_len, head_dim]``, or without batch, on a device aule; float32, float16 or bfloat16;
        `head_dim` is even.
    k, v : torch.Tensor
        ``[batch, kv_heads, k_len, head_dim]``; `kv_heads` divides `heads`.
    cos, sin : torch.Tensor
        ``[seq, head_dim / 2]`` or ``[1, seq, head_dim / 2]``, such as :func:`precompute_rope_frequencies` makes. Query
        and key ``i`` have row ``i``.
    causal : bool, default True
        Query ``i`` sees keys ``j <= i``.
    scale : float, optional
        Factor of the scores, ``1 / sqrt(head_dim)`` by default.
    window_size : int, default -1
        How many keys a query sees, as :func:`torch_aule.flash_attention` counts them: with `causal` the last ones up to
        its own, so that 4 are 3 and its own; else its own and half of the number on each side. -1 means all.

    Returns
    -------
    torch.Tensor
        ``[batch, heads, q_len, head_dim of v]``, in the dtype of `q`.

    Raises
    ------
    TypeError, ValueError, RuntimeError
        For arguments that do not fit together.

    References
    ----------
    J. Su, Y. Lu, S. Pan, A. Murtadha, B. Wen, Y. Liu, "RoFormer: Enhanced Transformer with Rotary Position Embedding",
    2021, arXiv:2104.09864.
    T. Dao, "FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning", 2023, arXiv:2307.08691.

    Examples
    --------
    >>> q, k, v = (torch.randn(2, 8, 1024, 64, device="aule", dtype=torch.float16) for _ in range(3))
    >>> cos, sin = torch_aule.functional.precompute_rope_frequencies(1024, 64, device="aule")
    >>> out = torch_aule.functional.flash_attention_rope(q, k, v, cos, sin)
    """
    op = "flash_attention_rope"
    for name, t in (("q", q), ("k", k), ("v", v), ("cos", cos), ("sin", sin)):
        if t.device.type != "aule":
            raise RuntimeError(f"{op}: expected {name} on device aule, but it is on {t.device}")
    if isinstance(window_size, bool) or not isinstance(window_size, int):
        raise TypeError(f"{op}: expected window_size to be an int, but got {window_size!r}")
    sides = window_sides(op, window_size, causal)
    cos, sin = (checked_table(op, name, t, q) for name, t in (("cos", cos), ("sin", sin)))
    q, k = rotary_embedding(q, cos, sin), rotary_embedding(k, cos, sin)
    return flash_attention(q, k, v, causal, scale, window_size=sides)


def varlen_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seq_q: torch.Tensor,
    cu_seq_k: torch.Tensor,
    max_q: int,
    max_k: int,
    causal: bool = False,
    scale: float | None = None,
    window_size: tuple[int, int] = (-1, -1),
    alibi_slopes: torch.Tensor | None = None,
    return_lse: bool = False,
):
    """Attention within packed sequences, with linear biases (ALiBi) if slopes are given.

    Beside ``torch.nn.attention.varlen.varlen_attn`` it takes `alibi_slopes`, in both directions. Differentiable in `q`,
    `k` and `v`. The lengths stay on the device.

    Parameters
    ----------
    q : torch.Tensor
        ``[total_q, heads, head_dim]``, the sequences one after the other; float32, float16 or bfloat16.
    k, v : torch.Tensor
        ``[total_k, kv_heads, head_dim]``; `kv_heads` divides `heads`.
    cu_seq_q, cu_seq_k : torch.Tensor
        int32 ``[batch + 1]``: where each sequence begins, and where the last one ends.
    max_q, max_k : int
        The longest sequence of queries and of keys, or more.
    causal : bool, default False
        The last query of a sequence sees all of its keys, the one before all but the last, and so on.
    scale : float, optional
        Factor of the scores, ``1 / sqrt(head_dim)`` by default.
    window_size : (int, int), default (-1, -1)
        Keys visible to the left and right of that diagonal; -1 means all.
    alibi_slopes : torch.Tensor, optional
        float32 ``[heads]`` or ``[batch, heads]``: each score loses ``slope * |position of the query - position of the
        key|``, where the last query is at the last key.
    return_lse : bool, default False
        Also return the log-sum-exp of the scores, float32 ``[heads, total_q]``, without a gradient.

    Returns
    -------
    out : torch.Tensor
        ``[total_q, heads, head_dim of v]``; rows that see no key are 0.
    lse : torch.Tensor
        Only with `return_lse`.

    Raises
    ------
    RuntimeError, NotImplementedError
        For arguments that do not fit together, or slopes that require a gradient.

    References
    ----------
    T. Dao, "FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning", 2023, arXiv:2307.08691.
    O. Press, N. A. Smith, M. Lewis, "Train Short, Test Long: Attention with Linear Biases Enables Input Length
    Extrapolation", 2022, arXiv:2108.12409.
    """
    left, right = (int(w) for w in window_size)
    q, k, v = autocast_operands(q, k, v)
    out, lse = torch.ops.aule.varlen_attn(
        q, k, v, cu_seq_q, cu_seq_k, int(max_q), int(max_k), bool(causal), scale, left, right, alibi_slopes
    )
    return (out, lse) if return_lse else out


def _dense_blocks(block_mask) -> tuple[torch.Tensor, tuple[int, int]]:
    """PyTorch's BlockMask as truth values of its blocks, and their sizes."""
    from torch.nn.attention.flex_attention import noop_mask

    if block_mask.mask_mod is not noop_mask and bool(block_mask.kv_num_blocks.any()):
        raise NotImplementedError(
            "block_sparse_attention: expected a BlockMask of whole blocks, but some blocks are partial, which its "
            "mask_mod decides element by element; flex_attention takes those"
        )
    return block_mask.to_dense().bool(), block_mask.BLOCK_SIZE


def block_sparse_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    block_mask,
    block_size: int | tuple[int, int] | None = None,
    causal: bool = False,
    scale: float | None = None,
    return_lse: bool = False,
):
    """Attention over the blocks of queries and keys that a mask keeps.

    Tiles in which nothing is kept are neither loaded nor computed, in both directions, so work grows with the blocks
    that are kept. Differentiable in `q`, `k` and `v`, and through the log-sum-exp. The mask stays on the device.

    Parameters
    ----------
    q : torch.Tensor
        ``[batch, heads, q_len, head_dim]``, or without batch, on a device aule; float32, float16 or bfloat16.
    k, v : torch.Tensor
        ``[batch, kv_heads, k_len, head_dim]``; `kv_heads` divides `heads`.
    block_mask : torch.Tensor or torch.nn.attention.flex_attention.BlockMask
        bool ``[.., blocks of queries, blocks of keys]``, broadcast over batch and heads; True: kept. A ``BlockMask``
        whose blocks are all whole, which is looked at on the host.
    block_size : int or (int, int), optional
        Queries and keys of a block, of a tensor's blocks; the last block of each side may have less. Multiples of 128
        suit the tiles of every kernel. Not beside a ``BlockMask``, which has its own.
    causal : bool, default False
        Query ``i`` sees keys ``j <= i`` of the blocks that are kept.
    scale : float, optional
        Factor of the scores, ``1 / sqrt(head_dim)`` by default.
    return_lse : bool, default False
        Also return the log-sum-exp of the scores, float32 ``[batch, heads, q_len]``.

    Returns
    -------
    out : torch.Tensor
        ``[batch, heads, q_len, head_dim of v]``; rows that see no key are 0.
    lse : torch.Tensor
        Only with `return_lse`; ``-inf`` for a row that sees no key.

    Raises
    ------
    TypeError, ValueError, RuntimeError
        For arguments that do not fit together.
    NotImplementedError
        For a ``BlockMask`` with partial blocks.

    References
    ----------
    R. Child, S. Gray, A. Radford, I. Sutskever, "Generating Long Sequences with Sparse Transformers", 2019,
    arXiv:1904.10509.
    T. Dao, D. Y. Fu, S. Ermon, A. Rudra, C. Re, "FlashAttention: Fast and Memory-Efficient Exact Attention with
    IO-Awareness", 2022, arXiv:2205.14135, section 3.3.

    Examples
    --------
    >>> kept = torch.ones(8, 8, dtype=torch.bool, device="aule").triu(-1).tril(1)
    >>> kept[:, 0] = True  # a window, and the first block for all
    >>> out = torch_aule.functional.block_sparse_attention(q, k, v, kept, block_size=128)
    """
    op = "block_sparse_attention"
    q, k, v = autocast_operands(q, k, v)
    if isinstance(block_mask, torch.Tensor):
        if block_size is None:
            raise ValueError(f"{op}: expected block_size beside a block_mask that is a tensor")
        sizes = (block_size, block_size) if isinstance(block_size, int) else tuple(block_size)
    elif hasattr(block_mask, "kv_num_blocks") and hasattr(block_mask, "BLOCK_SIZE"):
        if block_size is not None:
            raise ValueError(f"{op}: expected no block_size beside a BlockMask, which has its own")
        block_mask, sizes = _dense_blocks(block_mask)
    else:
        raise TypeError(f"{op}: expected block_mask to be a tensor or a BlockMask, but got {type(block_mask).__name__}")
    if len(sizes) != 2:
        raise ValueError(f"{op}: expected block_size of one or two integers, but got {block_size!r}")
    rows, keys = (int(size) for size in sizes)
    out, lse = torch.ops.aule.block_sparse_attn(q, k, v, block_mask, rows, keys, bool(causal), scale)
    if q.dim() == 3:
        lse = lse.squeeze(0)
    return (out, lse) if return_lse else out


#: The name of :func:`apply_rope_separate` in collections of reference kernels.
rope = apply_rope_separate
