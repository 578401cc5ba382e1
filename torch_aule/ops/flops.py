"""Floating-point operations of our operators, for ``torch.utils.flop_counter.FlopCounterMode``.

As PyTorch counts them: a multiplication and an addition are two, causal masks and windows take nothing off, and what
backward computes again is counted again. Attention over a cache is left out: the device alone knows its length.
"""

from __future__ import annotations

import math

import torch

from torch_aule.importing import run_after_import

aten, aule = torch.ops.aten, torch.ops.aule


def _products(query, key, value) -> tuple[int, int]:
    """Operations of a product of queries and keys, and of one of scores and values."""
    pairs = math.prod(query[:-1]) * key[-2]
    return 2 * pairs * query[-1], 2 * pairs * value[-1]


def _forward(query, key, value, *_args, out_shape=None, **_kwargs) -> int:
    return sum(_products(query, key, value))


def _backward(_grad, query, key, value, *_args, out_shape=None, **_kwargs) -> int:
    """The scores again, and the gradients of values, probabilities, queries and keys."""
    scores, values = _products(query, key, value)
    return 3 * scores + 2 * values


def _linear(x, weight, *_args, out_shape=None, **_kwargs) -> int:
    return 2 * math.prod(x) * weight[0]


FORMULAS = {
    aten._scaled_dot_product_fused_attention_overrideable: _forward,
    aten._scaled_dot_product_fused_attention_overrideable_backward: _backward,
    aule.flash_attn_fwd: _forward,
    aule.flash_attn_bwd: _backward,
    aule.linear_bias_act: _linear,
}


def _register(counter) -> None:
    for operator, formula in FORMULAS.items():
        if operator not in counter.flop_registry:  # a later PyTorch may have its own of the first two
            counter.register_flop_formula(operator)(formula)


# Not at once: the counter imports Triton where it is installed.
run_after_import({"torch.utils.flop_counter": _register}, "FlopCounterMode does not count attention on aule")
