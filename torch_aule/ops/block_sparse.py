"""Fake kernels and gradient of ``torch.ops.aule.block_sparse_attn``; imported when the backend registers."""

from __future__ import annotations

import torch

from torch_aule.ops.attention import like_query


@torch.library.register_fake("aule::block_sparse_attn")
def _fake(query, key, value, *_args, **_kwargs):
    torch._check(
        query.dim() in (3, 4), lambda: f"block_sparse_attn: expected query of 3 or 4 dimensions, but got {query.shape}"
    )
    batch = query.size(0) if query.dim() == 4 else 1
    lse = query.new_empty((batch, query.size(-3), query.size(-2)), dtype=torch.float32)
    return like_query(query, value.size(-1)), lse


@torch.library.register_fake("aule::block_sparse_attn_bwd")
def _bwd_fake(grad_out, query, key, value, *_args, **_kwargs):
    return tuple(torch.empty_like(t) for t in (query, key, value))


def _setup_context(ctx, inputs, output):
    query, key, value, block_mask, *ctx.options = inputs
    ctx.save_for_backward(query, key, value, *output, block_mask)
    ctx.set_materialize_grads(False)


def _backward(ctx, grad_out, grad_logsumexp):
    query, key, value, out, *rest = ctx.saved_tensors
    nothing = (None,) * (1 + len(ctx.options))  # the mask and the options
    if grad_out is None and grad_logsumexp is None:
        return None, None, None, *nothing
    if grad_out is None:
        grad_out = torch.zeros_like(out)
    grads = torch.ops.aule.block_sparse_attn_bwd(grad_out, query, key, value, out, *rest, *ctx.options, grad_logsumexp)
    return *grads, *nothing


torch.library.register_autograd("aule::block_sparse_attn", _backward, setup_context=_setup_context)
