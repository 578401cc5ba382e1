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


@torch.library.register_fake("aule::quantized_matmul")
def _matmul(x, weight, format, k, scales, group):
    torch._check(x.size(-1) == weight.size(0))
    return x.new_empty((*x.shape[:-1], k))


@torch.library.register_fake("aule::quantized_linear_by_expert")
def _by_expert(x, weight, ids, format, scales, group):
    return x.new_empty((*ids.shape, weight.size(1)))


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


torch.library.register_autograd("aule::quantized_linear", _linear_backward, setup_context=_linear_context)
torch.library.register_autograd("aule::quantized_matmul", _matmul_backward, setup_context=_matmul_context)
