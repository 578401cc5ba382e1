"""Fake kernels and autograd formulas of attention in ``torch.ops.aule``; imported when the backend registers."""

from __future__ import annotations

import torch


def like_query(query: torch.Tensor, v_dim: int) -> torch.Tensor:
    """The layout of the kernel's output; the twin of ``output_like_query`` in csrc/ops/attention/forward.cpp."""
    if query.size(-1) == v_dim:
        return torch.empty_like(query)
    sizes = [*query.shape[:-1], v_dim]
    order = sorted(range(query.dim()), key=lambda i: query.stride(i), reverse=True)
    strides, stride = [0] * query.dim(), 1
    for i in reversed(order):
        strides[i] = stride
        stride = stride * sizes[i]
    return query.new_empty_strided(sizes, strides)


def _arguments(op: torch._ops.OpOverload, args: tuple, kwargs: dict) -> dict:
    """The arguments of a call, by name; csrc/aten/attention.cpp has the only list of names and defaults."""
    arguments = op._schema.arguments
    given = dict(zip((a.name for a in arguments), args)) | kwargs
    return {a.name: given[a.name] if a.name in given else a.default_value for a in arguments}


@torch.library.register_fake("aule::flash_attn_fwd")
def _fwd_fake(*args, **kwargs):
    call = _arguments(torch.ops.aule.flash_attn_fwd.default, args, kwargs)
    query, value = call["query"], call["value"]
    torch._check(
        query.dim() in (3, 4), lambda: f"flash_attn_fwd: expected query of 3 or 4 dimensions, but got {query.shape}"
    )
    batch = query.size(0) if query.dim() == 4 else 1
    lse = query.new_empty((batch, query.size(-3), query.size(-2)), dtype=torch.float32)
    seed, offset = (torch.empty((), dtype=torch.int64, device="cpu") for _ in range(2))
    return like_query(query, value.size(-1)), lse, seed, offset


@torch.library.register_fake("aule::flash_attn_fwd.out")
def _fwd_out_fake(*args, **kwargs):
    return None  # what it writes is there


@torch.library.register_fake("aule::flash_attn_bwd")
def _bwd_fake(*args, **kwargs):
    call = _arguments(torch.ops.aule.flash_attn_bwd.default, args, kwargs)
    bias = call["attn_bias"]
    wanted = call["bias_requires_grad"] and bias is not None
    dbias = bias.new_empty(bias.shape) if wanted else call["query"].new_empty((0,))
    return *(torch.empty_like(call[name]) for name in ("query", "key", "value")), dbias


def _setup_context(ctx, inputs, output):
    query, key, value, attn_bias, *options, slopes = inputs
    if slopes is not None and slopes.requires_grad:
        raise NotImplementedError("flash_attn_fwd: no gradient for alibi_slopes; detach it")
    out, logsumexp, seed, offset = output
    ctx.save_for_backward(query, key, value, attn_bias, out, logsumexp, seed, offset, slopes)
    ctx.options = options
    ctx.bias_grad = attn_bias is not None and attn_bias.dtype != torch.bool and ctx.needs_input_grad[3]
    ctx.mark_non_differentiable(seed, offset)
    ctx.set_materialize_grads(False)


def _backward(ctx, grad_out, grad_logsumexp, _seed, _offset):
    query, key, value, attn_bias, out, logsumexp, seed, offset, slopes = ctx.saved_tensors
    nothing = (None,) * (len(ctx.options) + 1)  # and one for the slopes
    if grad_out is None and grad_logsumexp is None:
        return None, None, None, None, *nothing
    if grad_out is None:
        grad_out = torch.zeros_like(out)
    dq, dk, dv, dbias = torch.ops.aule.flash_attn_bwd(
        grad_out,
        query,
        key,
        value,
        out,
        logsumexp,
        seed,
        offset,
        attn_bias,
        *ctx.options,
        bias_requires_grad=ctx.bias_grad,
        grad_logsumexp=grad_logsumexp,
        alibi_slopes=slopes,
    )
    return dq, dk, dv, dbias if ctx.bias_grad else None, *nothing


torch.library.register_autograd("aule::flash_attn_fwd", _backward, setup_context=_setup_context)


@torch.library.register_fake("aule::flash_attn_decode")
def _decode_fake(query, key_cache, value_cache, *_args, **_kwargs):
    torch._check(query.dim() == 4, lambda: f"flash_attn_decode: expected query of 4 dimensions, but got {query.shape}")
    batch, q_len, heads, _ = query.shape
    out = query.new_empty((batch, q_len, heads, value_cache.size(-1)))
    return out, query.new_empty((heads, batch, q_len), dtype=torch.float32).transpose(0, 1)


@torch.library.register_fake("aule::paged_attention")
def _paged_fake(query, key_cache, value_cache, *_args, **_kwargs):
    return query.new_empty((*query.shape[:-1], value_cache.size(-1)))


@torch.library.register_fake("aule::accept_tokens")
def _accept_fake(drawn, guesses, active, accepted, tokens, lengths):
    return None


@torch.library.register_fake("aule::accept_likeliest")
def _accept_likeliest_fake(logits, guesses, active, accepted, tokens, lengths):
    return None


@torch.library.register_fake("aule::reshape_and_cache")
def _cache_write_fake(key, value, key_cache, value_cache, slot_mapping):
    return None


@torch.library.register_fake("aule::kv_cache_append")
def _cache_append_fake(
    key,
    value,
    key_cache,
    value_cache,
    lengths,
    block_table=None,
    query=None,
    cos=None,
    sin=None,
    interleaved=False,
    key_scale=None,
    value_scale=None,
):
    turned = key.new_empty(0) if query is None else query.new_empty(query.shape)
    return turned, lengths.new_empty(lengths.shape, dtype=torch.int32)


@torch.library.register_fake("aule::varlen_attn")
def _varlen_fake(query, key, value, *_args, **_kwargs):
    torch._check(query.dim() == 3, lambda: f"varlen_attn: expected query of 3 dimensions, but got {query.shape}")
    lse = query.new_empty((query.size(1), query.size(0)), dtype=torch.float32)
    if query.size(-1) == value.size(-1):
        return torch.empty_like(query), lse
    return query.new_empty((*query.shape[:-1], value.size(-1))), lse


@torch.library.register_fake("aule::varlen_attn_bwd")
def _varlen_bwd_fake(grad_out, query, key, value, *_args, **_kwargs):
    return tuple(torch.empty_like(t) for t in (query, key, value))


def _varlen_context(ctx, inputs, output):
    query, key, value, cum_seq_q, cum_seq_k, *options, slopes = inputs
    if slopes is not None and slopes.requires_grad:
        raise NotImplementedError("varlen_attn: no gradient for alibi_slopes; detach it")
    ctx.save_for_backward(query, key, value, *output, cum_seq_q, cum_seq_k, slopes)
    ctx.options = options
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)


def _varlen_backward(ctx, grad_out, _grad_logsumexp):
    *tensors, cum_seq_q, cum_seq_k, slopes = ctx.saved_tensors
    grads = (None, None, None)
    if grad_out is not None:
        grads = torch.ops.aule.varlen_attn_bwd(grad_out, *tensors, cum_seq_q, cum_seq_k, *ctx.options, slopes)
    return *grads, *(None,) * (3 + len(ctx.options))


torch.library.register_autograd("aule::varlen_attn", _varlen_backward, setup_context=_varlen_context)
