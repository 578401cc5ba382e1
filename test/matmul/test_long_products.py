"""Loops that data makes long, in products, convolution, windows, attention, bags and optimizers.

lavapipe of Mesa 22.3 ends a shader's loops, without a word, after 65,535 iterations of one invocation: what walks
further has to be cut into several launches. Sizes here are a little beyond the device's limit. On a device without one
they are beyond 65,535, and results must be right all the same. Cases that take minutes at such sizes run in a second
process whose planners are told a small limit (TORCH_AULE_LIMITS), or with TORCH_AULE_LONG_TESTS=1.

References are float64 on the CPU; an error is relative to the reference's largest element. Sums of 70,000 float32
products in a row err by 1e-5 or so, and 16-bit results by their last place.
"""

import functools
import math
import os

import pytest
import torch
import torch.nn.functional as F

import torch_aule
from helpers import RELATIVE_TOLERANCES as TOLERANCE
from helpers import assert_close_to_float64, limited, loop_limit, run_python
from helpers import relative_error as error

LIMIT = loop_limit() or 65535
SMALL = LIMIT < 10000
randn = torch.randn
N = LIMIT + LIMIT // 13 + 4  # a little more than one invocation may walk
SIDE = math.isqrt(N) + 2
check = functools.partial(assert_close_to_float64, gradients=True)
heavy = pytest.mark.skipif(
    not SMALL and not os.environ.get("TORCH_AULE_LONG_TESTS"),
    reason="minutes at this size: runs with a small limit, or with TORCH_AULE_LONG_TESTS=1",
)


def check_averages(function, terms, x, **options):
    """Compare averages of `terms` values of both signs as sums, relative to sqrt(terms).

    The averages may all come near zero. Sums of float32 err by 3e-6 of sqrt(terms) at 70,000 terms in a row.
    """
    check(lambda x: function(x) * terms, x, sums=True, **options)


def right_or_refused(function, *tensors, **options):
    """For what is not cut: a result is right, and a refusal names the limit."""
    try:
        check(function, *tensors, **options)
    except NotImplementedError as refusal:
        assert "driver ends loops after" in str(refusal)


# Products


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("shape", [(3, 3), (5, 20), (1, 1), (1, 3), (3, 1)], ids=str)
@pytest.mark.parametrize("transposed", [False, True])
def test_product_along_a_long_k(device, dtype, shape, transposed):
    a, b = randn(shape[0], N), randn(N, shape[1])
    if transposed:
        a, b = a.t().contiguous().t(), b.t().contiguous().t()
    check(torch.mm, a, b, dtype=dtype, gradients=shape == (3, 3), sums=True)


@pytest.mark.parametrize("k", [524288, 2**21])
def test_product_along_a_very_long_k(device, k):
    check(torch.mm, randn(3, k), randn(k, 3), gradients=False)


def test_products_that_add(device):
    check(lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2), randn(3, 5), randn(3, N), randn(N, 5))
    check(lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2), randn(5), randn(3, N), randn(N, 5), dtype=torch.half)
    check(lambda c, a, b: torch.baddbmm(c, a, b, beta=2), randn(2, 3, 4), randn(2, 3, N), randn(2, N, 4))
    check(lambda c, a, b: torch.addmv(c, a, b, beta=0.5), randn(3), randn(3, N), randn(N), sums=True)
    c = randn(3, 5)
    a, b = randn(3, N), randn(N, 5)
    assert error(c.to("aule").addmm_(a.to("aule"), b.to("aule")), c.double() + a.double() @ b.double()) < 3e-5


@pytest.mark.parametrize("dtype", [torch.float32, torch.half, torch.float64], ids=str)
def test_vectors(device, dtype):
    check(torch.dot, randn(2 * N), randn(2 * N), dtype=dtype, sums=True)
    check(torch.mv, randn(3, N), randn(N), dtype=dtype, sums=True)
    check(lambda a, b: torch.mv(a.t(), b), randn(N, 3), randn(N), dtype=dtype, sums=True)
    check(torch.outer, randn(N), randn(3), dtype=dtype)


def test_integer_products_are_exact(device):
    a, b = torch.randint(-9, 9, (3, N)), torch.randint(-9, 9, (N, 3))
    for dtype in (torch.int64, torch.int32):
        assert torch.equal((a.to("aule", dtype) @ b.to("aule", dtype)).cpu(), a.to(dtype) @ b.to(dtype))
    a, b = (torch.randint(-128, 127, (32, N // 8 * 8 + 8), dtype=torch.int8) for _ in range(2))
    assert torch.equal(torch._int_mm(a.to("aule"), b.t().to("aule")).cpu(), a.int() @ b.t().int())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_gradients_of_linear_over_many_rows(device, dtype):
    check(F.linear, randn(1000003 if not SMALL else 3 * N, 3), randn(3, 3), randn(3), dtype=dtype)


def test_many_batches_and_einsum(device):
    check(torch.bmm, randn(N, 2, 3), randn(N, 3, 2))
    check(lambda a, b: torch.einsum("bik,bjk->bij", a, b), randn(2, 3, N), randn(2, 3, N))


# Convolution


def test_convolution_over_many_positions(device):
    check(lambda x, w, b: F.conv1d(x, w, b, padding=1), randn(1, 2, N), randn(2, 2, 3), randn(2))
    check(lambda x, w, b: F.conv1d(x, w, b, padding=1, groups=3), randn(1, 3, N), randn(3, 1, 3), randn(3))
    check(lambda x, w: F.conv_transpose2d(x, w, stride=2), randn(1, 2, SIDE, SIDE), randn(2, 2, 3, 3))
    check(lambda x, w: F.conv_transpose2d(x, w, stride=2, groups=2), randn(1, 2, SIDE, SIDE), randn(2, 1, 3, 3))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_depthwise_convolution_over_many_images(device, dtype):
    check(
        lambda x, w: F.conv2d(x, w, padding=1, groups=2), randn(N // 400 + 1, 2, 20, 21), randn(2, 1, 3, 3), dtype=dtype
    )


def test_three_dimensions(device):
    side = round(N ** (1 / 3)) + 2
    check(
        lambda x, w: F.conv3d(x, w, padding=1, stride=(1, 2, 1), groups=2),
        randn(1, 2, side, 2 * side, side),
        randn(2, 1, 3, 3, 3),
    )


def test_many_images_and_channels(device):
    check(lambda x, w, b: F.conv2d(x, w, b), randn(N, 1, 3, 3), randn(2, 1, 3, 3), randn(2), sums=True)
    check(F.conv2d, randn(1, N, 2, 2), randn(2, N, 1, 1), sums=True)
    check(F.conv2d, randn(1, 2, 2, 2), randn(N, 2, 1, 1), sums=True)
    check(lambda x, w: F.conv2d(x, w, groups=2), randn(1, 2 * N, 1, 2), randn(2, N, 1, 1), sums=True)
    check(lambda x, w: F.conv2d(x, w, groups=2), randn(1, 2, 1, 2), randn(2 * N, 1, 1, 1), sums=True)
    channels = N if SMALL else 2000
    check(lambda x, w: F.conv2d(x, w, groups=channels, padding=1), randn(1, channels, 2, 2), randn(channels, 1, 3, 3))


@heavy
def test_long_kernels(device):
    check(F.conv1d, randn(1, 1, N + 9), randn(1, 1, N), sums=True)
    check(lambda x, w: F.conv1d(x, w, groups=2, padding=7, dilation=2), randn(1, 2, 2 * N), randn(2, 1, N), sums=True)
    check(lambda x, w: F.conv2d(x, w, groups=2), randn(1, 2, SIDE + 3, SIDE + 2), randn(2, 1, SIDE, SIDE), sums=True)
    check(F.conv_transpose1d, randn(1, 1, 5), randn(1, 1, N), sums=True)
    check(F.conv_transpose2d, randn(1, 2, SIDE, SIDE), randn(2, 1, SIDE, SIDE), sums=True)
    check(lambda x: F.fold(x, (2 * SIDE, 2 * SIDE), (SIDE, SIDE)), randn(1, SIDE**2, (SIDE + 1) ** 2))


# Windows


@pytest.mark.parametrize("bins", [1, 2, 3])
def test_adaptive_pooling(device, bins):
    x = randn(2, 2, 4 * N + 3)
    check_averages(lambda x: F.adaptive_avg_pool1d(x, bins), 4 * N / bins, x)
    check(lambda x: F.adaptive_max_pool1d(x, bins, return_indices=True), x)
    x = randn(1, 2, SIDE, 3 * SIDE)
    check_averages(lambda x: F.adaptive_avg_pool2d(x, (1, bins)), 3 * SIDE**2 / bins, x)
    check(lambda x: F.adaptive_max_pool2d(x, (1, bins), return_indices=True), randn(1, 2, SIDE, 3 * SIDE))
    side = round(N ** (1 / 3)) + 2
    x = randn(1, 2, side, side, 3 * side)
    check_averages(lambda x: F.adaptive_avg_pool3d(x, (1, 1, bins)), 3 * side**3 / bins, x, dtype=torch.bfloat16)
    check(lambda x: F.adaptive_max_pool3d(x, (1, 1, bins)), randn(1, 2, side, side, 3 * side), dtype=torch.bfloat16)


def test_long_windows(device):
    x = randn(1, 2, N + 9)
    check_averages(lambda x: F.avg_pool1d(x, N, 1, padding=5), N, x)
    check_averages(lambda x: F.avg_pool1d(x, N, 3, padding=5, count_include_pad=False), N, x, dtype=torch.bfloat16)
    check(lambda x: F.max_pool2d(x, (1, N), 1, padding=(0, 5), return_indices=True), randn(1, 2, 1, N + 9))
    check(lambda x: F.max_pool2d(x, (1, N), 2, dilation=(1, 2), return_indices=True), randn(1, 2, 1, 2 * N + 9))
    step = SIDE // 3
    x = randn(1, 1, 2 * SIDE + 5, 2 * SIDE + 6)
    check_averages(lambda x: F.avg_pool2d(x, SIDE, step, padding=7, ceil_mode=True), SIDE**2, x)
    check_averages(lambda x: F.avg_pool2d(x, SIDE, step, padding=7, count_include_pad=False), SIDE**2, x)
    check_averages(lambda x: F.avg_pool2d(x, SIDE, step, divisor_override=7), 7, x)
    check(lambda x: F.max_pool2d(x, SIDE, step, padding=7, return_indices=True), x)


def test_maximum_of_a_long_window_keeps_nan_and_ties(device):
    x = torch.zeros(1, 3, 1, 2 * N)
    x[0, 1, 0, N - 5] = x[0, 1, 0, N + 5] = math.nan
    x[0, 2] = -math.inf
    expected = F.max_pool2d(x, (1, 2 * N), return_indices=True)
    actual = F.max_pool2d(x.to("aule"), (1, 2 * N), return_indices=True)
    for a, e in zip(actual, expected, strict=True):
        torch.testing.assert_close(a.cpu(), e, equal_nan=True)


@heavy
def test_elements_in_many_windows(device):
    check_averages(lambda x: F.avg_pool2d(x, SIDE, 1), SIDE**2, randn(1, 1, 2 * SIDE, SIDE + 20))
    check(lambda x: F.max_pool2d(x, SIDE, 1, return_indices=True), randn(1, 1, 2 * SIDE, SIDE + 20))


@pytest.mark.parametrize("align_corners", [False, True])
def test_elements_read_by_many_outputs(device, align_corners):
    for mode, shape, size in [
        ("bilinear", (1, 2, 1, 1), (SIDE, SIDE + 3)),
        ("bilinear", (1, 1, 2, 2), (2 * SIDE, SIDE + 3)),
        ("bicubic", (1, 1, 2, 2), (2 * SIDE, SIDE + 3)),
        ("trilinear", (1, 1, 1, 1, 1), (3, SIDE, SIDE)),
    ]:
        # A gradient is a sum of 70,000 weights and more, made one after the other: of both signs it may come near zero.
        check(
            lambda x, m=mode, s=size: F.interpolate(x, s, mode=m, align_corners=align_corners),
            randn(*shape),
            weights=torch.rand,
            tolerance=1e-4,
        )
    for mode, shape, size in [("linear", (1, 2, 3), 2 * N), ("bicubic", (1, 1, 2, 2), (3, 2 * N))]:
        right_or_refused(
            lambda x, m=mode, s=size: F.interpolate(x, s, mode=m, align_corners=align_corners),
            randn(*shape),
            weights=torch.rand,
            tolerance=1e-4,
        )
    if not align_corners:
        check(lambda x: F.interpolate(x, (SIDE, SIDE), mode="nearest"), randn(1, 2, 1, 1), sums=True)
        right_or_refused(lambda x: F.interpolate(x, 2 * N, mode="nearest"), randn(1, 2, 1), sums=True)


def test_padding(device):
    # Gradients are sums of up to N weights of both signs.
    check(lambda x: F.pad(x, (1, 1), mode="replicate"), randn(1, 2, N))
    right_or_refused(lambda x: F.pad(x, (N, 3), mode="replicate"), randn(1, 2, 5), dtype=torch.half, sums=True)
    right_or_refused(lambda x: F.pad(x, (N, -2), mode="replicate"), randn(1, 2, 5), sums=True)
    right_or_refused(lambda x: F.pad(x, (SIDE, SIDE, SIDE, SIDE), mode="replicate"), randn(1, 1, 2, 3), sums=True)
    check(lambda x: F.pad(x, (N, 7), mode="reflect"), randn(1, 1, N + 1))
    check(lambda x: F.pad(x, (N, 7), mode="circular"), randn(1, 1, N + 1))


# Attention


def attention(q_len, k_len, heads=1, kv_heads=1, dim=8, bias=None, dtype=torch.float32, **options):
    gqa = heads != kv_heads

    def run(q, k, v, *mask):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask[0] if mask else None, enable_gqa=gqa, **options)

    operands = [randn(1, heads, q_len, dim), randn(1, kv_heads, k_len, dim), randn(1, kv_heads, k_len, dim)]
    check(run, *operands, *([] if bias is None else [randn(*bias)]), dtype=dtype, tolerance=max(TOLERANCE[dtype], 5e-5))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_attention_over_many_keys(device, dtype):
    attention(3, 2 * N, dtype=dtype)
    attention(3, N, heads=2, bias=(1, 1, 1, N), dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.half], ids=str)
def test_attention_over_many_queries(device, dtype):
    attention(N, 3, dtype=dtype)
    attention(N // 2, 3, heads=3, dtype=dtype)
    attention(N, 5, is_causal=True, dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.half], ids=str)
def test_causal_attention_from_the_last_key(device, dtype):
    q, k, v = (randn(1, 1, n, 8).to(dtype) for n in (6, N, N))
    mask = torch.ones(6, N, dtype=torch.bool).tril(N - 6)
    expected = F.scaled_dot_product_attention(q.double(), k.double(), v.double(), attn_mask=mask)
    kv = [t.transpose(1, 2).to("aule") for t in (k, v)]
    actual = torch_aule.flash_attn_with_kvcache(q.transpose(1, 2).to("aule"), *kv, causal=True).transpose(1, 2)
    assert error(actual, expected) < max(TOLERANCE[dtype], 5e-5)


@heavy
@pytest.mark.parametrize("causal", [False, True])
def test_attention_by_tiles(device, causal):
    attention(40, 2 * N, dim=160, is_causal=causal)
    attention(2 * N, 40, dim=136, is_causal=causal, dtype=torch.half)


@heavy
def test_long_queries_and_keys(device):
    attention(N, N, heads=2, kv_heads=1, is_causal=True)
    attention(N, N, bias=(1, 1, N, N))
    attention(N, N, is_causal=True, dtype=torch.bfloat16)


@heavy
def test_dropout_is_the_same_in_both_directions(device):
    q, k = (torch.zeros(1, 2, N, 8, device="aule", requires_grad=True) for _ in range(2))
    v = randn(1, 2, N, 8).to("aule").requires_grad_()
    torch.manual_seed(3)
    out = F.scaled_dot_product_attention(q, k, v, dropout_p=0.25)
    # All scores are equal, so the weights are the mask: out = mask v / (0.75 N). Its gradient shows the mask's columns.
    columns = torch.autograd.grad(out[..., 0].sum(), v)[0][0, 0, :, 0].cpu()  # how many queries keep each key
    torch.manual_seed(3)
    ones = torch.ones_like(v)
    kept = F.scaled_dot_product_attention(q, k, ones, dropout_p=0.25)[0, 0, :, 0].cpu() * (0.75 * N)
    assert abs(kept.sum().item() - columns.sum().item() * 0.75 * N) < 1e-3 * kept.sum().item()
    assert abs(kept.mean().item() / N - 0.75) < 0.02
    torch.manual_seed(3)
    eye = torch.zeros(1, 2, N, 8)
    eye[0, 0, N // 3, 0] = eye[0, 0, N - 1, 1] = 1
    some = F.scaled_dot_product_attention(q, k, eye.to("aule"), dropout_p=0.25)[0, 0].cpu()
    assert abs(some[:, 0].sum() - columns[N // 3]) < 1e-3 * columns[N // 3]
    assert abs(some[:, 1].sum() - columns[N - 1]) < 1e-3 * columns[N - 1]


def packed(lengths_q, lengths_k, causal, dtype):
    from torch.nn.attention.varlen import varlen_attn

    cu_q, cu_k = (torch.tensor([0, *lengths]).cumsum(0).int() for lengths in (lengths_q, lengths_k))
    operands = [randn(n, 2, 8).to(dtype) for n in (sum(lengths_q), sum(lengths_k), sum(lengths_k))]
    weight = randn(sum(lengths_q), 2, 8).to(dtype)
    own = [t.to("aule").requires_grad_() for t in operands]
    options = {"window_size": (-1, 0)} if causal else {}
    actual = varlen_attn(*own, cu_q.to("aule"), cu_k.to("aule"), max(lengths_q), max(lengths_k), **options)
    wide = [t.double().requires_grad_() for t in operands]
    parts = []
    for i, (n, m) in enumerate(zip(lengths_q, lengths_k, strict=True)):
        q, k, v = (t[c[i] : c[i + 1]].transpose(0, 1) for t, c in zip(wide, (cu_q, cu_k, cu_k), strict=True))
        mask = torch.ones(n, m, dtype=torch.bool).tril(m - n) if causal else None
        parts.append(F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(0, 1))
    expected = torch.cat(parts)
    tolerance = max(TOLERANCE[dtype], 5e-5)
    assert error(actual, expected) < tolerance
    for a, e in zip(
        torch.autograd.grad(actual, own, weight.to("aule")),
        torch.autograd.grad(expected, wide, weight.double()),
        strict=True,
    ):
        assert error(a, e) < tolerance


@pytest.mark.parametrize("dtype", [torch.float32, torch.half], ids=str)
@pytest.mark.parametrize("causal", [False, True])
def test_packed_sequences(device, causal, dtype):
    pytest.importorskip("torch.nn.attention.varlen")
    packed([3, 5], [N, 40], causal, dtype)
    if not causal:
        packed([N, 5], [3, 40], causal, dtype)


def test_padding_rows_of_packed_sequences_are_cleared(device):
    """Rows after the last sequence get zeros from few workgroups, one row after the other."""
    pytest.importorskip("torch.nn.attention.varlen")
    from torch.nn.attention.varlen import varlen_attn

    rows = N // 2 if SMALL else 200000
    q = randn(rows, 2, 8).to("aule")
    cu = torch.tensor([0, 5], dtype=torch.int32, device="aule")
    torch.full((rows, 2, 8), 7.0, device="aule")  # what the result's memory may hold
    assert varlen_attn(q, q, q, cu, cu, 5, 5)[5:].abs().max().item() == 0


@pytest.mark.parametrize("rows", [1, 20])
def test_paged_cache(device, rows):
    batch, heads, kv_heads, dim, page = 2, 4, 2, 8, 64
    lengths = torch.tensor([2 * N, 99], dtype=torch.int32)
    pages = (2 * N + page - 1) // page
    keys, values = randn(pages + 5, page, kv_heads, dim), randn(pages + 5, page, kv_heads, dim)
    table = torch.stack([torch.randperm(pages + 5)[:pages] for _ in range(batch)]).int()
    q = randn(batch, rows, heads, dim)
    actual = torch_aule.paged_attention(*(t.to("aule") for t in (q, keys, values, table, lengths)))
    for i in range(batch):
        k, v = (t[table[i].long()].flatten(0, 1)[: lengths[i]].double().transpose(0, 1) for t in (keys, values))
        mask = torch.ones(rows, lengths[i], dtype=torch.bool).tril(lengths[i] - rows)
        expected = F.scaled_dot_product_attention(q[i].double().transpose(0, 1), k, v, attn_mask=mask, enable_gqa=True)
        assert error(actual[i].transpose(0, 1), expected) < 5e-5


# Embedding, optimizers, random numbers


@pytest.mark.parametrize("by_frequency", [False, True])
def test_embedding_of_many_equal_indices(device, by_frequency):
    indices = torch.randint(0, 3, (3 * N,))
    check(lambda i, w: F.embedding(i, w, scale_grad_by_freq=by_frequency), indices, randn(3, 4))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_long_bags(device, mode):
    entries = 3 * N
    indices = torch.randint(0, 50, (entries,))
    indices[2 * N :] = 0  # the highest row of a bag is found in its last part, or its first
    # The gradient of row 0 adds N equal terms one by one, as the CPU does: float32 is off by up to N / 2 roundings.
    tolerance = None if mode == "max" else 4e-3
    for offsets in ([0], [0, 0, 5, N + 7, N + 7, N + 8, entries]):
        for dtype in (torch.float32, torch.bfloat16):
            for padding in (None, 7):
                check(
                    lambda i, o, w, p=padding: F.embedding_bag(i, w, o, mode=mode, padding_idx=p),
                    indices,
                    torch.tensor(offsets),
                    randn(50, 3),
                    dtype=dtype,
                    tolerance=tolerance and max(tolerance, TOLERANCE[dtype]),
                )
    if mode == "sum":
        check(
            lambda i, o, w, s: F.embedding_bag(i, w, o, mode="sum", per_sample_weights=s),
            indices,
            torch.tensor([0, 7]),
            randn(50, 3),
            randn(entries),
            tolerance=tolerance,
        )


def test_many_bags(device):
    indices, offsets = torch.arange(2 * N) % 50, torch.arange(N) * 2
    check(lambda i, o, w: F.embedding_bag(i, w, o, mode="sum"), indices, offsets, randn(50, 3))


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU])
def test_recurrent_cells_over_many_rows(device, kind):
    own = kind(3, 4, batch_first=True)
    wide = kind(3, 4, batch_first=True).double()
    wide.load_state_dict(own.state_dict())
    own, x = own.to("aule"), randn(N, 2, 3)
    actual, expected = own(x.to("aule"))[0], wide(x.double())[0]
    assert error(actual, expected) < 3e-5
    weight = randn(*expected.shape)
    (actual * weight.to("aule")).sum().backward()
    (expected * weight).sum().backward()
    for a, e in zip(own.parameters(), wide.parameters(), strict=True):
        assert error(a.grad, e.grad) < 3e-5


@pytest.mark.parametrize("options", [{"fused": True}, {"foreach": True}], ids=str)
def test_optimizer_over_a_large_parameter(device, options):
    elements = 2**24 + 5 if os.environ.get("TORCH_AULE_LONG_TESTS") else 2**21 + 5
    start, grad = randn(elements), randn(elements)
    own, reference = start.to("aule").requires_grad_(), start.clone().requires_grad_()
    own.grad, reference.grad = grad.to("aule"), grad
    for parameter, o in ((own, options), (reference, {})):
        optimizer = torch.optim.AdamW([parameter], lr=0.1, **o)
        for _ in range(2):
            optimizer.step()
    assert error(own, reference) < 1e-6


def test_unscale_sees_the_last_element(device):
    grad = randn(2**22 + 5)
    for value in (1.0, math.inf):
        own, found = grad.to("aule"), torch.zeros((), device="aule")
        own[-1] = value
        torch._amp_foreach_non_finite_check_and_unscale_([own], found, torch.tensor(0.5, device="aule"))
        assert found.item() == float(math.isinf(value))
        assert torch.equal(own[:-1].cpu(), grad[:-1] * 0.5)


def test_random_numbers_to_the_last_element(device):
    elements = 2**26 if os.environ.get("TORCH_AULE_LONG_TESTS") else 2**23 + 5
    x = torch.full((elements,), -1, dtype=torch.int8, device="aule").bernoulli_(0.5).cpu()
    assert x.min() == 0 and abs(x[-(2**20) :].float().mean().item() - 0.5) < 0.01
    y = F.dropout(torch.ones(elements, device="aule"), 0.5)[-(2**20) :]
    assert abs(y.mean().item() - 1) < 0.02
    n = 2**18 + 3
    assert torch.equal(torch.randperm(n, device="aule").cpu().sort()[0], torch.arange(n))


@pytest.mark.validated
def test_multinomial_passes_over_many_zeros(device):
    weights = torch.zeros(3 * N)
    weights[2 * N :] = 1
    for replacement in (True, False):
        drawn = torch.multinomial(weights.to("aule"), N // 2, replacement=replacement).cpu()
        assert drawn.min() >= 2 * N
        assert replacement or len(drawn.unique()) == N // 2


# The second process


HEAVY = "long_kernels or many_windows or by_tiles or queries_and_keys or both_directions or long_bags"


@pytest.mark.sampled(0)
def test_kernels_that_are_slow_at_such_sizes_with_a_small_limit(device):
    """Planners told of a small limit cut more often, and reach the kernels that are too slow at the real one."""
    if SMALL:
        pytest.skip("this is the process with the small limit")
    options = ["-q", "-x", "-p", "no:cacheprovider", "-k", HEAVY, __file__]
    program = f"import sys, pytest; sys.exit(pytest.main({options!r}))"
    done = run_python(program, **limited("max_loop_iterations=3000"))
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
