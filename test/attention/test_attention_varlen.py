"""Packed sequences of their own lengths through torch.nn.attention.varlen, against float64."""

import inspect
import math

import pytest
import torch

from attention_reference import DECODE, assert_near, poison
from matrix_units import ON_CPU, has_matrices

pytestmark = pytest.mark.validated

varlen = pytest.importorskip("torch.nn.attention.varlen", reason="torch.nn.attention.varlen exists from torch 2.10 on")
varlen_attn = varlen.varlen_attn
ACCEPTS = inspect.signature(varlen_attn).parameters  # they grow from release to release

needs = {
    name: pytest.mark.skipif(name not in ACCEPTS, reason=f"varlen_attn of this torch takes no {name}")
    for name in ("enable_gqa", "seqused_k", "block_table", "num_splits")
}


@pytest.fixture(params=["simd", "simt", "coopmat"])
def family(request, override):
    if request.param == "coopmat" and not has_matrices(torch.float16):
        pytest.skip("the device has no cooperative matrices with a known layout")
    override(attention_variant=request.param)
    if ON_CPU:  # which compiles these for seconds
        for suffix, shape in (("", "2,1,16,1,1"), ("_DQ", "2,2,16,1,2"), ("_DKDV", "2,1,16,1,1")):
            override(**{"attention_shape" + suffix.lower(): shape})
    return request.param


def dtypes(family):
    return (torch.float16, torch.bfloat16) if family == "coopmat" else (torch.float32, torch.float16, torch.bfloat16)


def offsets(lengths):
    return [sum(lengths[:i]) for i in range(len(lengths) + 1)]


def one(q, k, v, window, scale):
    """Attention of one sequence [length, heads, dim]; causal and windows count from the last key."""
    group = q.size(1) // k.size(1)
    k, v = (t.repeat_interleave(group, 1) for t in (k, v))
    scores = torch.einsum("qhd,khd->hqk", q, k) * (q.size(-1) ** -0.5 if scale is None else scale)
    q_len, k_len = scores.shape[1:]
    seen = torch.arange(k_len)[None] - torch.arange(q_len)[:, None] - (k_len - q_len)
    left, right = window
    hidden = torch.zeros_like(seen, dtype=torch.bool)
    hidden = hidden | (seen > right) if right >= 0 else hidden
    hidden = hidden | (seen < -left) if left >= 0 else hidden
    scores = scores.masked_fill(hidden, -math.inf)
    dead = hidden.all(-1)[None, :, None]
    weights = torch.softmax(scores.masked_fill(dead, 0.0), -1).masked_fill(dead, 0.0) if k_len else scores
    lse = scores.detach().logsumexp(-1) if k_len else torch.full(scores.shape[:2], -math.inf)
    return torch.einsum("hqk,khd->qhd", weights, v), lse


def reference(q, k, v, grad, q_lens, k_lens, window=(-1, -1), scale=None):
    """Results and gradients in float64; zero in the rows that belong to no sequence."""
    q, k, v = (t.detach().cpu().double().requires_grad_() for t in (q, k, v))
    out, lse = torch.zeros_like(q), torch.zeros(q.size(1), q.size(0), dtype=torch.float64)
    parts = zip(offsets(q_lens), q_lens, offsets(k_lens), k_lens)
    pieces = []
    for q0, nq, k0, nk in parts:
        piece, lse[:, q0 : q0 + nq] = one(q[q0 : q0 + nq], k[k0 : k0 + nk], v[k0 : k0 + nk], window, scale)
        pieces.append(piece)
    out = torch.cat([*pieces, out[sum(q_lens) :]]) + 0 * (q.sum() + k.sum() + v.sum())  # so that each has a gradient
    out.backward(grad.cpu().double())
    return out.detach(), lse, q.grad, k.grad, v.grad


def check(name, actual, wanted, dtype):
    actual = actual.detach().cpu().double()
    assert actual.shape == wanted.shape, name
    if not wanted.numel():
        return
    error, size = (actual - wanted).abs(), max(1.0, float(wanted.abs().max()))
    assert_near(name, error, size, dtype)


def compare(dtype, q_lens, k_lens, heads=2, kv_heads=2, dim=16, padding=0, scale=None, window=(-1, -1), **options):
    total_q, total_k = sum(q_lens) + padding, sum(k_lens) + padding
    shapes = ((total_q, heads, dim), (total_k, kv_heads, dim), (total_k, kv_heads, dim), (total_q, heads, dim))
    q, k, v, grad = (torch.randn(s).to(dtype).to("aule") for s in shapes)
    leaves = [t.requires_grad_() for t in (q, k, v)]
    cu_q, cu_k = (torch.tensor(offsets(n), dtype=torch.int32, device="aule") for n in (q_lens, k_lens))
    if heads != kv_heads and "enable_gqa" in ACCEPTS:
        options["enable_gqa"] = True
    max_q, max_k = max(q_lens, default=0), max(k_lens, default=0)
    poison(*shapes, (heads, total_q))
    out, lse = varlen_attn(
        *leaves,
        cu_q,
        cu_k,
        max_q,
        max_k,
        scale=scale,
        window_size=window,
        return_aux=varlen.AuxRequest(lse=True),
        **options,
    )
    out.backward(grad)
    wanted, wanted_lse, *grads = reference(q, k, v, grad, q_lens, k_lens, window, scale)
    check("out", out, wanted, dtype)
    for name, t, w in zip(("dq", "dk", "dv"), leaves, grads):
        check(name, t.grad, w, dtype)
    lse, wanted_lse = lse.cpu()[:, : sum(q_lens)], wanted_lse[:, : sum(q_lens)]
    assert torch.equal(lse == -math.inf, wanted_lse == -math.inf)
    check("lse", lse.nan_to_num(neginf=0.0), wanted_lse.nan_to_num(neginf=0.0), dtype)


def test_lengths(family):
    for dtype in dtypes(family):
        compare(dtype, [37, 0, 1, 64], [37, 5, 70, 0])


def test_causal_counts_from_the_last_key(family):
    for dtype in dtypes(family)[:2]:
        compare(dtype, [40, 7, 33, 0, 20], [71, 7, 12, 4, 0], window=(-1, 0))


def test_windows_in_groups(family):
    dtype = dtypes(family)[0]
    compare(dtype, [45, 3, 60], [45, 30, 17], heads=4, kv_heads=2, window=(20, 3), scale=0.3)
    compare(dtype, [45, 3, 60], [45, 30, 17], heads=4, kv_heads=2, window=(9, 0))


def test_odd_head_sizes(family):
    compare(dtypes(family)[0], [19, 40], [25, 33], dim=12, window=(-1, 0))
    if family != "coopmat" or not ON_CPU:
        compare(dtypes(family)[0], [19, 40], [25, 33], dim=11)


def test_padding_behind_the_last_sequence_is_zero(family):
    compare(dtypes(family)[0], [19, 0, 40], [25, 3, 33], padding=21)


def test_random_lengths(family):
    for _ in range(3):
        n = int(torch.randint(1, 6, ()))
        q_lens, k_lens = (torch.randint(0, 90, (n,)).tolist() for _ in range(2))
        compare(dtypes(family)[0], q_lens, k_lens, window=(-1, 0))
        compare(dtypes(family)[0], q_lens, q_lens)


def test_no_rows_at_all(family):
    compare(torch.float32, [0, 0], [3, 0])
    compare(torch.float32, [4, 1], [0, 0])
    compare(torch.float32, [], [])


def test_slices_of_one_projection(family):
    dtype = dtypes(family)[0]
    base = torch.randn(60, 3, 2, 16).to(dtype).to("aule")
    q, k, v = base.unbind(1)
    lengths = [23, 37]
    cu = torch.tensor(offsets(lengths), dtype=torch.int32, device="aule")
    out = varlen_attn(q, k, v, cu, cu, 37, 37)
    check("out", out, reference(q, k, v, torch.zeros_like(out), lengths, lengths)[0], dtype)
    columns = torch.randn(2, 16, 60).to(dtype).to("aule").permute(2, 0, 1)  # last dimension not dense
    out = varlen_attn(columns, columns, columns, cu, cu, 37, 37)
    check("out", out, reference(columns, columns, columns, torch.zeros_like(out), lengths, lengths)[0], dtype)


def test_deterministic(family):
    dtype = dtypes(family)[0]
    q = torch.randn(90, 2, 16).to(dtype).to("aule").requires_grad_()
    cu = torch.tensor([0, 33, 90], dtype=torch.int32, device="aule")
    grads = []
    for _ in range(2):
        q.grad = None
        varlen_attn(q, q, q, cu, cu, 57, 57, window_size=(-1, 0)).sum().backward()
        grads.append(q.grad.cpu())
    assert torch.equal(*grads)


@needs["seqused_k"]
def test_seqused_k(family):
    dtype = dtypes(family)[0]
    q_lens, k_lens, used = [9, 20, 3], [40, 25, 8], [33, 25, 0]
    q, k = torch.randn(32, 2, 16).to(dtype), torch.randn(73, 2, 16).to(dtype)
    cu_q, cu_k = (torch.tensor(offsets(n), dtype=torch.int32, device="aule") for n in (q_lens, k_lens))
    device_used = torch.tensor(used, dtype=torch.int32, device="aule")
    out = varlen_attn(q.to("aule"), *[k.to("aule")] * 2, cu_q, cu_k, 20, 40, seqused_k=device_used, window_size=(-1, 0))
    kept = torch.cat([k[k0 : k0 + n] for k0, n in zip(offsets(k_lens), used)])
    check("out", out, reference(q, kept, kept, torch.zeros_like(q), q_lens, used, (-1, 0))[0], dtype)


@needs["block_table"]
@pytest.mark.parametrize("max_q", [40, 2])
def test_block_table(family, override, max_q):
    dtype = dtypes(family)[0]
    if max_q == 2 and family == "simt":
        override(attention_variant=DECODE[0])
    q_lens, used, page = [min(n, max_q) for n in (40, 0, 7)], [70, 13, 33], 16
    q = torch.randn(sum(q_lens), 4, 16).to(dtype)
    pages = torch.randn(20, page, 2, 16).to(dtype)
    table = torch.randperm(20)[:15].view(3, 5).to(torch.int32)
    kept = torch.cat([pages[row.long()].flatten(0, 1)[:n] for row, n in zip(table, used)])
    cu_q = torch.tensor(offsets(q_lens), dtype=torch.int32, device="aule")
    arguments = dict(
        enable_gqa=True,
        seqused_k=torch.tensor(used, dtype=torch.int32, device="aule"),
        block_table=table.to("aule"),
        window_size=(-1, 0),
    )
    cache = pages.to("aule")
    out = varlen_attn(q.to("aule"), cache, cache, cu_q, None, max_q, 80, **arguments)
    wanted = reference(q, kept, kept, torch.zeros_like(q), q_lens, used, (-1, 0))[0]
    check("out", out, wanted, dtype)
    given = torch.full(q.shape, math.nan, dtype=dtype, device="aule")
    varlen.varlen_attn_out(given, q.to("aule"), cache, cache, cu_q, None, max_q, 80, **arguments)
    assert torch.equal(given.cpu(), out.cpu())


@needs["num_splits"]
def test_one_split_does_not_depend_on_the_batch(family, override):
    override(attention_variant=None)
    q, k = torch.randn(30, 2, 16).half().to("aule"), torch.randn(300, 2, 16).half().to("aule")
    cu_q, cu_k = (torch.tensor(c, dtype=torch.int32, device="aule") for c in ([0, 2, 30], [0, 200, 300]))
    both = varlen_attn(q, k, k, cu_q, cu_k, 28, 200, num_splits=1)
    alone = varlen_attn(q[:2], k[:200], k[:200], cu_q[:2], cu_k[:2], 2, 200, num_splits=1)
    assert torch.equal(both[:2].cpu(), alone.cpu())


@pytest.mark.skipif(torch.aule.Graph is None, reason="torch.accelerator.Graph exists from torch 2.12 on")
def test_a_captured_graph_replays_with_other_lengths(family):
    dtype = dtypes(family)[0]
    q = torch.randn(60, 2, 16).to(dtype).to("aule")
    cu = torch.tensor([0, 30, 60], dtype=torch.int32, device="aule")
    graph = torch.aule.Graph()
    with torch.aule.graph(graph):
        out = varlen_attn(q, q, q, cu, cu, 60, 60)
    for lengths in ([11, 49], [60, 0]):
        cu.copy_(torch.tensor(offsets(lengths), dtype=torch.int32))
        torch.aule.synchronize()
        graph.replay()
        torch.aule.synchronize()
        check("out", out, reference(q, q, q, torch.zeros_like(out), lengths, lengths)[0], dtype)


def test_dense_form():
    """Without cum_seq the op takes [batch, length, heads, head size]."""
    q, k = torch.randn(2, 9, 2, 16).to("aule").requires_grad_(), torch.randn(2, 13, 2, 16).to("aule").requires_grad_()
    out, lse, *_ = torch.ops.aten._flash_attention_forward(q, k, k, None, None, 9, 13, 0.0, True, False)
    grad = torch.randn(2, 9, 2, 16).to("aule")
    out.backward(grad)
    for b in range(2):
        wanted, wanted_lse, dq, dk, dv = reference(q[b], k[b], k[b], grad[b], [9], [13], (-1, 0))
        check("out", out[b], wanted, torch.float32)
        check("lse", lse[b], wanted_lse, torch.float32)
        check("dq", q.grad[b], dq, torch.float32)
        check("dk + dv", k.grad[b], dk + dv, torch.float32)


def test_opcheck():
    q = torch.randn(20, 2, 16, device="aule")
    cu = torch.tensor([0, 7, 20], dtype=torch.int32, device="aule")
    args = (q, q, q, cu, cu, 13, 13, True)
    torch.library.opcheck(
        torch.ops.torch_attn._varlen_attn.default, args, test_utils=("test_schema", "test_faketensor")
    )


def test_bad_input():
    q = torch.randn(20, 2, 16).to("aule")
    cu = torch.tensor([0, 7, 20], dtype=torch.int32, device="aule")

    def call(q=q, k=q, v=q, cu_q=cu, cu_k=cu, max_q=13, dropout=0.0, **rest):
        return torch.ops.aten._flash_attention_forward(q, k, v, cu_q, cu_k, max_q, 13, dropout, False, False, **rest)

    cases = [
        ("cum_seq_q of dtype int32", lambda: call(cu_q=cu.long())),
        ("cum_seq_k of shape", lambda: call(cu_k=cu[:2])),
        ("cum_seq_k, or block_table", lambda: call(cu_k=None)),
        ("cum_seq_q on aule", lambda: call(cu_q=cu.cpu())),
        ("query of shape", lambda: call(q=q[None])),
        ("key of 3 dimensions", lambda: call(k=q[None])),
        ("head size", lambda: call(k=q[..., :8])),
        ("divides", lambda: call(k=torch.cat([q, q[:, :1]], 1), v=torch.cat([q, q[:, :1]], 1))),
        ("dtype", lambda: call(k=q.half())),
        ("max_q", lambda: call(max_q=-1)),
        ("dropout_p is not supported", lambda: call(dropout=0.1)),
        ("alibi_slopes of shape", lambda: call(alibi_slopes=torch.ones(5).to("aule"))),
        ("shape", lambda: call(cu_q=None, cu_k=None)),
    ]
    if "block_table" in ACCEPTS:
        table = torch.zeros(2, 1, dtype=torch.int32, device="aule")
        cases += [
            ("seqused_k beside", lambda: call(block_table=table)),
            ("key of 4 dimensions", lambda: call(block_table=table, seqused_k=cu[:2])),
        ]
    for text, function in cases:
        with pytest.raises((RuntimeError, NotImplementedError), match=text):
            function()


@pytest.mark.parametrize(
    "list_q, list_k, told",
    [
        ([0, 5, 14], [0, 5, 13], "9 is out of bounds .* 9$"),  # beyond the rows
        ([0, -1, 13], [0, 5, 13], "-1 is out of bounds .* 1[14]$"),
        ([0, 5, 13], [0, 13, 12], "-1 is out of bounds .* 1$"),  # falls
        ([0, 11, 13], [0, 5, 13], "11 is out of bounds .* 11$"),  # longer than max_q
    ],
)
def test_offsets_that_do_not_exist(list_q, list_k, told):
    q = torch.randn(13, 2, 16, device="aule")
    cu_q, cu_k = (torch.tensor(c, dtype=torch.int32, device="aule") for c in (list_q, list_k))
    torch.ops.aten._flash_attention_forward(q, q, q, cu_q, cu_k, 10, 13, 0.0, False, False)
    with pytest.raises(IndexError, match=f"_flash_attention_forward, a length or offset of a sequence: index {told}"):
        torch.aule.synchronize()
