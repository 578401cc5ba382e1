"""Gradients of attention in rows whose log-sum-exp is so large that float32 loses the logarithm of the sum."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch._dynamo.utils import counters

import torch_aule.tune
from attention_reference import NAMES, inputs, run
from helpers import FLOATS, needs_shader_compiler

pytestmark = pytest.mark.validated  # conftest.py: `attention_family` is marked pytest.mark.current_lavapipe
# Of a result. NVIDIA's conversion to bfloat16 truncates, so that is a whole last place.
ROUNDING = {torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}


def expected(q, k, v, grad, bias, visible=None, softcap=0.0):
    """Results in float64 of scores rounded to float32, and how far roundings move them.

    A product of weights with something is off by 2^-16 (exponentials, float32 sums, a log-sum-exp below 256), by four
    last places of its row's largest score (scores are rounded in float32, in units of e or of 2), and by the roundings
    of weights, of their gradients and of the output in the dtype. Below 2^-14 float16 has an absolute one.
    """
    u = ROUNDING[q.dtype]
    tiny = 2.0**-25 if q.dtype == torch.float16 else 0.0
    q, k, v, bias = (t.detach().cpu().double().requires_grad_() for t in (q, k, v, bias))
    grad, scale, group = grad.cpu().double(), q.size(-1) ** -0.5, q.size(-3) // k.size(-3)
    keys, values = (t.repeat_interleave(group, -3) for t in (k, v))
    scores = q @ keys.mT * scale
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    scores = scores + bias
    scores = scores + (scores.float().double() - scores).nan_to_num(0.0).detach()
    if visible is not None:
        scores = scores.masked_fill(~visible, -math.inf)
    top = scores.detach().amax(-1, keepdim=True)
    seen = top > -math.inf
    weights = torch.softmax(scores.masked_fill(~seen, 0.0), -1).masked_fill(~seen, 0.0)
    out = weights @ values
    out.backward(grad)
    with torch.no_grad():
        # Scores that the mask swallows whole are alike, however the kernel rounds them before.
        ulp = torch.exp2(torch.floor(torch.log2(top.abs().clamp(1, 3e38))) - 23)
        error = 2.0**-16 + 4 * ulp.masked_fill(ulp >= 8, 0.0) + 4 * u
        p = weights * error + tiny
        reach = grad.abs() @ values.abs().mT + (grad * out).abs().sum(-1, keepdim=True)
        ds = p * reach
        of_head = lambda t: t.unflatten(-3, (-1, group)).sum(-3)  # noqa: E731
        bounds = (
            p @ values.abs() + u * out.abs(),
            ds @ keys.abs() * scale + u * q.grad.abs() + tiny,
            of_head(ds.mT @ q.abs()) * scale + u * k.grad.abs() + tiny,
            of_head(p.mT @ grad.abs()) + u * v.grad.abs() + tiny,
            ds + 2.0**-24 * bias.grad.abs(),
        )
    return (out.detach(), q.grad, k.grad, v.grad, bias.grad), bounds


def check(actual, wanted):
    for name, a, e, bound in zip(NAMES, actual, *wanted):
        a = a.detach().cpu().double()
        assert a.shape == e.shape and not a.isnan().any(), name
        excess = ((a - e).abs() - bound).max()
        assert excess <= 0, f"{name}: {float(excess)} beyond the bound, the largest value is {float(e.abs().max())}"


def mixed_mask(q_len, k_len, dtype=torch.float32):
    """Rows without a mask, with large numbers in whole or in part, and one that sees nothing."""
    bias = torch.zeros(q_len, k_len)
    low = torch.finfo(dtype).min
    far = max(-1e9, low)
    bias[0], bias[1], bias[2, ::2], bias[3] = far, low, far, -math.inf
    bias[4] = -far
    bias[5], bias[5, 3:7] = far, far / 2
    bias[6] = -300.0
    bias[7, 1:] = -math.inf
    bias[8], bias[8, ::3] = low, -math.inf
    return bias.to(dtype)


def compare(sizes, dtype, bias, **options):
    q, k, v, grad = inputs(*sizes, dtype)
    full = bias.expand(sizes[0], sizes[1], *bias.shape[-2:]).contiguous()
    visible = None
    if "window" in options:
        left, right = options["window"]
        away = torch.arange(sizes[4]) - torch.arange(sizes[3])[:, None]
        visible = (away >= -left) & (away <= right)
    wanted = expected(q, k, v, grad, full, visible, options.get("softcap", 0.0))
    check(run(q, k, v, grad, full.to("aule"), **options), wanted)


@pytest.mark.parametrize("dtype, k_len", [(torch.float32, 150), (torch.float16, 40), (torch.bfloat16, 150)])
def test_families(attention_family, dtype, k_len):
    """Of 16 bits, few keys, of which dQ sums delta again, and more."""
    compare((2, 4, 2, 19, k_len, 24, 16), dtype, mixed_mask(19, k_len))


@pytest.mark.current_long
@pytest.mark.parametrize("dtype", FLOATS)
def test_masks_of_the_operands_dtype(attention_family, dtype):
    compare((1, 2, 2, 11, 130, 21, 16), dtype, mixed_mask(11, 130, dtype))


@pytest.mark.current_long
def test_beside_other_terms(attention_family):
    compare((1, 2, 1, 40, 53, 16, 16), torch.float16, mixed_mask(40, 53), window=(9, 5), softcap=2.0)


@pytest.mark.current_long
def test_heads_of_many_columns_and_a_workspace():
    q, k, v, grad = inputs(1, 2, 1, 70, 70, 144, 136, torch.float16)
    bias = mixed_mask(70, 70).to("aule")
    wanted = expected(q, k, v, grad, bias.expand(1, 2, 70, 70))
    leaves = [t.requires_grad_() for t in (q, k, v)]
    with torch_aule.tune.override(attention_workspace=16):
        out = F.scaled_dot_product_attention(*leaves, bias, enable_gqa=True)
        out.backward(grad)
    check([out, *(t.grad for t in leaves)], wanted)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_hand_written_attention_that_is_compiled(dtype, fresh_compiler):
    """torch.compile makes one call of it."""
    needs_shader_compiler()

    def attention(q, k, v, mask):
        return (q @ k.mT / 4.0 + mask).softmax(-1) @ v

    q, k, v, grad = inputs(2, 3, 3, 40, 40, 16, 16, dtype)
    bias = mixed_mask(40, 40, dtype)
    bias[bias == -math.inf] = 0  # the formula makes NaN of a row that sees nothing
    bias = bias.expand(2, 3, 40, 40).contiguous()
    wanted = expected(q, k, v, grad, bias)
    leaves = [t.requires_grad_() for t in (q, k, v)]
    counters.clear()
    out = torch.compile(attention, fullgraph=True)(*leaves, bias.to("aule"))
    out.backward(grad)
    assert counters["inductor"]["fuse_attention"] > 0
    check([out, *(t.grad for t in leaves)], wanted)


@pytest.mark.parametrize("low", [-1e9, torch.finfo(torch.float32).min, 1e6])
def test_a_thousand_keys(low):
    q, k, v, grad = inputs(1, 1, 1, 5, 1000, 8, 8)
    bias = torch.zeros(1, 1, 5, 1000)
    bias[..., ::2, :] = low
    wanted = expected(q, k, v, grad, bias)
    leaves = [t.requires_grad_() for t in (q, k, v)]
    out = F.scaled_dot_product_attention(*leaves, bias.to("aule"))
    out.backward(grad)
    check([out, *(t.grad for t in leaves)], wanted)


def test_the_logsumexp_that_users_see_is_one_number():
    q, k, v, _ = inputs(1, 1, 1, 2, 30, 8, 8)
    bias = torch.zeros(1, 1, 2, 30)
    bias[..., 0, :] = -1e9
    lse = torch.ops.aule.flash_attn_fwd(q, k, v, bias.to("aule"), is_causal=False)[1]
    scores = (q.cpu().double() @ k.cpu().double().mT) / 8**0.5 + bias
    assert lse.shape == (1, 1, 2) and lse.dtype == torch.float32
    torch.testing.assert_close(lse.cpu(), scores.logsumexp(-1).float(), rtol=1e-6, atol=1e-5)
