"""Fake kernels and gradient of ``torch.ops.aule.rotary_embedding``; imported at registration."""

from __future__ import annotations

import torch


@torch.library.register_fake("aule::rotary_embedding")
def _fake(x, cos, sin, positions=None, interleaved=False, inverse=False):
    y = torch.empty_like(x)
    return y if x.stride(-1) == 1 and y.stride(-1) == 1 else torch.empty_like(x, memory_format=torch.contiguous_format)


@torch.library.register_fake("aule::rotary_embedding_")
def _fake_in_place(x, cos, sin, positions=None, interleaved=False, inverse=False):
    return None


def _setup_context(ctx, inputs, output):
    _x, cos, sin, positions, ctx.interleaved, ctx.inverse = inputs
    if ctx.needs_input_grad[1] or ctx.needs_input_grad[2]:
        raise NotImplementedError("rotary_embedding: no gradient for cos and sin; detach them")
    ctx.save_for_backward(cos, sin, positions)


def _backward(ctx, grad):
    cos, sin, positions = ctx.saved_tensors
    turned = torch.ops.aule.rotary_embedding(grad, cos, sin, positions, ctx.interleaved, not ctx.inverse)
    return turned, None, None, None, None, None


torch.library.register_autograd("aule::rotary_embedding", _backward, setup_context=_setup_context)
