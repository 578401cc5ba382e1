"""Fused attention against float64: shapes, masks, windows, dropout, gradients, memory, determinism, bad input."""

import gc
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

import torch_aule
from attention_reference import check, check_dropout, inputs, reference, run
from torch_aule.attention import active_attention_variants

pytestmark = pytest.mark.current_lavapipe

# Each combination is three pipelines, so the random shapes draw from a few.
CONFIGS = [  # dtype, bias, softcap, head_dim, v_dim
    (torch.float32, None, 0.0, 16, 16),
    (torch.float32, None, 0.0, 9, 13),
    (torch.float32, "float", 0.0, 16, 16),
    (torch.float32, "bool", 0.0, 16, 16),
    (torch.float32, "float", 3.0, 16, 16),
    (torch.float16, None, 0.0, 16, 16),
    (torch.bfloat16, None, 0.0, 16, 16),
    (torch.float16, "float", 0.0, 16, 16),
    (torch.bfloat16, "float", 0.0, 16, 16),
    (torch.bfloat16, None, 3.0, 9, 13),
]


@settings(max_examples=200, deadline=None, database=None)
@given(
    config=st.sampled_from(CONFIGS),
    batch=st.integers(1, 2),
    kv_heads=st.integers(1, 2),
    group=st.integers(1, 3),
    q_len=st.integers(1, 40),
    k_len=st.integers(1, 40),
    causal=st.booleans(),
    bottom_right=st.booleans(),
    window=st.sampled_from([(-1, -1), (-1, -1), (5, -1), (-1, 4), (3, 2), (0, 0)]),
    scale=st.sampled_from([None, 0.3, -0.5, 0.0]),
    broadcast=st.tuples(st.booleans(), st.booleans(), st.booleans()),
    seed=st.integers(0, 2**31),
)
def test_random_shapes(
    config, batch, kv_heads, group, q_len, k_len, causal, bottom_right, window, scale, broadcast, seed
):
    dtype, kind, softcap, dim, v_dim = config
    torch.manual_seed(seed)
    q, k, v, grad = inputs(batch, kv_heads * group, kv_heads, q_len, k_len, dim, v_dim, dtype)
    bias = None
    if kind is not None:
        full = (batch, kv_heads * group, q_len)
        shape = [1 if one else n for one, n in zip(broadcast, full)] + [k_len]
        bias = (torch.rand(shape) > 0.3 if kind == "bool" else torch.randn(shape)).to("aule")
    options = dict(causal=causal, scale=scale, window=window, softcap=softcap, bottom_right=bottom_right)
    check(run(q, k, v, grad, bias, **options), reference(q, k, v, grad, bias, **options), dtype)


@pytest.mark.parametrize("dim, v_dim, length", [(64, 64, 160), (1, 1, 5), (128, 96, 20), (160, 260, 9), (512, 512, 5)])
def test_head_sizes(dim, v_dim, length):
    q, k, v, grad = inputs(1, 2, 2, length, length + 3, dim, v_dim)
    check(run(q, k, v, grad, causal=True), reference(q, k, v, grad, causal=True), torch.float32)


@pytest.mark.validated
@pytest.mark.parametrize("dim", [16, 40])
def test_the_family_for_gpus(override, dim):
    override(attention_variant="simt")
    assert active_attention_variants(64)["forward"] == "simt"
    q, k, v, grad = inputs(1, 4, 2, 70, 45, dim, 16)
    options = dict(causal=True, window=(20, -1))
    check(run(q, k, v, grad, **options), reference(q, k, v, grad, **options), torch.float32)


def test_dropout(override):
    check_dropout(override, "simd", (2, 2, 2, 37, 50, 16, 16))


def test_dropout_is_replayed_in_backward():
    """With the identity as values the output is the dropped matrix of weights, which tells the mask."""
    n = 16
    q, k, _, grad = inputs(2, 2, 2, 50, n, 16, n)
    eye = torch.eye(n).expand(2, 2, n, n).contiguous().to("aule")
    torch.aule.manual_seed(3)
    dropped = run(q, k, eye, grad, dropout_p=0.3)
    p = 0.3
    plain = reference(q, k, eye, grad)[0]
    keep = (dropped[0].detach().cpu().double() / plain).round(decimals=3)
    assert set(keep.unique().tolist()) == {0.0, round(1 / (1 - p), 3)}
    share = float((keep == 0).double().mean())
    assert abs(share - p) < 4 * math.sqrt(p * (1 - p) / keep.numel())
    keep = (keep > 0).double() / (1 - p)
    check(dropped, reference(q, k, eye, grad, keep=keep), torch.float32)
    again = run(q, k, eye, grad, dropout_p=0.3)[0]
    assert not torch.equal(again.cpu(), dropped[0].cpu())
    torch.aule.manual_seed(3)
    assert torch.equal(run(q, k, eye, grad, dropout_p=0.3)[0].cpu(), dropped[0].cpu())
    assert run(q, k, eye, grad, dropout_p=1.0)[0].abs().max().item() == 0


@pytest.mark.parametrize("family", ["simd", "simt"])
@pytest.mark.parametrize("dropout_p", [0.0, 0.4])
def test_the_output_s_rounding_stays_out_of_the_gradients(override, family, dropout_p):
    """A row that sees one key has weight 1 whatever the scores: their gradient is that of the log-sum-exp, here 1."""
    override(attention_variant=family)
    q, k, v, grad = inputs(1, 2, 2, 40, 40, 16, 16, torch.bfloat16)
    bias = torch.randn(40, 40).to("aule").requires_grad_()
    q, k, v = (t.requires_grad_() for t in (q, k, v))
    out, lse, *_ = torch.ops.aule.flash_attn_fwd(q, k, v, bias, dropout_p, False, None, 0, 0)
    torch.autograd.backward([out, lse], [grad, torch.ones_like(lse)])
    torch.testing.assert_close(bias.grad.cpu(), 2 * torch.eye(40), rtol=0, atol=1e-4)  # two heads share the bias
    torch.testing.assert_close(q.grad.cpu(), k.detach().cpu() / 4, rtol=2**-8, atol=1e-4)
    torch.testing.assert_close(k.grad.cpu(), q.detach().cpu() / 4, rtol=2**-8, atol=1e-4)


def test_rows_that_see_nothing():
    q, k, v, grad = inputs(1, 2, 2, 20, 12, 16, 16)
    bias = torch.zeros(20, 12)
    bias[3:6] = -math.inf
    options = dict(causal=True, bottom_right=True)  # the first 8 queries see no key
    actual, expected = run(q, k, v, grad, bias.to("aule"), **options), reference(q, k, v, grad, bias, **options)
    check(actual, expected, torch.float32)
    assert actual[0][:, :, :8].abs().max().item() == 0
    _, lse = torch_aule.flash_attention(q, k, v, causal_bottom_right=True, return_lse=True)
    assert (lse[:, :, :8] == -math.inf).all().item() and lse[:, :, 8:].isfinite().all().item()


def test_strides():
    base = torch.randn(2, 30, 3, 4, 16).to("aule")  # [B, L, 3, H, D]: one projection for all three
    q, k, v = (base[:, :, i].transpose(1, 2) for i in range(3))
    grad = torch.randn(2, 30, 4, 16).to("aule").transpose(1, 2)
    actual = run(q, k, v, grad, causal=True)
    assert actual[0].stride() == torch.empty_like(q).stride()
    check(actual, reference(q, k, v, grad, causal=True), torch.float32)
    columns = torch.randn(1, 2, 16, 21).to("aule").transpose(2, 3)  # last dimension not dense
    expanded = columns[:, :1].expand(1, 2, 21, 16)
    grad = torch.randn(1, 2, 21, 16).to("aule")
    check(run(columns, expanded, columns, grad), reference(columns, expanded, columns, grad), torch.float32)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_sdpa_with_masks(dtype):
    q, k, v, grad = inputs(2, 2, 2, 13, 17, 16, 16, dtype)
    boolean = torch.rand(2, 1, 1, 17) > 0.3
    additive = torch.randn(13, 17).to(dtype)
    for mask in (boolean, additive):
        leaves = [t.detach().requires_grad_() for t in (q, k, v)]
        bias = mask.to("aule")
        if mask.dtype != torch.bool:
            bias.requires_grad_()
        out = F.scaled_dot_product_attention(*leaves, attn_mask=bias)
        out.backward(grad)
        actual = (out, *(t.grad for t in leaves), bias.grad if bias.requires_grad else None)
        check(actual, reference(q, k, v, grad, mask), dtype)


def test_sdpa_shapes():
    for shape in ((5, 8), (3, 5, 8), (2, 2, 3, 5, 8)):  # 2-D and 5-D take the math path
        t = torch.randn(shape)
        expected = F.scaled_dot_product_attention(t, t, t)
        torch.testing.assert_close(
            F.scaled_dot_product_attention(*[t.to("aule")] * 3).cpu(), expected, rtol=1e-4, atol=1e-5
        )
    q, kv = torch.randn(1, 4, 6, 16), torch.randn(1, 2, 6, 16)
    expected = F.scaled_dot_product_attention(q, kv, kv, enable_gqa=True)
    actual = F.scaled_dot_product_attention(q.to("aule"), kv.to("aule"), kv.to("aule"), enable_gqa=True)
    torch.testing.assert_close(actual.cpu(), expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(RuntimeError):  # heads differ and nobody asked for groups
        F.scaled_dot_product_attention(q.to("aule"), kv.to("aule"), kv.to("aule"))
    with pytest.raises(RuntimeError, match="causal"):
        F.scaled_dot_product_attention(
            q.to("aule"), q.to("aule"), q.to("aule"), torch.zeros(6, 6).to("aule"), is_causal=True
        )


def test_empty():
    q, k, v, _ = inputs(0, 2, 2, 4, 5, 8, 8)
    assert torch.ops.aule.flash_attn_fwd(q, k, v)[0].shape == (0, 2, 4, 8)
    q, k, v, grad = inputs(1, 2, 2, 4, 0, 8, 8)
    out, dq, dk, _, _ = run(q, k, v, grad)
    assert out.abs().max().item() == 0 and dq.abs().max().item() == 0 and dk.shape == k.shape


def test_deterministic():
    q, k, v, grad = inputs(1, 4, 2, 33, 47, 16, 16)
    first = run(q, k, v, grad, causal=True)
    for _ in range(3):
        for a, b in zip(first, run(q, k, v, grad, causal=True)):
            assert a is None or torch.equal(a.cpu(), b.cpu())


def test_memory_grows_linearly():
    """A window keeps the work small; the peak counts every buffer of forward and backward."""
    peaks = []
    for n in (4096, 16384, 65536):
        q, k, v, grad = inputs(1, 1, 1, n, n, 8, 8)
        torch.aule.synchronize()
        torch.aule.reset_peak_memory_stats()
        before = torch.aule.memory_allocated()
        leaves = [t.requires_grad_() for t in (q, k, v)]
        out = torch_aule.flash_attention(*leaves, window_size=(8, 0))
        out.backward(grad)
        torch.aule.synchronize()
        peaks.append(torch.aule.max_memory_allocated() - before)
    assert peaks[1] < 4.5 * peaks[0] and peaks[2] < 4.5 * peaks[1], peaks
    assert peaks[2] < 64 * 65536 * 4, peaks  # the matrix of scores would be 65536 * 65536 * 4


def test_python_function_keeps_the_kind():
    q, k, v = (torch.randn(1, 2, 9, 16) for _ in range(3))
    expected = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    torch.testing.assert_close(torch_aule.flash_attention(q, k, v), expected, rtol=1e-4, atol=1e-5)
    out, lse = torch_aule.aule_attention(q.numpy(), k.numpy(), v.numpy(), return_lse=True)
    assert isinstance(out, np.ndarray) and isinstance(lse, np.ndarray) and lse.shape == (1, 2, 9)
    np.testing.assert_allclose(out, expected.numpy(), rtol=1e-4, atol=1e-5)
    on_device = torch_aule.flash_attention(q.to("aule"), k.to("aule"), v.to("aule"))
    assert on_device.device.type == "aule"
    leaf = q.clone().requires_grad_()
    torch_aule.flash_attention(leaf, k, v).sum().backward()
    assert leaf.grad is not None and leaf.grad.device.type == "cpu"


def test_bad_input():
    flash = torch_aule.flash_attention
    q = torch.randn(1, 4, 6, 8).to("aule")
    other = torch.randn(1, 3, 6, 8).to("aule")
    cases = [
        (ValueError, "head size", lambda: flash(q, q[..., :4], q)),
        (ValueError, "divides", lambda: flash(q, other, other)),
        (ValueError, "enable_gqa", lambda: flash(q, q[:, :2], q[:, :2], enable_gqa=False)),
        (ValueError, "length", lambda: flash(q, q, q[:, :, :4])),
        (ValueError, "batch", lambda: flash(q[0, 0], q[0, 0], q[0, 0])),
        (ValueError, "scale", lambda: flash(q, q, q, scale=-1.0)),
        (ValueError, "dropout_p", lambda: flash(q, q, q, dropout_p=1.5)),
        (ValueError, "softcap", lambda: flash(q, q, q, softcap=-1.0)),
        (ValueError, "window_size", lambda: flash(q, q, q, window_size=0)),
        (TypeError, "dtype", lambda: flash(q.int(), q.int(), q.int())),
        (TypeError, "dtype", lambda: flash(q, q.half(), q)),
        (TypeError, "ndarray", lambda: flash([1.0], q, q)),
        (RuntimeError, "k on aule", lambda: flash(q, q.cpu(), q)),
        (RuntimeError, "attn_bias of a shape", lambda: flash(q, q, q, attn_mask=torch.zeros(5, 6).to("aule"))),
        (RuntimeError, "key on device aule", lambda: torch.ops.aule.flash_attn_fwd(q, q.cpu(), q)),
        (RuntimeError, "dimensions", lambda: torch.ops.aule.flash_attn_fwd(q[0, 0], q[0, 0], q[0, 0])),
        (RuntimeError, "divides", lambda: torch.ops.aule.flash_attn_fwd(q, other, other)),
        (RuntimeError, "head size", lambda: torch.ops.aule.flash_attn_fwd(*[torch.zeros(1, 1, 2, 513).to("aule")] * 3)),
    ]
    gc.collect()
    before = torch.aule.memory_allocated()
    for error, text, call in cases:
        with pytest.raises(error, match=text):
            call()
    gc.collect()
    assert torch.aule.memory_allocated() == before, "a refused call keeps memory"
    assert flash(q, q, q).isfinite().all().item()
