"""Fused attention beside its formula in float64, shared by the tests of attention."""

import math

import pytest
import torch

import torch_aule
from dropout_mask import described_mask, drawn_masks

# The kernel families for few queries over many keys.
has_lanes = torch_aule._C.device_properties(0)["max_push_constant_bytes"] >= 256
needs_lanes = pytest.mark.skipif(not has_lanes, reason="flash_attn_splitkv needs 256 bytes of push constants")
DECODE = ["splitkv_shared", pytest.param("splitkv", marks=needs_lanes)]

# Errors against float64 on the same (rounded) operands, as shares of the largest reference value or of 1.
TOLERANCE = {torch.float32: 2e-5, torch.float16: 1e-2, torch.bfloat16: 1e-2}
MEAN_TOLERANCE = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-3}


# Of the output, relative to it, that all elements of a row may share: one key that outweighs the others gives its
# weight's rounding to the row. NVIDIA's conversion to bfloat16 truncates, so that is a whole last place.
SHARED_ERROR = {torch.float32: 0.0, torch.float16: 2**-11, torch.bfloat16: 2**-8}


def assert_near(name, error, size, dtype, slack=0.0):
    assert not error.isnan().any(), name
    beyond = error - SHARED_ERROR[dtype] * slack
    assert float(beyond.max()) / size < TOLERANCE[dtype], f"{name}: largest error {float(error.max())}"
    assert float(error.mean()) / size < MEAN_TOLERANCE[dtype], f"{name}: mean error {float(error.mean())}"


NAMES = ("out", "dq", "dk", "dv", "dbias")


class Expected(tuple):
    """What NAMES has, in float64; `slack`: how much a relative error of whole rows of the output may move dq and dk.

    The backward takes delta = sum(dO * O) of the rounded output, and dS = P * (dP - delta).
    """

    slack: dict


def reference(
    q, k, v, grad, bias=None, *, causal=False, scale=None, window=(-1, -1), softcap=0.0, bottom_right=False, keep=None
):
    """Output and gradients in float64 on the CPU; `keep` is the dropout mask already divided by 1 - p."""
    q, k, v = (t.detach().cpu().double().requires_grad_() for t in (q, k, v))
    group = q.size(-3) // k.size(-3)
    scores = q @ k.repeat_interleave(group, -3).transpose(-1, -2) * (q.size(-1) ** -0.5 if scale is None else scale)
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    wide = None
    if bias is not None and bias.dtype == torch.bool:
        scores = scores.masked_fill(~bias.cpu(), -math.inf)
    elif bias is not None:
        wide = bias.detach().cpu().double().requires_grad_()
        scores = scores + wide
    q_len, k_len = scores.shape[-2:]
    shift = k_len - q_len if bottom_right else 0
    seen = torch.arange(k_len)[None] - torch.arange(q_len)[:, None] - shift
    left, right = window
    visible = torch.ones_like(seen, dtype=torch.bool)
    if left >= 0:
        visible &= seen >= -left
    if right >= 0:
        visible &= seen <= right
    if causal:
        visible &= seen <= 0
    scores = scores.masked_fill(~visible, -math.inf)
    hidden = (scores == -math.inf).all(-1, keepdim=True)
    weights = torch.softmax(scores.masked_fill(hidden, 0.0), -1).masked_fill(hidden, 0.0)
    if keep is not None:
        weights = weights * keep
    out = weights @ v.repeat_interleave(group, -3)
    grad = grad.detach().cpu().double()
    out.backward(grad)
    expected = Expected((out.detach(), q.grad, k.grad, v.grad, None if wide is None else wide.grad))
    with torch.no_grad():
        moved = weights * (grad * out).sum(-1, keepdim=True).abs()
        moved *= q.size(-1) ** -0.5 if scale is None else abs(scale)
        by_head = moved.transpose(-1, -2) @ q.abs()
        expected.slack = {
            "dq": moved @ k.abs().repeat_interleave(group, -3),
            "dk": by_head.unflatten(-3, (-1, group)).sum(-3),
        }
    return expected


def check(actual, expected, dtype):
    for name, a, e in zip(NAMES, actual, expected):
        if e is None:
            continue
        a = a.detach().cpu().double()
        assert a.shape == e.shape, name
        error = (a - e).abs()
        size = max(1.0, float(e.abs().max())) if e.numel() else 1.0
        if e.numel():
            assert_near(name, error, size, dtype, getattr(expected, "slack", {}).get(name, 0.0))


def inputs(batch, heads, kv_heads, q_len, k_len, dim, v_dim, dtype=torch.float32):
    shapes = (
        (batch, heads, q_len, dim),
        (batch, kv_heads, k_len, dim),
        (batch, kv_heads, k_len, v_dim),
        (batch, heads, q_len, v_dim),
    )
    return [torch.randn(s).to(dtype).to("aule") for s in shapes]


def poison(*shapes):
    """Leaves NaN in the blocks that the next allocations will get."""
    for shape in shapes:
        torch.full(shape, math.nan, device="aule")


def run(
    q,
    k,
    v,
    grad,
    bias=None,
    *,
    causal=False,
    scale=None,
    window=(-1, -1),
    softcap=0.0,
    bottom_right=False,
    dropout_p=0.0,
):
    q, k, v = (t.detach().requires_grad_() for t in (q, k, v))
    if bias is not None and bias.dtype != torch.bool:
        bias = bias.detach().requires_grad_()
    poison(grad.shape, q.shape, k.shape, v.shape)
    out, *_ = torch.ops.aule.flash_attn_fwd(q, k, v, bias, dropout_p, causal, scale, *window, softcap, bottom_right)
    out.backward(grad)
    return out, q.grad, k.grad, v.grad, None if bias is None else bias.grad


def check_dropout(override, family, sizes, dtype=torch.float32, backward=True):
    """After a seed `family` drops the weights that the mask's description says; so do the kernels of the backward."""
    override(attention_variant=family)
    p = 0.4
    batch, heads, _, queries, keys, dim, _ = sizes
    q, k, v, grad = inputs(*sizes, dtype)
    torch.aule.manual_seed(7)
    actual = run(q, k, v, grad, dropout_p=p)
    keep = described_mask(7, 0, batch * heads, queries, keys, p).view(batch, heads, queries, keys)
    check(actual, reference(q, k, v, grad, keep=keep.double() / (1 - p)), dtype)
    want = described_mask(7, 0, heads, queries, keys, p)
    for mask in drawn_masks(heads, queries, keys, p, dtype, dim, backward=backward):
        assert torch.equal(mask, want)
