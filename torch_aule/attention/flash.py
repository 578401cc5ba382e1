"""Fused attention: FlashAttention-2 as Vulkan compute kernels, for device tensors, CPU tensors and NumPy arrays."""

from __future__ import annotations

import math
from typing import Any

import torch

from torch_aule import _C
from torch_aule.attention import cpu
from torch_aule.errors import InvalidShapeError
from torch_aule.indices import autocast_operands

__all__ = ["active_attention_variants", "aule_attention", "flash_attention"]

_FLOATS = (torch.float32, torch.float16, torch.bfloat16)


def _as_tensor(value: Any, name: str) -> tuple[torch.Tensor, bool]:
    """The argument as a tensor, and whether it was a NumPy array."""
    if isinstance(value, torch.Tensor):
        return value, False
    if type(value).__module__.split(".")[0] == "numpy" and hasattr(value, "__array_interface__"):
        return torch.as_tensor(value), True
    raise TypeError(
        f"flash_attention: expected {name} to be a torch.Tensor or a numpy.ndarray, but got {type(value).__name__}"
    )


def _check(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, enable_gqa: bool | None) -> None:
    for name, t in (("q", q), ("k", k), ("v", v)):
        if t.dim() not in (3, 4):
            raise InvalidShapeError(
                f"flash_attention: expected {name} of shape [batch, heads, length, head size], or without batch, "
                f"but got {list(t.shape)}"
            )
        if t.dim() != q.dim():
            raise InvalidShapeError(
                f"flash_attention: expected {name} of {q.dim()} dimensions like q, but got {list(t.shape)}"
            )
        if t.dtype not in _FLOATS:
            raise TypeError(
                f"flash_attention: expected {name} of dtype float32, float16 or bfloat16, but got {t.dtype}"
            )
        if t.dtype != q.dtype:
            raise TypeError(f"flash_attention: expected {name} of dtype {q.dtype} like q, but got {t.dtype}")
        if t.device != q.device:
            raise RuntimeError(f"flash_attention: expected {name} on {q.device} like q, but it is on {t.device}")
    if q.dim() == 4 and not q.size(0) == k.size(0) == v.size(0):
        raise InvalidShapeError(
            f"flash_attention: expected one batch size, but got q {list(q.shape)}, k {list(k.shape)}, v {list(v.shape)}"
        )
    if q.size(-1) != k.size(-1):
        raise InvalidShapeError(f"flash_attention: expected k of head size {q.size(-1)} like q, but got {k.size(-1)}")
    if k.size(-2) != v.size(-2):
        raise InvalidShapeError(f"flash_attention: expected v of length {k.size(-2)} like k, but got {v.size(-2)}")
    heads, kv_heads = q.size(-3), k.size(-3)
    if kv_heads != v.size(-3):
        raise InvalidShapeError(f"flash_attention: expected v of {kv_heads} heads like k, but got {v.size(-3)}")
    if heads != kv_heads:
        if enable_gqa is False:
            raise InvalidShapeError(
                f"flash_attention: q has {heads} heads and k {kv_heads}, which needs enable_gqa=True"
            )
        if kv_heads == 0 or heads % kv_heads != 0:
            raise InvalidShapeError(
                f"flash_attention: expected a number of k heads that divides the {heads} of q, but got {kv_heads}"
            )


def _check_out(out: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, elsewhere: bool) -> None:
    if elsewhere:
        raise TypeError("flash_attention: out is for tensors, and without return_lse")
    if torch.is_grad_enabled() and any(t.requires_grad for t in (q, k, v, out)):
        raise RuntimeError("flash_attention: no gradient through out; call it under torch.no_grad()")
    shape = (*q.shape[:-1], v.size(-1))
    if out.shape != shape:
        raise InvalidShapeError(f"flash_attention: expected out of shape {list(shape)}, but got {list(out.shape)}")
    if out.dtype is not q.dtype:
        raise TypeError(f"flash_attention: expected out of dtype {q.dtype} like q, but got {out.dtype}")
    if out.device != q.device:
        raise RuntimeError(f"flash_attention: expected out on {q.device} like q, but it is on {out.device}")


def window_sides(function: str, window_size, causal: bool) -> tuple[int, int]:
    """Keys to the left and to the right of a query's own, from a pair of these, or from a number of keys that it sees.

    A number counts the query's own key, a pair does not: with `causal` 4 is (3, 0).
    """
    if isinstance(window_size, int) and not isinstance(window_size, bool):
        if window_size < 0:
            return -1, -1
        if window_size == 0:
            raise ValueError(f"{function}: expected window_size of -1 or at least 1, but got 0")
        return (window_size - 1, 0) if causal else (window_size // 2, window_size // 2)
    try:
        left, right = (int(w) for w in window_size)
    except (TypeError, ValueError):
        raise ValueError(
            f"{function}: expected window_size of one or two integers, but got {window_size!r}"
        ) from None
    return left, right


def _check_slopes(slopes: torch.Tensor, q: torch.Tensor, attn_mask) -> None:
    if attn_mask is not None:
        raise ValueError("flash_attention: expected attn_mask to be None beside alibi_slopes")
    heads, batch = q.size(-3), q.size(0) if q.dim() == 4 else 1
    if slopes.dtype is not torch.float32:
        raise TypeError(f"flash_attention: expected alibi_slopes of dtype float32, but got {slopes.dtype}")
    if list(slopes.shape) not in ([heads], [batch, heads]):
        raise ValueError(
            f"flash_attention: expected alibi_slopes of shape [{heads}] or [{batch}, {heads}], a slope for each head "
            f"of q, but got {list(slopes.shape)}"
        )
    if slopes.device != q.device:
        raise RuntimeError(
            f"flash_attention: expected alibi_slopes on {q.device} like q, but it is on {slopes.device}"
        )


def flash_attention(
    q,
    k,
    v,
    causal: bool = True,
    scale: float | None = None,
    dropout_p: float = 0.0,
    attn_mask=None,
    window_size: tuple[int, int] | int = (-1, -1),
    softcap: float = 0.0,
    enable_gqa: bool | None = None,
    return_lse: bool = False,
    causal_bottom_right: bool = False,
    alibi_slopes=None,
    out: torch.Tensor | None = None,
):
    """Scaled dot product attention without the matrix of scores ever in memory.

    ``softmax(softcap(scale * q @ k.T) + attn_mask) @ v`` over the visible keys, by online softmax over tiles. Memory
    grows linearly with the length. Differentiable in `q`, `k`, `v` and a floating `attn_mask` for tensors.

    CPU tensors and NumPy arrays are computed on the current device. A machine without a Vulkan device computes them on
    the CPU, and the first call warns "Falling back to CPU simulation backend".

    Parameters
    ----------
    q : torch.Tensor or numpy.ndarray
        Queries, ``[batch, heads, q_len, head_dim]`` or without batch; float32, float16 or bfloat16; `head_dim` to 512.
    k, v : same kind as `q`
        Keys and values, ``[batch, kv_heads, k_len, head_dim]``; `v` may have another `head_dim`.
    causal : bool, default True
        Query ``i`` sees keys ``j <= i`` (the upper left corner, as in PyTorch).
    scale : float, optional
        Factor of the scores, ``1 / sqrt(head_dim)`` by default; not negative.
    dropout_p : float, default 0.0
        Probability to drop an attention weight, in ``[0, 1]``; exact to 2^-41. What is kept is divided by
        ``1 - dropout_p``.
    attn_mask : same kind as `q`, optional
        Bool (True: visible) or float (added to the scores), broadcastable to ``[batch, heads, q_len, k_len]``.
    window_size : (int, int) or int, default (-1, -1)
        Keys visible to the left and to the right of the query's own position, beside its own, as flash-attn counts
        them; -1 means all. One number is how many keys a query sees: with `causal` the last ones up to its own, so that
        4 is ``(3, 0)``, else its own and half of the number on each side.
    softcap : float, default 0.0
        If positive, scores become ``softcap * tanh(scores / softcap)``.
    enable_gqa : bool, optional
        False refuses fewer key heads than query heads; by default any divisor is taken (grouped queries).
    return_lse : bool, default False
        Also return the log-sum-exp of each row of scores, float32 ``[batch, heads, q_len]``.
    causal_bottom_right : bool, default False
        Align the causal triangle, the window and the distances of `alibi_slopes` with the last key instead of the
        first.
    alibi_slopes : same kind as `q`, optional
        float32 ``[heads]`` or ``[batch, heads]``, such as :func:`torch_aule.functional.alibi_slopes` makes: each score
        loses ``slope * |position of the query - position of the key|`` (ALiBi), computed inside the kernel. Not beside
        `attn_mask`, and without a gradient.
    out : torch.Tensor, optional
        Of the result's shape, dtype and device: the result is written there, without a gradient, and returned.

    Returns
    -------
    out : same kind as `q`
        ``[batch, heads, q_len, head_dim of v]``, on the device of `q`. A row that sees no key is 0.
    lse : same kind as `q`
        Only with `return_lse`; ``-inf`` for a row that sees no key.

    Raises
    ------
    TypeError, ValueError, RuntimeError
        For arguments that do not fit together; nothing has been launched then.

    References
    ----------
    T. Dao, "FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning", 2023, arXiv:2307.08691.
    T. Dao, D. Y. Fu, S. Ermon, A. Rudra, C. Re, "FlashAttention: Fast and Memory-Efficient Exact Attention with
    IO-Awareness", 2022, arXiv:2205.14135.
    O. Press, N. A. Smith, M. Lewis, "Train Short, Test Long: Attention with Linear Biases Enables Input Length
    Extrapolation", 2022, arXiv:2108.12409.

    Examples
    --------
    >>> q, k, v = (torch.randn(2, 8, 1024, 64, device="aule", dtype=torch.float16) for _ in range(3))
    >>> out = torch_aule.flash_attention(q, k, v, causal=True, window_size=(256, 0))
    """
    (q, q_numpy), (k, k_numpy), (v, v_numpy) = _as_tensor(q, "q"), _as_tensor(k, "k"), _as_tensor(v, "v")
    if not q_numpy == k_numpy == v_numpy:
        raise TypeError("flash_attention: expected q, k and v to be all tensors or all NumPy arrays")
    if out is None:
        q, k, v = autocast_operands(q, k, v)
    _check(q, k, v, enable_gqa)
    if q.device.type not in ("aule", "cpu"):
        raise RuntimeError(f"flash_attention: expected q on device aule or cpu, but it is on {q.device}")
    if scale is not None and not (math.isfinite(scale) and scale >= 0):
        raise ValueError(f"flash_attention: expected scale of at least 0, but got {scale}")
    if not 0 <= dropout_p <= 1:
        raise ValueError(f"flash_attention: expected dropout_p between 0 and 1, but got {dropout_p}")
    if not (math.isfinite(softcap) and softcap >= 0):
        raise ValueError(f"flash_attention: expected softcap of at least 0, but got {softcap}")
    window_left, window_right = window_sides("flash_attention", window_size, causal)
    home = q.device
    if out is not None:
        _check_out(out, q, k, v, q_numpy or return_lse)
    if attn_mask is not None:
        attn_mask, _ = _as_tensor(attn_mask, "attn_mask")
        if attn_mask.device != home:
            raise RuntimeError(f"flash_attention: expected attn_mask on {home} like q, but it is on {attn_mask.device}")
        if attn_mask.dtype is not torch.bool and attn_mask.dtype not in _FLOATS:
            if not attn_mask.is_floating_point():
                raise TypeError(f"flash_attention: expected a bool or float attn_mask, but got {attn_mask.dtype}")
            attn_mask = attn_mask.to(torch.float32)
    if alibi_slopes is not None:
        alibi_slopes, _ = _as_tensor(alibi_slopes, "alibi_slopes")
        _check_slopes(alibi_slopes, q, attn_mask)
    options = (
        float(dropout_p),
        bool(causal),
        None if scale is None else float(scale),
        window_left,
        window_right,
        float(softcap),
        bool(causal_bottom_right),
    )
    if out is not None and home.type == "aule":
        torch.ops.aule.flash_attn_fwd.out(q, k, v, attn_mask, *options, alibi_slopes, out=out)
        return out
    if home.type == "cpu" and _C.device_count() == 0:
        cpu.say_once(_C.unavailable_reason())
        result, lse = cpu.attention(q, k, v, attn_mask, *options, alibi_slopes)
    else:
        device = home if home.type == "aule" else torch.device("aule")
        q, k, v = (t.to(device) for t in (q, k, v))
        attn_mask, slopes = (None if t is None else t.to(device) for t in (attn_mask, alibi_slopes))
        result, lse, _, _ = torch.ops.aule.flash_attn_fwd(q, k, v, attn_mask, *options, slopes)
    if q.dim() == 3:
        lse = lse.squeeze(0)
    results = [t.to(home) for t in ((result, lse) if return_lse else (result,))]
    if out is not None:
        return out.copy_(results[0])
    if q_numpy:
        arrays = [t.detach().numpy() for t in results]
        return tuple(arrays) if return_lse else arrays[0]
    return tuple(results) if return_lse else results[0]


#: The name of :func:`flash_attention` in older code.
aule_attention = flash_attention


def active_attention_variants(head_dim: int = 64, v_dim: int | None = None, device=None) -> dict[str, str]:
    """The kernel family that serves each pass of float16 attention over 1024 tokens.

    docs/use/attention.md says what each family serves. Few queries over many keys take those whose names begin with
    ``splitkv``.

    Parameters
    ----------
    head_dim : int, default 64
        Head size of query and key.
    v_dim : int, optional
        Head size of value; that of the query by default.
    device : torch.device, str or int, optional
        Default: the current device.

    Returns
    -------
    dict
        Family by pass, ``"forward"``, ``"dq"`` and ``"dkdv"``.
    """
    index = torch.device("aule" if device is None else device).index
    index = torch.aule.current_device() if index is None else index
    names = torch.ops.aule._attention_variants(head_dim, head_dim if v_dim is None else v_dim, index)
    return dict(name.split("=") for name in names)
