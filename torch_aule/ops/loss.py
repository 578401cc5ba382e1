"""Fake kernels and the autograd formula of ``torch.ops.aule.cross_entropy_fwd``; imported at registration."""

from __future__ import annotations

import torch

_MEAN, _NONE = 1, 0  # at::Reduction


@torch.library.register_fake("aule::cross_entropy_fwd")
def _fwd_fake(self, target, reduction, ignore_index, wide):
    dtype = torch.float32 if wide else self.dtype
    loss = self.new_empty(target.shape if reduction == _NONE else (), dtype=dtype)
    return loss, self.new_empty((), dtype=torch.float32), self.new_empty(target.shape, dtype=torch.float32)


@torch.library.register_fake("aule::cross_entropy_bwd")
def _bwd_fake(grad_output, self, *_args):
    return torch.empty_like(self)


def _setup_context(ctx, inputs, output):
    self, target, ctx.reduction, ctx.ignore_index, _wide = inputs
    _loss, total_weight, logsumexp = output
    ctx.save_for_backward(self, target, total_weight, logsumexp)
    ctx.mark_non_differentiable(total_weight, logsumexp)
    ctx.set_materialize_grads(False)


def _differentiable(grad, x, target, reduction, ignore_index):
    """The gradient in operations that have gradients themselves."""
    counts = target != ignore_index
    p = torch.softmax(x.float(), -1)
    classes = torch.where(counts, target.long(), 0)
    grad = grad.float() / counts.sum() if reduction == _MEAN else grad.float()
    p = p - torch.nn.functional.one_hot(classes, x.size(1))
    return (p * torch.where(counts, grad, 0).unsqueeze(1)).to(x.dtype)


def _backward(ctx, grad, _total_weight, _logsumexp):
    x, target, total_weight, logsumexp = ctx.saved_tensors
    if grad is None:
        return (None,) * 5
    if torch.is_grad_enabled():  # create_graph
        return _differentiable(grad, x, target, ctx.reduction, ctx.ignore_index), None, None, None, None
    options = ctx.reduction, ctx.ignore_index
    return torch.ops.aule.cross_entropy_bwd(grad, x, target, logsumexp, total_weight, *options), None, None, None, None


torch.library.register_autograd("aule::cross_entropy_fwd", _backward, setup_context=_setup_context)
