"""``torch.vmap`` over fused attention: the mapped dimension joins the batch. Imported when the backend registers."""

from __future__ import annotations

import torch

_aten = torch.ops.aten
_FORWARD = _aten._scaled_dot_product_fused_attention_overrideable.default
_BACKWARD = _aten._scaled_dot_product_fused_attention_overrideable_backward.default


def _mapped_first(x: torch.Tensor, dim: int | None, size: int) -> torch.Tensor:
    return x.expand(size, *x.shape) if dim is None else x.movedim(dim, 0)


def _fold(x: torch.Tensor, dim: int | None, size: int) -> torch.Tensor:
    """[V, B, H, L, D] as [V * B, H, L, D]; without a batch V is the batch."""
    x = _mapped_first(x, dim, size)
    return x.flatten(0, 1) if x.dim() == 5 else x


def _unfold(x: torch.Tensor, size: int, rank: int) -> torch.Tensor:
    return x.unflatten(0, (size, x.size(0) // size)) if rank == 4 else x


def _fold_bias(bias, dim: int | None, size: int, query: torch.Tensor, rank: int):
    """The bias of every mapped call, for the folded `query` of calls of `rank` dimensions."""
    if bias is None:
        return None
    bias = _mapped_first(bias, dim, size)
    bias = bias.reshape(size, *[1] * (rank + 1 - bias.dim()), *bias.shape[1:])
    return bias.expand(size, query.size(0) // size, *bias.shape[2:]).flatten(0, 1) if rank == 4 else bias


def _rank(x: torch.Tensor, dim: int | None) -> int:
    return x.dim() - (dim is not None)


def _forward(info, in_dims, query, key, value, attn_bias=None, dropout_p=0.0, is_causal=False, debug=False, **kwargs):
    if dropout_p > 0 and info.randomness != "different":
        raise RuntimeError(
            f"scaled_dot_product_attention: vmap with randomness={info.randomness!r} has no dropout here; "
            "randomness='different' has"
        )
    size, dims, rank = info.batch_size, [*in_dims, None], _rank(query, in_dims[0])
    q, k, v = (_fold(x, dim, size) for x, dim in zip((query, key, value), dims))
    bias = _fold_bias(attn_bias, dims[3], size, q, rank)
    out, logsumexp, *rest = _FORWARD(q, k, v, bias, dropout_p, is_causal, debug, **kwargs)
    # The log-sum-exp has a batch in any case.
    return (_unfold(out, size, rank), _unfold(logsumexp, size, 4), *rest), (0, 0, *[None] * len(rest))


def _backward(info, in_dims, grad_out, query, key, value, attn_bias, wanted, out, logsumexp, *options, **kwargs):
    size, rank, dropout_p = info.batch_size, _rank(query, in_dims[1]), options[4]
    tensors = (grad_out, query, key, value, attn_bias, out, logsumexp)
    dims = (*in_dims[:5], *in_dims[6:8])
    if dropout_p > 0 and in_dims[6] is None:
        # The forward was one call with one mask, which depends on the place in the batch.
        calls = []
        for i in range(size):
            g, q, k, v, bias, o, lse = (x if dim is None else x.select(dim, i) for x, dim in zip(tensors, dims))
            calls.append(_BACKWARD(g, q, k, v, bias, wanted, o, lse, *options, **kwargs))
        grads = [None if same[0] is None else torch.stack(same) for same in zip(*calls)]
    else:
        g, q, k, v, o = (_fold(x, dim, size) for x, dim in zip((*tensors[:4], out), (*dims[:4], dims[5])))
        bias = _fold_bias(attn_bias, dims[4], size, q, rank)
        lse = _mapped_first(logsumexp, dims[6], size).flatten(0, 1)
        *grads, grad_bias = _BACKWARD(g, q, k, v, bias, wanted, o, lse, *options, **kwargs)
        grads = [None if x is None else _unfold(x, size, rank) for x in grads]
        if grad_bias is not None:
            shape = list(attn_bias.shape)
            if dims[4] is not None:
                del shape[dims[4]]
            ones = [1] * (rank - len(shape))
            grad_bias = _unfold(grad_bias, size, rank).sum_to_size(size, *ones, *shape).reshape(size, *shape)
        grads.append(grad_bias)
    return tuple(grads), tuple(None if x is None else 0 for x in grads)


_LIBRARY = torch.library.Library("aten", "IMPL")  # holds the rules for as long as the process lives
torch.library.register_vmap(_FORWARD, _forward, lib=_LIBRARY)
torch.library.register_vmap(_BACKWARD, _backward, lib=_LIBRARY)
