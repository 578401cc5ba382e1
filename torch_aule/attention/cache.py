"""Attention over a cache of keys and values: one that is a tensor per sequence, and one in pages."""

from __future__ import annotations

import torch

from torch_aule.errors import InvalidShapeError

__all__ = ["flash_attn_with_kvcache", "paged_attention"]


def _lengths(cache_seqlens: int | torch.Tensor | None, q: torch.Tensor) -> torch.Tensor | None:
    if cache_seqlens is None:
        return None
    if isinstance(cache_seqlens, torch.Tensor):
        if cache_seqlens.is_floating_point() or cache_seqlens.is_complex() or cache_seqlens.dtype is torch.bool:
            raise TypeError(
                f"flash_attn_with_kvcache: expected cache_seqlens of integers, but got {cache_seqlens.dtype}"
            )
        return cache_seqlens.to(torch.int32)
    return torch.full((q.size(0),), int(cache_seqlens), dtype=torch.int32, device=q.device)


def flash_attn_with_kvcache(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    k: torch.Tensor | None = None,
    v: torch.Tensor | None = None,
    *,
    rotary_cos: torch.Tensor | None = None,
    rotary_sin: torch.Tensor | None = None,
    cache_seqlens: int | torch.Tensor | None = None,
    block_table: torch.Tensor | None = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    rotary_interleaved: bool = True,
    alibi_slopes: torch.Tensor | None = None,
    num_splits: int = 0,
    return_softmax_lse: bool = False,
    k_scale: torch.Tensor | None = None,
    v_scale: torch.Tensor | None = None,
):
    """Attention of a few new queries over the keys and values cached so far, as FlashAttention's function of that name.

    The lengths are read by the kernel, not by the host: nothing waits, and a captured graph
    (``torch.accelerator.Graph``) replays with whatever `cache_seqlens` holds then. Work is split over the keys so that
    one sequence fills a GPU. There is no gradient.

    Parameters
    ----------
    q : torch.Tensor
        ``[batch, q_len, heads, head_dim]``; float32, float16 or bfloat16.
    k_cache, v_cache : torch.Tensor
        ``[batch, capacity, kv_heads, head_dim]``, or pages ``[pages, page_size, kv_heads, head_dim]`` with
        `block_table`.
    k, v : torch.Tensor, optional
        ``[batch, n, kv_heads, head_dim]``: written into the cache after the `cache_seqlens` rows that it holds, in
        place, before the attention, which then sees them.
    rotary_cos, rotary_sin : torch.Tensor, optional
        ``[rows, half]`` with ``2 * half <= head_dim``: cosine and sine of the angles by which `k` and `q` are turned
        first. Token ``i`` of `k` and of `q` has the angles of its row in the cache, ``cache_seqlens + i``. Needs `k`,
        with as many tokens as `q`.
    cache_seqlens : int or torch.Tensor, optional
        Integers ``[batch]``: rows of the cache in use; by default all of them.
    block_table : torch.Tensor, optional
        int32 ``[batch, most pages of a sequence]``: which page holds rows ``[i * page_size, (i + 1) * page_size)``.
        Needs `cache_seqlens`.
    softmax_scale : float, optional
        Factor of the scores, ``1 / sqrt(head_dim)`` by default.
    causal : bool, default False
        The last query sees every key, the one before all but the last, and so on.
    window_size : (int, int), default (-1, -1)
        Keys visible to the left and right of that diagonal; -1 means all.
    softcap : float, default 0.0
        If positive, scores become ``softcap * tanh(scores / softcap)``.
    rotary_interleaved : bool, default True
        Pairs that are turned are neighbours, as in FlashAttention, instead of ``j`` and ``j + half`` (Llama).
    alibi_slopes : torch.Tensor, optional
        float32 ``[heads]`` or ``[batch, heads]``, such as :func:`torch_aule.functional.alibi_slopes` makes: each score
        loses ``slope * |position of the query - position of the key|`` (ALiBi).
    num_splits : int, default 0
        Parts of the keys that are worked on side by side; 0 chooses, 1 makes results independent of the batch.
    return_softmax_lse : bool, default False
        Also return the log-sum-exp of the scores, float32 ``[batch, heads, q_len]``.
    k_scale, v_scale : torch.Tensor, optional
        bfloat16 ``[.., kv_heads, head_dim / 32]``, of caches in int8, which `k` and `v` are rounded to: each 32 numbers
        of a row are multiples of one scale, and off by at most a 252th of the largest of them. Both caches and scales
        are contiguous, and head sizes multiples of 32.

    Returns
    -------
    out : torch.Tensor
        ``[batch, q_len, heads, head_dim]``; rows that see no key are 0.
    lse : torch.Tensor
        Only with `return_softmax_lse`.

    Raises
    ------
    TypeError, ValueError, RuntimeError
        For arguments that do not fit together: shapes, dtypes (lengths and pages are integers), devices, `k` without
        `v`, or `k` without `cache_seqlens`. The kernel's own checks come after `k` and `v` have been written.
    IndexError
        At the next synchronisation, for rows past the cache, or past the tables of angles. They are not written.

    References
    ----------
    T. Dao, D. Haziza, F. Massa, G. Sizov, "Flash-Decoding for long-context inference", 2023.

    Examples
    --------
    >>> used = torch.tensor([5, 9], dtype=torch.int32, device="aule")  # rows of each sequence in the cache
    >>> out = torch_aule.flash_attn_with_kvcache(q, k_cache, v_cache, k, v, cache_seqlens=used, causal=True)
    >>> used += k.size(1)
    """
    if q.dim() != 4:
        raise InvalidShapeError(
            f"flash_attn_with_kvcache: expected q of shape [batch, q_len, heads, head_dim], but got {list(q.shape)}"
        )
    if (k is None) != (v is None):
        raise ValueError("flash_attn_with_kvcache: expected both of k and v, or none")
    lengths = _lengths(cache_seqlens, q)
    if k is None and (rotary_cos is not None or rotary_sin is not None):
        raise ValueError("flash_attn_with_kvcache: rotary_cos and rotary_sin need k and v, which they turn with q")
    if k is not None:
        if lengths is None:
            raise ValueError(
                "flash_attn_with_kvcache: k and v need cache_seqlens, the rows after which they are written"
            )
        assert v is not None  # as k is: checked above
        turned = q if rotary_cos is not None else None
        turned, lengths = torch.ops.aule.kv_cache_append(
            k, v, k_cache, v_cache, lengths, block_table, turned, rotary_cos, rotary_sin, rotary_interleaved,
            k_scale, v_scale,
        )  # fmt: skip
        q = q if rotary_cos is None else turned
    out, lse = torch.ops.aule.flash_attn_decode(
        q,
        k_cache,
        v_cache,
        lengths,
        block_table,
        bool(causal),
        softmax_scale,
        *(int(w) for w in window_size),
        float(softcap),
        int(num_splits),
        alibi_slopes,
        key_scale=k_scale,
        value_scale=v_scale,
    )
    return (out, lse) if return_softmax_lse else out


def paged_attention(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    block_table: torch.Tensor,
    context_lens: torch.Tensor,
    *,
    scale: float | None = None,
    causal: bool = True,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: torch.Tensor | None = None,
) -> torch.Tensor:
    """Attention over a cache of pages that belong to any sequence in any order.

    Parameters
    ----------
    query : torch.Tensor
        ``[batch, heads, head_dim]``, one token per sequence, or ``[batch, q_len, heads, head_dim]``, its last tokens.
    key_cache, value_cache : torch.Tensor
        ``[pages, page_size, kv_heads, head_dim]``.
    block_table : torch.Tensor
        int32 ``[batch, most pages of a sequence]``: row ``i`` of a sequence is row ``i % page_size`` of page
        ``block_table[b, i // page_size]``. Entries beyond a sequence's length are not read.
    context_lens : torch.Tensor
        int32 ``[batch]``: rows of each sequence, those of `query` included.
    scale : float, optional
        Factor of the scores, ``1 / sqrt(head_dim)`` by default.
    causal : bool, default True
        The last query sees every key, the one before all but the last, and so on.
    window_size : (int, int), default (-1, -1)
        Keys visible to the left and right of that diagonal; -1 means all.
    softcap : float, default 0.0
        If positive, scores become ``softcap * tanh(scores / softcap)``.
    alibi_slopes : torch.Tensor, optional
        float32 ``[heads]`` or ``[batch, heads]``, such as :func:`torch_aule.functional.alibi_slopes` makes: each score
        loses ``slope * |position of the query - position of the key|`` (ALiBi).

    Returns
    -------
    torch.Tensor
        Like `query`, with the head size of `value_cache`; rows that see no key are 0.

    Raises
    ------
    RuntimeError
        For arguments that do not fit together: shapes, dtypes or devices. Nothing has been launched then.

    References
    ----------
    W. Kwon et al., "Efficient Memory Management for Large Language Model Serving with PagedAttention", 2023,
    arXiv:2309.06180.
    """
    left, right = (int(w) for w in window_size)
    return torch.ops.aule.paged_attention(
        query,
        key_cache,
        value_cache,
        block_table,
        context_lens,
        scale,
        bool(causal),
        left,
        right,
        float(softcap),
        alibi_slopes,
    )
