"""Shapes of the gradients of fused attention, for versions of torch that have none.

Without them a graph with symbolic sizes cannot be traced: Dynamo breaks it at the call. Those of the forward are there
since 2.11, at least for four dimensions.
"""

from __future__ import annotations

import torch

_NAME = "_scaled_dot_product_fused_attention_overrideable_backward"


def _gradients(grad_out, query, key, value, attn_bias, grad_input_mask, *options, **kwargs):
    bias = torch.empty_like(attn_bias) if attn_bias is not None else None
    return torch.empty_like(query), torch.empty_like(key), torch.empty_like(value), bias


if not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{_NAME}", "Meta"):
    _LIBRARY = torch.library.Library("aten", "IMPL")  # holds the rule for as long as the process lives
    _LIBRARY.impl(_NAME, _gradients, "Meta")
