"""Fake kernel of ``torch.ops.aule.linear_bias_act``; imported at registration. Its gradient: csrc/aten/matmul.cpp."""

from __future__ import annotations

import torch


@torch.library.register_fake("aule::linear_bias_act")
def _fake(x, weight, bias=None, activation="none", residual=None):
    torch._check(weight.dim() == 2 and weight.size(1) == x.size(-1))
    return x.new_empty((*x.shape[:-1], weight.size(0)))


@torch.library.register_fake("aule::norm_linear_act")
def _norm_linear_fake(x, weight, bias=None, norm=None, eps=0.0, activation="none", residual=None):
    return x.new_empty((*x.shape[:-1], weight.size(0) // (1 if activation == "none" else 2)))


@torch.library.register_fake("aule::gated_activation")
def _gated_fake(gate, up, activation):
    return torch.empty_like(gate, memory_format=torch.contiguous_format)
