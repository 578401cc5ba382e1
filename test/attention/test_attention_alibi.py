"""Linear biases (ALiBi) inside every family of attention kernels, beside the formula in float64."""

import functools
import math

import pytest
import torch

import torch_aule
import torch_aule.tune
from attention_reference import DECODE, check, inputs, reference
from helpers import FLOATS
from torch_aule import functional as aule

pytestmark = pytest.mark.validated  # conftest.py: `attention_family` is marked pytest.mark.current_lavapipe


def bias_of(slopes, q_len, k_len, bottom_right=False):
    """[.., H, Lq, Lk] in float64."""
    i, j = torch.arange(q_len).double()[:, None], torch.arange(k_len).double()
    return -slopes.double().cpu()[..., None, None] * (i + (k_len - q_len if bottom_right else 0) - j).abs()


def run(q, k, v, grad, slopes, **options):
    leaves = [t.detach().requires_grad_() for t in (q, k, v)]
    out = torch_aule.flash_attention(*leaves, alibi_slopes=slopes, **options)
    out.backward(grad)
    return [out, *(t.grad for t in leaves)]


def compare(q, k, v, grad, slopes, bottom_right=False, **options):
    batch = q.size(0)
    bias = bias_of(slopes, q.size(-2), k.size(-2), bottom_right)
    bias = bias.expand(batch, *bias.shape[-3:]) if q.dim() == 4 else bias
    expected = reference(q, k, v, grad, bias, bottom_right=bottom_right, **options)
    for name in ("window", "causal"):
        if name in options:
            options[{"window": "window_size"}.get(name, name)] = options.pop(name)
    options.setdefault("causal", False)
    check(run(q, k, v, grad, slopes, causal_bottom_right=bottom_right, **options), expected[:4], q.dtype)


def test_on_matrices(matrix_family):
    """The forward alone, which a software device compiles in 15 seconds; gradients take three times as long."""
    q, k, v, grad = inputs(1, 2, 1, 40, 40, 16, 16, torch.float16)
    slopes = torch.tensor([0.5, 0.004], device="aule")
    out = torch_aule.flash_attention(q, k, v, causal=False, alibi_slopes=slopes)
    check([out], reference(q, k, v, grad, bias_of(slopes, 40, 40)[None])[:1], q.dtype)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", FLOATS)
def test_families(attention_family, causal, dtype):
    q, k, v, grad = inputs(2, 4, 2, 37, 53, 40, 24, dtype)
    compare(q, k, v, grad, aule.alibi_slopes(4, device="aule"), causal=causal)


def test_beside_other_terms(attention_family):
    """A window, a soft cap, the other corner, and slopes for each batch element."""
    q, k, v, grad = inputs(2, 3, 3, 41, 29, 16, 16, torch.float16)
    slopes = torch.rand(2, 3, device="aule")
    compare(q, k, v, grad, slopes, bottom_right=True, causal=True)
    compare(q, k, v, grad, slopes, window=(9, 5), softcap=2.0)


@pytest.mark.parametrize("options", [{}, {"causal": True}, {"window": (60, 30)}], ids=["all", "causal", "band"])
@pytest.mark.parametrize("q_len, k_len", [(96, 160), (150, 71)])
def test_tiles_on_both_sides_of_the_diagonal(attention_family, q_len, k_len, options):
    """Keys fill the last tile, and not. One key's scores exceed what is near each row by far."""
    q, k, v, grad = inputs(1, 2, 2, q_len, k_len, 16, 16, torch.float16)
    k[..., k_len // 3, :] *= 8
    compare(q, k, v, grad, torch.tensor([0.5, 0.004], device="aule"), **options)


@pytest.mark.parametrize("scale", [1e-30, 0.0])
def test_small_scales(attention_family, scale):
    q, k, v, grad = inputs(1, 2, 2, 40, 40, 16, 16, torch.float16)
    compare(q, k, v, grad, torch.tensor([3.0, -0.1], device="aule"), scale=scale)


def test_heads_of_many_columns_and_a_workspace():
    q, k, v, grad = inputs(1, 2, 1, 70, 70, 144, 136, torch.float16)
    with torch_aule.tune.override(attention_workspace=16):
        compare(q, k, v, grad, aule.alibi_slopes(2, device="aule"), causal=True)


def test_views_and_no_batch():
    q, k, v, grad = inputs(1, 2, 2, 19, 19, 16, 16)
    q, k = (torch.cat((t, t), -1).mT.contiguous().mT[..., 3:19] for t in (q, k))
    compare(q[0], k[0], v[0], grad[0], torch.rand(4, device="aule")[1::2])


def test_on_the_cpu():
    q, k, v, grad = (t.cpu() for t in inputs(2, 4, 2, 13, 17, 8, 8))
    compare(q, k, v, grad, aule.alibi_slopes(4, device="cpu"), causal=True)
    on_host = torch_aule.attention.cpu.attention(
        q, k, v, None, 0.0, True, None, -1, -1, 0.0, False, aule.alibi_slopes(4, device="cpu")
    )
    on_device = torch_aule.flash_attention(q, k, v, alibi_slopes=aule.alibi_slopes(4, device="cpu"), return_lse=True)
    for a, e in zip(on_device, on_host):
        torch.testing.assert_close(a, e, rtol=1e-4, atol=1e-5)


def test_long_keys_are_cut():
    q, k, v, grad = inputs(1, 2, 2, 33, 67, 8, 8)
    options = {"is_causal": False}
    slopes = aule.alibi_slopes(2, device="aule")
    whole = torch.ops.aule.flash_attn_fwd(q, k, v, **options, alibi_slopes=slopes)[0]
    expected = reference(q, k, v, grad, bias_of(slopes, 33, 67)[None])
    check([whole], expected[:1], torch.float32)


@pytest.mark.current_lavapipe
@pytest.mark.parametrize("variant", DECODE)
@pytest.mark.parametrize(
    "dtype", [torch.float16, *(pytest.param(d, marks=pytest.mark.current_long) for d in FLOATS if d != torch.float16)]
)
@pytest.mark.parametrize("paged", [False, pytest.param(True, marks=pytest.mark.current_long)])
def test_decoding(variant, dtype, paged):
    batch, heads, kv_heads, dim, lengths = 3, 4, 2, 24, [5, 70, 33]
    q = torch.randn(batch, 2, heads, dim).to(dtype)
    k, v = (torch.randn(batch, 80, kv_heads, dim).to(dtype) for _ in range(2))
    slopes, used = torch.rand(batch, heads), torch.tensor(lengths, dtype=torch.int32)
    options = {"scale": 0.3, "alibi_slopes": slopes.to("aule")}
    with torch_aule.tune.override(attention_variant=variant):
        if paged:
            table = torch.randperm(15).int().view(3, 5).to("aule")
            pages = [torch.zeros(15, 16, kv_heads, dim, dtype=dtype) for _ in range(2)]
            for page, rows in zip(pages, (k, v)):
                page[table.cpu().long().flatten()] = rows.reshape(15, 16, kv_heads, dim)
            out = torch_aule.paged_attention(
                q.to("aule"), *(p.to("aule") for p in pages), table, used.to("aule"), **options
            )
        else:
            options["softmax_scale"] = options.pop("scale")
            here = (t.to("aule") for t in (q, k, v))
            out = torch_aule.flash_attn_with_kvcache(*here, cache_seqlens=used.to("aule"), causal=True, **options)
    for b, n in enumerate(lengths):
        one = (t[b : b + 1, :n].transpose(1, 2) for t in (k, v))
        bias = bias_of(slopes[b], 2, n, bottom_right=True)[None]
        rows = q[b : b + 1].transpose(1, 2)
        expected = reference(rows, *one, torch.zeros(rows.shape), bias, causal=True, scale=0.3, bottom_right=True)
        check([out[b : b + 1].transpose(1, 2)], expected[:1], dtype)


def packed(lengths_q, lengths_k, heads, kv_heads, dim, dtype):
    shapes = (sum(lengths_q), heads, dim), (sum(lengths_k), kv_heads, dim), (sum(lengths_k), kv_heads, dim)
    q, k, v = (torch.randn(s).to(dtype) for s in shapes)
    places = [torch.tensor([0, *lengths]).cumsum(0).int() for lengths in (lengths_q, lengths_k)]
    return q, k, v, *places


@pytest.mark.parametrize("dtype", FLOATS)
def test_packed_sequences(attention_family, dtype):
    lengths_q, lengths_k = [7, 0, 33, 1], [12, 3, 40, 0]
    q, k, v, cu_q, cu_k = packed(lengths_q, lengths_k, 4, 2, 32, dtype)
    slopes = torch.rand(4, 4)
    here = [t.to("aule").requires_grad_() for t in (q, k, v)]
    places = cu_q.to("aule"), cu_k.to("aule")
    out = aule.varlen_attention(*here, *places, 33, 40, causal=True, alibi_slopes=slopes.to("aule"))
    grad = torch.randn(q.shape).to(dtype)
    out.backward(grad.to("aule"))
    for b, (n, m) in enumerate(zip(lengths_q, lengths_k)):
        rows, keys = slice(cu_q[b], cu_q[b] + n), slice(cu_k[b], cu_k[b] + m)
        if n == 0 or m == 0:
            assert not out[rows].any() and not here[1].grad[keys].any()
            continue
        one = [t[s].transpose(0, 1)[None] for t, s in ((q, rows), (k, keys), (v, keys), (grad, rows))]
        expected = reference(*one, bias_of(slopes[b], n, m, bottom_right=True)[None], causal=True, bottom_right=True)
        places = (out, rows), (here[0].grad, rows), (here[1].grad, keys), (here[2].grad, keys)
        check([t[s].transpose(0, 1)[None] for t, s in places], expected[:4], dtype)


def test_operator_of_pytorch_takes_slopes_without_a_gradient():
    q, k, v, cu_q, cu_k = (t.to("aule") for t in packed([9, 20], [9, 20], 2, 2, 16, torch.float16))
    slopes = aule.alibi_slopes(2, device="aule")
    call = torch.ops.aten._flash_attention_forward
    options = {"cum_seq_q": cu_q, "cum_seq_k": cu_k, "max_q": 20, "max_k": 20, "dropout_p": 0.0, "is_causal": True}
    out = call(q, k, v, **options, return_debug_mask=False, alibi_slopes=slopes)[0]
    own = aule.varlen_attention(q, k, v, cu_q, cu_k, 20, 20, causal=True, alibi_slopes=slopes)
    assert torch.equal(out, own)
    dense = [t[:9][None] for t in (q, k, v)]
    options.update(cum_seq_q=None, cum_seq_k=None)
    out = call(*dense, **options, return_debug_mask=False, alibi_slopes=slopes)[0]
    torch.testing.assert_close(out[0], own[:9], rtol=1e-3, atol=1e-3)
    with pytest.raises(NotImplementedError, match="no gradient beside alibi_slopes"):
        call(q.requires_grad_(), k, v, **options | {"cum_seq_q": cu_q, "cum_seq_k": cu_k}, return_debug_mask=False,
             alibi_slopes=slopes)  # fmt: skip


def test_traced():
    tests = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
    opcheck = functools.partial(torch.library.opcheck, test_utils=tests)
    slopes = aule.alibi_slopes(2, device="aule")
    q, k, v, _ = (t.requires_grad_() for t in inputs(1, 2, 2, 9, 11, 8, 8))
    opcheck(torch.ops.aule.flash_attn_fwd.default, (q, k, v), {"alibi_slopes": slopes})
    q, k, v, cu_q, cu_k = (t.to("aule") for t in packed([4, 9], [6, 5], 2, 2, 8, torch.float32))
    q, k, v = (t.requires_grad_() for t in (q, k, v))
    args = (q, k, v, cu_q, cu_k, 9, 6, True, None, -1, -1, slopes)
    opcheck(torch.ops.aule.varlen_attn.default, args)
    cache = torch.randn(2, 12, 2, 8, device="aule")
    query = torch.randn(2, 1, 2, 8, device="aule")
    opcheck(torch.ops.aule.flash_attn_decode.default, (query, cache, cache), {"alibi_slopes": slopes})
    compiled = torch.compile(torch_aule.flash_attention, fullgraph=True, backend="aot_eager")
    q, k, v, _ = inputs(1, 2, 2, 9, 11, 8, 8)
    assert torch.equal(compiled(q, k, v, alibi_slopes=slopes), torch_aule.flash_attention(q, k, v, alibi_slopes=slopes))


def test_no_matrix_of_biases_is_made():
    """4 heads over 2048 tokens: a bias of 16-bit floats alone would be 32 MiB."""
    q = torch.randn(1, 4, 2048, 16, device="aule", dtype=torch.float16)
    slopes = aule.alibi_slopes(4, device="aule")
    torch.aule.synchronize()
    torch.aule.reset_peak_memory_stats()
    before = torch.aule.max_memory_allocated()
    torch_aule.flash_attention(q[:, :, :64], q, q, alibi_slopes=slopes)
    assert torch.aule.max_memory_allocated() - before < 1 << 20


def test_errors():
    q = torch.zeros(2, 3, 4, 8, device="aule")
    slopes = torch.ones(3, device="aule")
    fwd = functools.partial(torch.ops.aule.flash_attn_fwd, q, q, q)
    bias = torch.zeros(4, 4, device="aule")
    table, used = torch.zeros(2, 1, dtype=torch.int32, device="aule"), torch.ones(2, dtype=torch.int32, device="aule")
    ours = functools.partial(torch_aule.flash_attention, q, q, q)
    pages = q.transpose(1, 2)
    decode = functools.partial(torch_aule.paged_attention, q[:, :, 0], pages, pages, table, used)
    cases = [
        (RuntimeError, r"flash_attn_fwd: expected alibi_slopes of shape \[3\] or \[2, 3\]", fwd, slopes[:2]),
        (RuntimeError, "alibi_slopes of dtype float32", fwd, slopes.half()),
        (RuntimeError, "alibi_slopes on aule:0", fwd, slopes.cpu()),
        (RuntimeError, "attn_bias to be None beside", functools.partial(fwd, attn_bias=bias), slopes),
        (NotImplementedError, "no gradient for alibi_slopes", fwd, slopes.clone().requires_grad_()),
        (ValueError, "alibi_slopes of shape", ours, slopes[1:]),
        (ValueError, "attn_mask to be None", functools.partial(ours, attn_mask=bias), slopes),
        (TypeError, "alibi_slopes of dtype float32", ours, slopes.double()),
        (RuntimeError, "alibi_slopes on", ours, slopes.cpu()),
        (RuntimeError, "flash_attn_decode: expected alibi_slopes of shape", decode, slopes[:1]),
    ]
    for kind, text, call, given in cases:
        with pytest.raises(kind, match=text):
            call(alibi_slopes=given)
    assert math.isfinite(fwd(alibi_slopes=slopes)[1].sum().item())
