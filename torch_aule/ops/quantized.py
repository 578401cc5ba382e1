"""Fake kernels and gradients of the products with quantized weights; imported at registration."""

from __future__ import annotations

import torch


@torch.library.register_fake("aule::quantized_dequantize")
def _dequantize(weight, format, k, dtype, scales, group):
    return weight.new_empty((weight.size(0), k), dtype=dtype)


@torch.library.register_fake("aule::quantized_rows")
def _rows(weight, indices, format, k, dtype, scales, group):
    return weight.new_empty((*indices.shape, k), dtype=dtype)


@torch.library.register_fake("aule::quantized_linear")
def _linear(x, weight, format, bias, scales, group):
    return x.new_empty((*x.shape[:-1], weight.size(0)))


@torch.library.register_fake("aule::quantized_norm_linear_act")
def _norm_linear(x, weight, format, bias, scales, group, norm=None, eps=0.0, activation="none", residual=None):
    return x.new_empty((*x.shape[:-1], weight.size(0) // (1 if activation == "none" else 2)))


@torch.library.register_fake("aule::quantized_matmul")
def _matmul(x, weight, format, k, scales, group):
    torch._check(x.size(-1) == weight.size(0))
    return x.new_empty((*x.shape[:-1], k))


@torch.library.register_fake("aule::quantized_linear_by_expert")
def _by_expert(x, weight, ids, format, scales, group):
    return x.new_empty((*ids.shape, weight.size(1)))


_LIBRARY = torch.library.Library("aule", "FRAGMENT")
_LIBRARY.define(
    "quantized_matmul_by_expert(Tensor x, Tensor weight, Tensor ids, str format, int k, Tensor[] scales, int[] group) "
    "-> Tensor"
)
CHUNK_BYTES = 64 << 20  # of weights that are decoded at a time


@torch.library.impl(_LIBRARY, "quantized_matmul_by_expert", "CompositeExplicitAutograd")
def _matmul_by_expert_on_device(x, weight, ids, format, k, scales, group):
    """x [m, slots, n]: the sum over slots of ``x[i, s] @ weight[ids[i, s]]`` -> [m, k]. The host reads no id.

    Rows are sorted by expert, then multiplied by groups whose ends the device knows.
    """
    experts, n = weight.shape[:2]
    m, slots = ids.shape
    count = m * slots
    if count * n * k == 0:
        return x.new_zeros((m, k))
    table = weight.flatten(0, 1)
    rows, (ordered, order) = x.reshape(count, n), ids.flatten().sort()
    ends = torch.searchsorted(ordered, torch.arange(experts, dtype=ids.dtype, device=x.device), right=True)
    at_once = max(1, CHUNK_BYTES // (n * k * x.element_size()))
    products = None
    for first in range(0, experts, at_once):
        last = min(first + at_once, experts)
        own, own_ends = order, ends[first:last]
        if first > 0:  # the rows of these experts come first
            start = ends[first - 1]
            own = order[(torch.arange(count, device=x.device) + start) % count]
            own_ends = own_ends - start
        of_table = torch.arange(first * n, last * n, device=x.device)
        w = torch.ops.aule.quantized_rows(table, of_table, format, k, x.dtype, scales, group).view(-1, n, k)
        part = torch.nn.functional.grouped_mm(rows[own], w, offs=own_ends.int())  # 0 past the last end
        if products is None:
            products = x.new_zeros((count, k))
        products.index_add_(0, own, part)
    return products.view(m, slots, k).sum(1)


@torch.library.register_fake("aule::quantized_matmul_by_expert")
def _matmul_by_expert(x, weight, ids, format, k, scales, group):
    torch._check(x.size(-1) == weight.size(1))
    return x.new_empty((ids.size(0), k))


def _nothing(group):
    """No gradient, in the form that register_autograd wants for a list of numbers, which differs if it is empty."""
    return None if group else []


def _linear_context(ctx, inputs, output):
    x, weight, ctx.format, bias, scales, ctx.group = inputs
    ctx.k, ctx.has_bias = x.size(-1), bias is not None
    ctx.save_for_backward(weight, *scales)


def _linear_backward(ctx, grad):
    weight, *scales = ctx.saved_tensors
    grad_x = grad_bias = None
    if ctx.needs_input_grad[0]:
        grad_x = torch.ops.aule.quantized_matmul(grad, weight, ctx.format, ctx.k, scales, ctx.group)
    if ctx.has_bias and ctx.needs_input_grad[3]:
        grad_bias = grad.sum(tuple(range(grad.dim() - 1))) if grad.dim() > 1 else grad
    return grad_x, None, None, grad_bias, [None] * len(scales), _nothing(ctx.group)


def _matmul_context(ctx, inputs, output):
    _x, weight, ctx.format, _k, scales, ctx.group = inputs
    ctx.save_for_backward(weight, *scales)


def _matmul_backward(ctx, grad):
    weight, *scales = ctx.saved_tensors
    grad_x = torch.ops.aule.quantized_linear(grad, weight, ctx.format, None, scales, ctx.group)
    return grad_x, None, None, None, [None] * len(scales), _nothing(ctx.group)


def _by_expert_context(ctx, inputs, output):
    x, weight, ids, ctx.format, scales, ctx.group = inputs
    ctx.k = x.size(-1)
    ctx.save_for_backward(weight, ids, *scales)


def _by_expert_backward(ctx, grad):
    weight, ids, *scales = ctx.saved_tensors
    grad_x = torch.ops.aule.quantized_matmul_by_expert(grad, weight, ids, ctx.format, ctx.k, scales, ctx.group)
    return grad_x, None, None, None, [None] * len(scales), _nothing(ctx.group)


def _matmul_by_expert_context(ctx, inputs, output):
    _x, weight, ids, ctx.format, _k, scales, ctx.group = inputs
    ctx.save_for_backward(weight, ids, *scales)


def _matmul_by_expert_backward(ctx, grad):
    weight, ids, *scales = ctx.saved_tensors
    grad_x = torch.ops.aule.quantized_linear_by_expert(grad, weight, ids, ctx.format, scales, ctx.group)
    return grad_x, None, None, None, None, [None] * len(scales), _nothing(ctx.group)


torch.library.register_autograd("aule::quantized_linear", _linear_backward, setup_context=_linear_context)
torch.library.register_autograd("aule::quantized_matmul", _matmul_backward, setup_context=_matmul_context)
torch.library.register_autograd(
    "aule::quantized_linear_by_expert", _by_expert_backward, setup_context=_by_expert_context
)
torch.library.register_autograd(
    "aule::quantized_matmul_by_expert", _matmul_by_expert_backward, setup_context=_matmul_by_expert_context
)
