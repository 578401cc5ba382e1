"""Attention on the CPU, for machines without a Vulkan device: PyTorch's operators, over blocks of queries."""

from __future__ import annotations

import math
import warnings

import torch

_QUERIES = 256  # of a block: its scores are in memory at once
_said = False


def say_once(reason: str) -> None:
    """Warn, the first time in a process, that the CPU computes."""
    global _said
    if not _said:
        _said = True
        warnings.warn(f"Falling back to CPU simulation backend: {reason}", RuntimeWarning, stacklevel=3)


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    bias: torch.Tensor | None,
    dropout_p: float,
    causal: bool,
    scale: float | None,
    window_left: int,
    window_right: int,
    softcap: float,
    bottom_right: bool,
    slopes: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Output in the dtype of `q` and log-sum-exp ``[batch, heads, q_len]``, as ``aule::flash_attn_fwd`` gives them."""
    unbatched = q.dim() == 3
    if unbatched:
        q, k, v = (t.unsqueeze(0) for t in (q, k, v))
    heads, rows, keys = q.size(1), q.size(2), k.size(2)
    if bias is not None:
        bias = bias.expand(q.size(0), heads, rows, keys)
    repeat = heads // max(k.size(1), 1)
    if repeat > 1:
        k, v = (t.repeat_interleave(repeat, dim=1) for t in (k, v))
    scale = 1 / math.sqrt(q.size(-1)) if scale is None else scale
    key, value = k.float(), v.float()
    diagonal = keys - rows if bottom_right else 0
    j = torch.arange(keys)
    outs, sums = [], []
    for begin in range(0, max(rows, 1), _QUERIES):
        part = slice(begin, min(begin + _QUERIES, rows))
        i = torch.arange(part.start, part.stop).unsqueeze(1) + diagonal
        hidden = torch.zeros(i.size(0), keys, dtype=torch.bool)
        if causal:
            hidden |= j > i
        if window_left >= 0:
            hidden |= j < i - window_left
        if window_right >= 0:
            hidden |= j > i + window_right
        scores = q[:, :, part].float() @ key.transpose(-2, -1) * scale
        if softcap > 0:
            scores = softcap * torch.tanh(scores / softcap)
        if bias is not None:
            here = bias[:, :, part]
            if here.dtype is torch.bool:
                scores = scores.masked_fill(~here, -math.inf)
            else:
                scores = scores + here.float()
        if slopes is not None:
            scores = scores - slopes[..., None, None] * (i - j).abs()
        scores = scores.masked_fill(hidden, -math.inf)
        largest = scores.detach().amax(-1, keepdim=True) if keys else scores.new_zeros((*scores.shape[:-1], 1))
        largest = largest.masked_fill(largest == -math.inf, 0)  # a row that sees no key
        weights = torch.exp(scores - largest)
        total = weights.sum(-1, keepdim=True)
        empty = total == 0
        total = total.masked_fill(empty, 1)
        sums.append((largest + total.log()).masked_fill(empty, -math.inf).squeeze(-1))
        outs.append(torch.nn.functional.dropout(weights / total, dropout_p) @ value)
    out, lse = torch.cat(outs, 2).to(q.dtype), torch.cat(sums, 2)
    return out.squeeze(0) if unbatched else out, lse
