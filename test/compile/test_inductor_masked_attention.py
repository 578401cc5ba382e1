"""torch.compile makes hand-written attention with a mask of truth values one call."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch._dynamo.utils import counters

import torch_aule
from helpers import assert_close, needs_shader_compiler, to_device

needs_shader_compiler()

INF = float("inf")


def causal(n):
    return torch.tril(torch.ones(n, n)).view(1, 1, n, n)


def nano(q, k, v, bias):
    """As nanoGPT writes it."""
    att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
    att = att.masked_fill(bias[:, :, : q.shape[2], : q.shape[2]] == 0, float("-inf"))
    return F.softmax(att, dim=-1) @ v


def where_kept(q, k, v, bias):
    scores = torch.matmul(q, k.transpose(2, 3)) / 4.0
    scores = torch.where(bias > 0, scores, float("-inf"))
    return torch.matmul(F.dropout(torch.softmax(scores, dim=-1), p=0.0), v)


def where_hidden(q, k, v, bias):
    scores = torch.where(bias < 1, -INF, q @ k.mT)
    return F.softmax(scores, -1, dtype=torch.float32).to(q.dtype) @ v


def two_masks(q, k, v, bias):
    ahead = torch.ones_like(bias, dtype=torch.bool).triu(20)
    scores = (q @ k.mT * 0.5).masked_fill(bias == 0, -INF).masked_fill(ahead | (bias == 2), -INF)
    return scores.softmax(dim=-1) @ v


FORMS = [nano, where_kept, where_hidden, two_masks]


def inputs(n=24, m=None, width=16, dtype=torch.float32):
    g = torch.Generator().manual_seed(0)
    m = m or n
    q, k, v = (torch.randn(2, 3, length, width, generator=g).to(dtype) for length in (n, m, m))
    return q, k, v


def fused(f, *args, **options):
    counters.clear()
    out = torch.compile(f, **options)(*args)
    return out, counters["inductor"]["aule_masked_attention"]


@pytest.mark.parametrize("form", FORMS)
def test_forms(device, fresh_compiler, form):
    q, k, v = inputs()
    expected = form(q.double(), k.double(), v.double(), causal(24))
    out, count = fused(form, *to_device((q, k, v, causal(24))))
    assert count == 1
    assert_close(out.double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("form", [nano, where_kept])
def test_gradients(device, fresh_compiler, form):
    q, k, v = inputs()
    wanted = [t.double().requires_grad_() for t in (q, k, v)]
    form(*wanted, causal(24)).square().sum().backward()
    given = [t.to(device).requires_grad_() for t in (q, k, v)]
    out, count = fused(form, *given, causal(24).to(device))
    assert count == 1
    out.square().sum().backward()
    for a, e in zip(given, wanted, strict=True):
        assert_close(a.grad.double(), e.grad, rtol=1e-4, atol=1e-4)


def test_under_autocast(device, fresh_compiler):
    q, k, v = inputs()
    expected = nano(q.double(), k.double(), v.double(), causal(24))
    with torch.autocast("aule", torch.bfloat16):
        out, count = fused(nano, *to_device((q, k, v, causal(24))))
    assert count == 1 and out.dtype == torch.bfloat16
    assert_close(out.double(), expected, rtol=3e-2, atol=3e-2)


def test_a_mask_of_keys_and_lengths_that_change(device, fresh_compiler):
    """Queries and keys of different lengths, a mask for each batch, several lengths in one graph."""

    def f(q, k, v, shown):
        return (q @ k.mT).masked_fill(~shown[:, None, None, :], -INF).softmax(-1) @ v

    compiled = torch.compile(f, dynamic=True)
    for n, m in ((7, 30), (9, 41), (1, 5)):
        q, k, v = inputs(n, m)
        shown = torch.arange(m)[None] < torch.tensor([[m], [max(1, m // 2)]])
        expected = f(q.double(), k.double(), v.double(), shown)
        assert_close(compiled(*to_device((q, k, v, shown))).double(), expected, rtol=1e-5, atol=1e-5)
    assert counters["inductor"]["aule_masked_attention"] > 0


def test_one_mask_in_three_dimensions(device, fresh_compiler):
    q, k, v = (t[0] for t in inputs())

    def f(q, k, v, bias):
        return torch.bmm(torch.softmax(torch.bmm(q, k.mT).masked_fill(bias[0] == 0, -INF), -1), v)

    out, count = fused(f, *to_device((q, k, v, causal(24))))
    assert count == 1
    assert_close(out.double(), f(q.double(), k.double(), v.double(), causal(24)), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("grad", [False, True])
def test_the_operator_of_three_dimensions(device, fresh_compiler, grad):
    """PyTorch before 2.13 has no shapes for it where it is traced."""
    q, k, v = (t[0].to(device).requires_grad_(grad) for t in inputs())

    def f(q, k, v):
        return F.scaled_dot_product_attention(q * 2, k, v)

    out = torch.compile(f)(q, k, v)
    assert_close(out, f(q, k, v), rtol=1e-5, atol=1e-5)
    if grad:
        mine = torch.autograd.grad(out.square().sum(), (q, k, v))
        for a, e in zip(mine, torch.autograd.grad(f(q, k, v).square().sum(), (q, k, v)), strict=True):
            assert_close(a, e, rtol=1e-4, atol=1e-4)


def test_a_query_that_sees_nothing_is_zero(device, fresh_compiler):
    """As scaled_dot_product_attention has it; written by hand it is NaN."""
    q, k, v = inputs()
    bias = causal(24)
    bias[..., 5, :] = 0
    out, count = fused(nano, *to_device((q, k, v, bias)))
    assert count == 1
    expected = nano(q.double(), k.double(), v.double(), bias).nan_to_num(0.0)
    assert_close(out.double(), expected, rtol=1e-5, atol=1e-5)


def with_weights(q, k, v, bias):
    weights = (q @ k.mT).masked_fill(bias == 0, -INF).softmax(-1)
    return weights @ v, weights


def with_a_finite_fill(q, k, v, bias):
    return (q @ k.mT).masked_fill(bias == 0, -1e4).softmax(-1) @ v


def over_queries(q, k, v, bias):
    return (q @ k.mT).masked_fill(bias == 0, -INF).softmax(-2).nan_to_num() @ v


def over_the_wrong_side(q, k, v, bias):
    return (q @ k.mT).masked_fill(bias.mT == 0, -INF).softmax(-2) @ v


def after_a_write(q, k, v, bias):
    scores = q @ k.mT
    v.mul_(2)
    return scores.masked_fill(bias == 0, -INF).softmax(-1) @ v


def of_a_negative_scale(q, k, v, bias):
    return ((q @ k.mT) * -1.0).masked_fill(bias == 0, -INF).softmax(-1) @ v


APART = [with_weights, with_a_finite_fill, over_queries, over_the_wrong_side, after_a_write, of_a_negative_scale]


@pytest.mark.parametrize("form", APART)
def test_what_stays_apart(device, fresh_compiler, form):
    q, k, v = inputs()
    expected = form(q.double(), k.double(), v.double(), causal(24))
    out, count = fused(form, *to_device((q, k, v, causal(24))))
    assert count == 0
    for a, e in zip(*((x if isinstance(x, tuple) else (x,)) for x in (out, expected)), strict=True):
        assert_close(a.double(), e, rtol=1e-4, atol=1e-4)


def test_dropout_stays_apart(device, fresh_compiler):
    def f(q, k, v, bias):
        return F.dropout((q @ k.mT).masked_fill(bias == 0, -INF).softmax(-1), 0.5) @ v

    assert fused(f, *to_device((*inputs(), causal(24))))[1] == 0


def test_it_can_be_turned_off(device, fresh_compiler):
    with torch_aule.compile_config.patch(masked_attention=False):
        assert fused(nano, *to_device((*inputs(), causal(24))))[1] == 0
