"""Attention over caches in 8 bits, against float64 over what they say, and over what was rounded."""

import math

import pytest
import torch
from test_attention_cache import agree, close, expected

import torch_aule
from attention_reference import DECODE, poison
from int8_blocks import BLOCK, largest, numbers_of, quantized

pytestmark = [pytest.mark.current_lavapipe, pytest.mark.validated]


@pytest.fixture(autouse=True, params=[*DECODE, "simd", "simt"])
def family(request, override):
    """All but splitkv read a copy of the rows in use in the query's dtype."""
    override(attention_variant=request.param)
    return request.param


only_splitkv = pytest.mark.parametrize("family", DECODE[1:], indirect=True)


def pages_of(batch, capacity, page):
    """Of each sequence, in any order, with a few that nobody has."""
    each = -(-capacity // page)
    return torch.randperm(batch * each + 3)[: batch * each].view(batch, each).int()


def cache(batch, capacity, heads, size, lengths, table=None, page=1):
    """What float64 says of it, and the tensors on the device; rows that are not in use are NaN, by their scales."""
    numbers, scale = quantized(torch.randn(batch, capacity, heads, size) * 2.0 ** torch.randint(-3, 3, (heads, 1)))
    for b, length in enumerate(lengths):
        numbers[b, length:], scale[b, length:] = 99, math.nan
    said = numbers_of(numbers, scale)
    if table is not None:
        spread = []
        for x, fill in ((numbers, 99), (scale, math.nan)):
            pages = torch.full((table.numel() + 3, page, *x.shape[2:]), fill, dtype=x.dtype)
            for b, i in torch.cartesian_prod(*map(torch.arange, table.shape)).tolist():
                rows = x[b, i * page : (i + 1) * page]
                pages[table[b, i], : len(rows)] = rows
            spread.append(pages)
        numbers, scale = spread
    return said, numbers.to("aule"), scale.to("aule")


def compare(dtype, q_len, heads, kv_heads, capacity, dim, v_dim, lengths, page=None, **options):
    batch = len(lengths)
    q, table = torch.randn(batch, q_len, heads, dim).to(dtype), None
    if page is not None:
        table = pages_of(batch, capacity, page)
    k, keys, k_scale = cache(batch, capacity, kv_heads, dim, lengths, table, page)
    v, values, v_scale = cache(batch, capacity, kv_heads, v_dim, lengths, table, page)
    wanted, wanted_lse = expected(q, k, v, lengths, **(asked := dict(options)))
    used = torch.tensor(lengths, dtype=torch.int32, device="aule")
    poison(q.shape, wanted.shape, wanted_lse.shape)
    out, lse = torch_aule.flash_attn_with_kvcache(
        q.to("aule"), keys, values, cache_seqlens=used, block_table=None if table is None else table.to("aule"),
        softmax_scale=options.pop("scale", None), window_size=options.pop("window", (-1, -1)), return_softmax_lse=True,
        k_scale=k_scale, v_scale=v_scale, **options,
    )  # fmt: skip
    assert out.dtype == dtype and out.shape == wanted.shape
    # Some kernels round the cache's numbers to the queries' dtype before the products.
    rounded = expected(q, k.to(dtype), v.to(dtype), lengths, **asked)
    agree(out, lse, nearer(out, wanted, rounded[0]), nearer(lse, wanted_lse, rounded[1]), dtype)


def nearer(found, one, other):
    """Of two references the nearer one, each element by itself."""
    found = found.cpu().double()
    return torch.where((found - one).abs() < (found - other).abs(), one, other)


@pytest.mark.parametrize("page", [None, 16])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_lengths_on_the_device(dtype, page):
    compare(dtype, 1, 8, 2, 300, 64, 64, [300, 0, 1, 117], page)
    compare(dtype, 3, 4, 2, 90, 32, 96, [64, 2, 90], page, causal=True)


@only_splitkv
@pytest.mark.parametrize("page", [None, 7])
@pytest.mark.parametrize("dim, v_dim", [(32, 32), (64, 64), (128, 128), (256, 256), (96, 160), (256, 32)])
def test_head_sizes_and_groups(dim, v_dim, page):
    """One to sixteen rows of a team, whose lanes have 16 columns side by side; some have none."""
    for heads, kv_heads, q_len in ((2, 2, 1), (4, 2, 1), (4, 1, 2), (3, 1, 3)):
        compare(torch.float32, q_len, heads, kv_heads, 75, dim, v_dim, [75, 31], page, causal=True)


@only_splitkv
def test_more_queries_than_a_workgroup_takes():
    """In parts, each of its own last key; then too many parts, heads that are too many or too wide, and no order."""
    compare(torch.float32, 11, 8, 2, 60, 32, 64, [60, 11, 4], 8, causal=True, window=(9, -1))
    compare(torch.float32, 16, 4, 1, 60, 32, 32, [60, 17], causal=True)
    compare(torch.float32, 70, 4, 2, 90, 32, 32, [90, 70, 3], 7, causal=True, softcap=2.0)
    compare(torch.float16, 40, 8, 1, 90, 64, 32, [90, 3], causal=True)
    compare(torch.float32, 1, 20, 1, 50, 32, 32, [50, 9], 5)
    compare(torch.float32, 2, 2, 1, 20, 288, 320, [20, 9], causal=True)
    compare(torch.float32, 9, 4, 2, 40, 32, 32, [40, 9])


@pytest.mark.parametrize("page", [None, 5])
def test_options(page):
    compare(torch.float32, 2, 4, 4, 200, 32, 64, [200, 77, 1], page, causal=True, window=(50, -1))
    compare(torch.float32, 4, 2, 1, 40, 32, 32, [40, 3], page, window=(3, 1), scale=0.3)
    compare(torch.float32, 1, 2, 1, 40, 32, 32, [40, 3], page, softcap=2.0)


@pytest.mark.parametrize("q_len", [1, 9])
def test_who_reads_the_cache(family, q_len):
    """splitkv itself, more queries in parts; the others a copy."""
    q = torch.randn(1, q_len, 8, 32, device="aule")
    numbers, scale = (t.to("aule") for t in quantized(torch.randn(1, 40, 2, 32)))
    with torch.aule.profiler.profile() as seen:
        torch_aule.flash_attn_with_kvcache(q, numbers, numbers, causal=True, k_scale=scale, v_scale=scale)
        torch.aule.synchronize()
    names = {event.name.split("(")[0] for event in seen.events()}
    found = names & {"flash_attn_splitkv", "kv_cache_int8_rows"}
    assert found == {"flash_attn_splitkv" if family == "splitkv" else "kv_cache_int8_rows"}


def test_random_lengths():
    for _ in range(3):
        batch, capacity = int(torch.randint(1, 4, ())), int(torch.randint(1, 200, ()))
        lengths = torch.randint(0, capacity + 1, (batch,)).tolist()
        compare(torch.float32, 2, 4, 2, capacity, 32, 64, lengths, page=[None, 7][batch % 2], causal=True)


def test_slopes_and_splits():
    """ALiBi counts from the last key in parts of the queries too; splits of the keys are put together."""
    lengths, slopes = [100, 37], torch.rand(4)
    q = torch.randn(2, 9, 4, 64)
    (k, keys, k_scale), (v, values, v_scale) = (cache(2, 100, 1, 64, lengths) for _ in range(2))
    used, outs = torch.tensor(lengths, dtype=torch.int32, device="aule"), []
    for splits in (0, 1, 3):
        outs.append(
            torch_aule.flash_attn_with_kvcache(
                q.to("aule"), keys, values, cache_seqlens=used, causal=True, alibi_slopes=slopes.to("aule"),
                num_splits=splits, k_scale=k_scale, v_scale=v_scale,
            )
        )  # fmt: skip
    for b, length in enumerate(lengths):
        distance = torch.arange(length)[None] - torch.arange(9)[:, None] - (length - 9)
        scores = torch.einsum("qhd,kd->hqk", q[b].double(), k[b, :length, 0]) / 8
        scores = scores + slopes.double()[:, None, None] * distance
        weights = torch.softmax(scores.masked_fill(distance > 0, -math.inf), -1)
        wanted = torch.einsum("hqk,kd->qhd", weights, v[b, :length, 0])
        for out in outs:
            close(out[b], wanted, torch.float32)


def test_error_of_the_output():
    """What 8 bits do to attention, by a bound that follows from the error of a number, largest / 252.

    Values: weights add up to 1, so a sum is off by the largest error of a value. Keys: a score is off by at most
    t = scale * sum |q| * error, so weights change by a factor between exp(-2 t) and exp(2 t), and a sum of values by
    (exp(2 t) - 1) * largest value.
    """
    q, k, v = torch.randn(2, 1, 4, 64) * 0.3, torch.randn(2, 80, 2, 64), torch.randn(2, 80, 2, 64)
    (keys, k_scale), (values, v_scale) = ([t.to("aule") for t in quantized(x)] for x in (k, v))
    out = torch_aule.flash_attn_with_kvcache(q.to("aule"), keys, values, k_scale=k_scale, v_scale=v_scale)
    exact = expected(q, k, v, [80, 80])[0]
    error = (out.cpu().double() - exact).abs()
    wide = largest(k).repeat_interleave(2, 2) / 252
    t = torch.einsum("bqhd,bkhd->bqhk", q.double().abs(), wide).amax(-1) / 8
    bound = v.abs().amax().double() * (1 / 252 + (torch.exp(2 * t) - 1)) + 1e-5
    assert bool((error <= bound[..., None]).all())
    assert float(error.max()) > 1e-5  # and it is that of 8 bits


def test_a_number_that_is_not_finite_shows():
    q, k = torch.randn(1, 1, 2, 32), torch.randn(1, 20, 1, 32)
    k[0, 11, 0, 5] = math.inf
    numbers, scale = (t.to("aule") for t in quantized(k))
    clean, clean_scale = (t.to("aule") for t in quantized(torch.randn(1, 20, 1, 32)))
    run = torch_aule.flash_attn_with_kvcache
    assert run(q.to("aule"), clean, numbers, k_scale=clean_scale, v_scale=scale).isnan().any().item()
    used = torch.tensor([11], dtype=torch.int32, device="aule")
    out = run(q.to("aule"), clean, numbers, cache_seqlens=used, k_scale=clean_scale, v_scale=scale)
    assert out.isfinite().all().item()


def test_opcheck():
    q = torch.randn(2, 2, 4, 32, device="aule")
    numbers, scale = (t.to("aule") for t in quantized(torch.randn(2, 20, 2, 32)))
    used = torch.tensor([7, 20], dtype=torch.int32, device="aule")
    tests = ("test_schema", "test_faketensor", "test_autograd_registration")
    scales = dict(key_scale=scale, value_scale=scale)
    args = (q, numbers, numbers, used, None, True)
    torch.library.opcheck(torch.ops.aule.flash_attn_decode.default, args, scales, test_utils=tests)


def test_bad_input():
    q = torch.randn(2, 1, 4, 64, device="aule")
    numbers, scale = (t.to("aule") for t in quantized(torch.randn(2, 20, 2, 64)))
    flash = torch_aule.flash_attn_with_kvcache
    shifted = torch.zeros(2 * 20 * 2 * 64 + 1, dtype=torch.int8, device="aule")[1:].view(2, 20, 2, 64)
    half = (numbers[..., :32].contiguous(), scale[..., :1].contiguous())
    cases = [
        ("both of key_scale and value_scale", (q, numbers, numbers), scale, None),
        ("key_cache of dtype int8 and key_scale of dtype bfloat16", (q, q, numbers), scale, scale),
        ("value_scale of dtype bfloat16", (q, numbers, numbers), scale, scale.float()),
        ("key_scale of shape .*, 2", (q, numbers, numbers), scale[..., :1], scale),
        ("multiple of 32", (q, numbers[..., :40], numbers), scale, scale),
        ("multiple of 16 bytes", (q, shifted, numbers), scale, scale),
        ("head size 64 like query, but got 32", (q, half[0], numbers), half[1], scale),
        ("of dtype float32, float16 or bfloat16", (q.double(), numbers, numbers), scale, scale),
        ("key of dtype float32, float16 or bfloat16", (q, numbers, numbers), None, None),
    ]
    for text, args, first, second in cases:
        with pytest.raises(RuntimeError, match="flash_attn_decode: .*" + text):
            flash(*args, k_scale=first, v_scale=second)
    assert numbers.size(-1) // BLOCK == scale.size(-1)
