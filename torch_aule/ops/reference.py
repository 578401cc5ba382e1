"""Fake kernels and gradients of ``aule::diagonal_matmul`` and ``aule::fused_linear_rowsum``."""

from __future__ import annotations

import torch


@torch.library.register_fake("aule::diagonal_matmul")
def _diagonal_fake(a, b):
    torch._check(a.dim() == 1 and b.dim() == 2 and a.size(0) == b.size(0))
    return b.new_empty(b.shape)


@torch.library.register_fake("aule::diagonal_matmul_backward")
def _diagonal_backward_fake(grad, a, b):
    return a.new_empty(a.shape), b.new_empty(b.shape)


def _keep_operands(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def _diagonal_backward(ctx, grad):
    return torch.ops.aule.diagonal_matmul_backward(grad, *ctx.saved_tensors)


torch.library.register_autograd("aule::diagonal_matmul", _diagonal_backward, setup_context=_keep_operands)


@torch.library.register_fake("aule::fused_linear_rowsum")
def _rowsum_fake(x, weight, bias=None):
    torch._check(weight.dim() == 2 and weight.size(1) == x.size(-1))
    return x.new_empty(x.shape[:-1])


@torch.library.register_fake("aule::fused_linear_rowsum_backward")
def _rowsum_backward_fake(grad, x, weight, has_bias):
    return x.new_empty(x.shape), weight.new_empty(weight.shape), x.new_empty((weight.size(0) if has_bias else 0,))


def _keep_layer(ctx, inputs, output):
    x, weight, bias = inputs
    ctx.has_bias = bias is not None
    ctx.save_for_backward(x, weight)


def _rowsum_backward(ctx, grad):
    dx, dweight, dbias = torch.ops.aule.fused_linear_rowsum_backward(grad, *ctx.saved_tensors, ctx.has_bias)
    return dx, dweight, dbias if ctx.has_bias else None


torch.library.register_autograd("aule::fused_linear_rowsum", _rowsum_backward, setup_context=_keep_layer)
