"""Attention on cooperative matrices: its own paths (ragged tiles, padding, bands, groups, dropout) in float64.

Runs wherever the layout of the cooperative matrices is known. A CPU device compiles what a GPU does in 0.2 s in several
seconds, so it gets a small shape of the kernels and few specializations.
"""

import math

import pytest
import torch

import torch_aule
from attention_reference import assert_near, check, check_dropout, inputs, reference, run
from matrix_units import ON_CPU, SMALL_SHAPES, matrix_dtypes
from torch_aule.attention import active_attention_variants

SMALL_SHAPE, TWO_STAGES = SMALL_SHAPES["attention_shape"], SMALL_SHAPES["attention_shape_dq"]


pytestmark = [pytest.mark.current_lavapipe, pytest.mark.parametrize("dtype", matrix_dtypes("known"))]


@pytest.fixture(autouse=True)
def coopmat_family(override):
    override(attention_variant="coopmat")
    if ON_CPU:
        override(**SMALL_SHAPES)


def compare(dtype, sizes, bias=None, **options):
    assert set(active_attention_variants(sizes[-2], sizes[-1]).values()) == {"coopmat"}
    q, k, v, grad = inputs(*sizes, dtype)
    check(run(q, k, v, grad, bias, **options), reference(q, k, v, grad, bias, **options), dtype)


@pytest.mark.current_long
def test_ragged_lengths_in_groups(dtype):
    compare(dtype, (2, 4, 2, 45, 77, 16, 16))


@pytest.mark.current_long
@pytest.mark.parametrize("options", [{}, {"causal": True}, {"window": (20, -1)}])
def test_a_last_tile_and_block_that_begin_earlier(dtype, options, override):
    """Rows that fill neither: what lies around query, key and value is not used, and what lies around out is kept."""
    if ON_CPU:
        override(attention_shape=SMALL_SHAPE + ",1")  # queries straight from memory
    q_len, k_len = (37, 45) if ON_CPU else (200, 150)
    q, k, v, grad = inputs(1, 2, 1, q_len, k_len, 16, 16, dtype)
    around = [torch.nn.functional.pad(t.cpu(), (0, 0, 40, 40), value=math.nan).to("aule") for t in (q, k, v)]
    views = [t[..., 40:-40, :] for t in around]
    expected = reference(q, k, v, grad, **options)
    check(run(*views, grad, **options), expected, dtype)
    out = torch.full_like(around[0], 7)
    flags = {"is_causal": True} if "causal" in options else {"window_left": 20} if options else {}
    torch.ops.aule.flash_attn_fwd.out(*views, **flags, out=out[..., 40:-40, :])
    assert bool((out[..., :40, :] == 7).all()) and bool((out[..., -40:, :] == 7).all())
    assert_near("out", (out[..., 40:-40, :].cpu().double() - expected[0]).abs(), float(v.abs().max()), dtype)
    lse = torch.ops.aule.flash_attn_fwd(*views, **flags)[1].cpu()
    seeing = torch.arange(q_len) < k_len + flags.get("window_left", q_len)
    assert torch.equal(lse.isfinite(), seeing.expand_as(lse)) and not lse.isnan().any()


@pytest.mark.validated
def test_whole_tiles(dtype):
    compare(dtype, (1, 2, 1, 64, 128, 16, 16))


def test_causal(dtype):
    compare(dtype, (1, 2, 2, 75, 75, 16, 16), causal=True)
    compare(dtype, (1, 2, 2, 40, 71, 16, 16), causal=True, bottom_right=True)
    compare(dtype, (1, 1, 1, 71, 40, 16, 16), causal=True, bottom_right=True)  # rows that see nothing


@pytest.mark.current_long
def test_window(dtype):
    compare(dtype, (1, 2, 1, 90, 90, 16, 16), window=(20, 3))
    compare(dtype, (1, 2, 1, 90, 90, 16, 16), window=(33, -1))


@pytest.mark.current_long
def test_padded_and_unaligned_head_sizes(dtype):
    compare(dtype, (1, 2, 2, 37, 50, 12, 11), causal=True)


@pytest.mark.current_long
@pytest.mark.parametrize("kind", ["float", "bool"])
def test_bias(dtype, kind):
    mask = torch.randn(1, 2, 37, 50) if kind == "float" else torch.rand(37, 50) > 0.3
    compare(dtype, (1, 2, 1, 37, 50, 16, 16), bias=mask.to("aule"))


@pytest.mark.current_long
def test_softcap_and_scale(dtype):
    compare(dtype, (1, 1, 1, 37, 50, 16, 16), softcap=2.0, scale=-0.4)


def test_rows_masked_by_the_lowest_number(dtype):
    """Masks of torch.finfo(dtype).min are finite: a row of nothing else is an average, as in PyTorch's math path."""
    bias = torch.zeros(20, 30)
    bias[3:6] = torch.finfo(torch.float32).min
    q, k, v, grad = inputs(1, 1, 1, 20, 30, 16, 16, dtype)
    out = run(q, k, v, grad, bias.to("aule"))[0]
    expected = v.cpu().double().mean(-2, keepdim=True).expand(1, 1, 3, 16)
    torch.testing.assert_close(out.detach().cpu().double()[:, :, 3:6], expected, rtol=0, atol=1e-2)


def test_a_rescale_after_small_scores(dtype):
    """Scores that grow along the row move the reference maximum again and again."""
    q, k, v, grad = inputs(1, 1, 1, 33, 120, 16, 16, dtype)
    k = (k.cpu() * torch.linspace(0.1, 6, 120)[:, None]).to(dtype).to("aule")
    check(run(q, k, v, grad), reference(q, k, v, grad), dtype)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", [pytest.param(SMALL_SHAPE, marks=pytest.mark.current_long), TWO_STAGES])
def test_scores_that_outgrow_the_first_tile(dtype, causal, shape, override):
    """A key in none of the tiles whose maxima the forward looks at, far above them for some rows, then for all.

    In bfloat16 the forward alone: rows of one key have gradients that are differences of equal 16-bit numbers.
    """
    if ON_CPU:
        override(attention_shape=shape)
    length, key = (96, 35) if ON_CPU else (512, 200)
    q, k, v, grad = inputs(1, 2, 2, length, length, 16, 16, dtype)

    def compare_both(q, k):
        if dtype == torch.float16:
            check(run(q, k, v, grad, causal=causal), reference(q, k, v, grad, causal=causal), dtype)
        out, lse = torch.ops.aule.flash_attn_fwd(q, k, v, is_causal=causal)[:2]
        error = (out.cpu().double() - reference(q, k, v, grad, causal=causal)[0]).abs()
        assert_near("out", error, float(v.abs().max()), dtype)
        scores = q.cpu().double() @ k.cpu().double().mT / 4
        if causal:
            scores = scores.masked_fill(~torch.ones(length, length).tril().bool(), -math.inf)
        torch.testing.assert_close(lse.cpu().double(), scores.logsumexp(-1), rtol=1e-5, atol=1e-4)

    k[..., key, :] = 12 * q[..., -16, :]
    compare_both(q, k)
    k[..., key, :] = 8
    compare_both(q.abs() + 1, k)


def test_a_row_without_numbers_leaves_the_others_alone(dtype):
    q, k, v, grad = inputs(1, 1, 1, 64, 96, 16, 16, dtype)
    q[..., 5, :] = math.nan
    out, lse = torch.ops.aule.flash_attn_fwd(q, k, v)[:2]
    assert out[..., 5, :].isnan().all() and lse[..., 5].isnan().all()
    rest = [i for i in range(64) if i != 5]
    expected = torch.nn.functional.scaled_dot_product_attention(*(t.cpu().double() for t in (q, k, v)))
    assert float((out.cpu().double() - expected)[..., rest, :].abs().max()) < 1e-2


@pytest.mark.current_long
def test_dropout(dtype, override):
    check_dropout(override, "coopmat", (1, 2, 2, 37, 50, 16, 16), dtype)


def test_dropout_of_weights_near_the_largest_half(dtype, override):
    """A key whose score is 15.6 above those of the first tile, in log2: a weight of 49,000 that dropout may double."""
    length, key = (96, 35) if ON_CPU else (512, 200)
    q, k, v, _ = inputs(1, 2, 2, length, length, 16, 16, dtype)
    q[:] = 1
    k[:] = 0
    k[..., key, :] = 15.6 * math.log(2) / 4  # sum of 16, times the scale of 1 / 4
    outs = []
    for family in ("coopmat", "simt"):
        override(attention_variant=family)
        torch.aule.manual_seed(7)
        outs.append(torch.ops.aule.flash_attn_fwd(q, k, v, None, 0.4)[0].cpu().double())
    assert outs[0].isfinite().all()
    # Both are rounded to 16 bits at the end, so they may lie one step apart.
    torch.testing.assert_close(outs[0], outs[1], rtol=torch.finfo(dtype).eps, atol=2e-2)


def test_the_output_s_rounding_stays_out_of_the_gradients(dtype):
    q, k, v, grad = inputs(1, 2, 2, 40, 40, 16, 16, dtype)
    q, k, v = (t.requires_grad_() for t in (q, k, v))
    out, lse, *_ = torch.ops.aule.flash_attn_fwd(q, k, v, None, 0.0, False, None, 0, 0)  # every row sees one key
    torch.autograd.backward([out, lse], [grad, torch.ones_like(lse)])
    torch.testing.assert_close(q.grad.cpu(), k.detach().cpu() / 4, rtol=2**-7, atol=1e-3)
    torch.testing.assert_close(k.grad.cpu(), q.detach().cpu() / 4, rtol=2**-7, atol=1e-3)


@pytest.mark.current_long
@pytest.mark.parametrize("dim", [16, pytest.param(48, marks=pytest.mark.current_long)])
def test_strides(dtype, dim):
    base = torch.randn(2, 48, 3, 4, dim).to(dtype).to("aule")  # [B, L, 3, H, D]: one projection for all three
    q, k, v = (base[:, :, i].transpose(1, 2) for i in range(3))
    grad = torch.randn(2, 48, 4, dim).to(dtype).to("aule").transpose(1, 2)
    check(run(q, k, v, grad), reference(q, k, v, grad), dtype)


@pytest.mark.current_long
def test_accumulators_that_are_no_operands(dtype, override):
    """As on GPUs that keep A operands and accumulators in different lanes: all pass through shared memory."""
    override(attention_acc_is_a_operand=False)
    compare(dtype, (1, 4, 2, 45, 77, 16, 16), causal=True, bottom_right=True)
    compare(dtype, (1, 2, 2, 37, 50, 12, 11))


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "shape",
    [
        *("2,1,8,1,2", "2,1,16,2,2", "2,1,16,1,2", "2,2,8,1,1", "2,1,16,1,2,0,2"),
        pytest.param("2,1,32,2,2", marks=pytest.mark.current_long),
    ],
)
def test_every_order_of_loads(dtype, shape, override):
    """The next tile is written behind the first half of this one, or in the middle of its only step."""
    if not ON_CPU:
        subgroups, rows, tile, *others = map(int, shape.split(","))
        shape = ",".join(map(str, (subgroups, rows, max(16, 2 * tile), *others)))  # matrices of 16 columns
    override(attention_shape=shape)
    compare(dtype, (1, 2, 1, 40, 70, 16, 16), causal=True, bottom_right=True)
    compare(dtype, (1, 1, 1, 40, 64, 16, 16))


@pytest.mark.current_long
@pytest.mark.parametrize(
    "dq, dkdv",
    [("2,1,16,1,1", "2,1,16,1,2"), pytest.param("4,1,32,2,1", "4,1,32,1,1", marks=pytest.mark.current_long)],
)
def test_heads_shared_by_two_subgroups(dtype, dq, dkdv, override):
    """As the backward of head sizes above 128 is."""
    override(attention_role_split=2)
    override(attention_shape_dq=dq)
    override(attention_shape_dkdv=dkdv)
    compare(dtype, (1, 4, 2, 45, 77, 20, 24), causal=True, bottom_right=True)


@pytest.mark.current_long
def test_what_two_subgroups_tell_each_other(dtype, override):
    """P times the soft cap's slope, and which elements dropout keeps."""
    override(attention_role_split=2)
    bias = torch.randn(1, 2, 37, 50, device="aule")
    compare(dtype, (1, 2, 1, 37, 50, 16, 16), bias=bias, softcap=2.0)
    check_dropout(override, "coopmat", (1, 2, 2, 37, 50, 16, 16), dtype)


def test_operands_straight_from_memory(dtype, override):
    for suffix in ("", "_DQ", "_DKDV"):
        override(**{"attention_shape" + suffix.lower(): "2,1,16,1,1,1"})
    compare(dtype, (1, 4, 2, 64, 128, 16, 16))


SQUARE_BLOCKS = "8,1,16,1,1" if ON_CPU else "8,1,32,1,1"  # dK/dV: as many keys as dQ has queries


@pytest.mark.validated
@pytest.mark.parametrize("mib", ["64", "0.05"])
def test_ds_workspace(dtype, mib, override):
    """dQ as a product of the dS that the pass for dK and dV left in a workspace: whole, and in chunks of two halves."""
    override(attention_shape_dkdv=SMALL_SHAPE if ON_CPU else SQUARE_BLOCKS)
    peaks = []
    for size in ("0", mib):
        override(attention_workspace=size)
        q, k, v, grad = inputs(2, 4, 2, 45, 77, 16, 16, dtype)
        base = torch.aule.memory_allocated()
        torch.aule.reset_peak_memory_stats()
        result = run(q, k, v, grad)
        peaks.append(torch.aule.max_memory_allocated() - base)
    if mib == "64" or ON_CPU:  # larger blocks make more than fits into the small one
        assert peaks[1] - peaks[0] >= (80000 if mib == "64" else 40000)  # it is used
    check(result, reference(q, k, v, grad), dtype)


@pytest.mark.current_long
def test_ds_workspace_causal(dtype, override):
    """Where blocks of keys and queries are alike and neither has more rows, what nobody sees has no place."""
    override(attention_workspace=64)
    override(attention_shape_dkdv=SQUARE_BLOCKS)
    compare(dtype, (1, 2, 1, 203, 203, 16, 16), causal=True)
    compare(dtype, (1, 2, 1, 75, 203, 16, 16), causal=True, bottom_right=True)


@pytest.mark.skipif(ON_CPU, reason="a software device compiles each of these for a minute")
@pytest.mark.parametrize("dim", [64, 80, 96, 128, 192, 256])
@pytest.mark.parametrize("mib", ["64", "3"])
def test_ds_workspace_of_head_sizes(dtype, dim, mib, override):
    override(attention_workspace=mib)
    compare(dtype, (1, 8, 2, 333, 400, dim, dim))
    compare(dtype, (1, 4, 4, 512, 512, dim, dim), causal=True)
    compare(dtype, (2, 3, 3, 70, 1000, dim, dim), causal=True, bottom_right=True, window=(300, -1), softcap=2.0)
    check_dropout(override, "coopmat", (1, 2, 2, 137, 150, dim, dim), dtype)


def test_deterministic(dtype):
    q, k, v, grad = inputs(1, 4, 2, 75, 75, 16, 16, dtype)
    first = run(q, k, v, grad, causal=True)
    for a, b in zip(first, run(q, k, v, grad, causal=True)):
        assert a is None or torch.equal(a.cpu(), b.cpu())


@pytest.mark.skipif(ON_CPU, reason="a software device compiles each of these for a minute")
@pytest.mark.parametrize(
    "dim, v_dim", [(32, 32), (64, 64), (80, 80), (96, 40), (100, 128), (128, 128), (136, 192), (256, 256)]
)
@pytest.mark.parametrize("causal", [False, True])
def test_head_sizes(dtype, dim, v_dim, causal):
    compare(dtype, (1, 4, 2, 333, 400, dim, v_dim), causal=causal)
    compare(dtype, (1, 4, 4, 512, 512, dim, v_dim), causal=causal)
    scale = 1 / math.sqrt(dim)
    compare(dtype, (2, 3, 3, 70, 1000, dim, v_dim), causal=causal, bottom_right=True, scale=2 * scale, window=(300, -1))


def test_no_memory_for_ds_workspace(dtype, override):
    """The backward then computes scores twice. The last test, for later calls ask for less."""
    override(attention_shape_dkdv=SMALL_SHAPE if ON_CPU else SQUARE_BLOCKS)
    override(attention_workspace=64)
    q, k, v, grad = inputs(1, 4, 2, 45, 2500, 16, 16, dtype)
    torch.aule.empty_cache()
    failed = torch.aule.memory_stats()["num_ooms"]
    torch_aule._C.inject_allocation_failures(1000, 2 << 20)  # segments of tensors, not a stream's chunk of 1 MiB
    try:
        result = run(q, k, v, grad)
    finally:
        torch_aule._C.inject_allocation_failures(0, 0)
    assert torch.aule.memory_stats()["num_ooms"] > failed
    check(result, reference(q, k, v, grad), dtype)
