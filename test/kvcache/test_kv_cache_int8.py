"""Keys and values that are rounded to 8 bits as they are appended to a cache: the error, the rows, what is refused."""

import pytest
import torch
from test_kv_cache_append import angles, turned

import torch_aule
from helpers import FLOATS
from int8_blocks import BLOCK, largest, new_cache, numbers_of, quantized

pytestmark = [pytest.mark.current_lavapipe, pytest.mark.validated]

append = torch.ops.aule.kv_cache_append


def check(numbers, scale, exact, noise):
    """Half a step at most, and steps that are no longer than they must be.

    A scale is the largest / 127, rounded up to 8 bits: by a factor of 1 + 2^-7 at most. So a number is off by
    largest / 254 * (1 + 2^-7) < largest / 252, and the largest is 127 / (1 + 2^-7) > 126 steps. `noise` is what
    float32 may have changed before.
    """
    numbers, scale = numbers.cpu(), scale.cpu()
    error = (numbers_of(numbers, scale) - exact).abs()
    assert bool((error <= largest(exact + noise) / 252 + noise).all())
    assert bool((error <= scale.double().repeat_interleave(BLOCK, -1) * (0.5 + 1e-4) + noise).all())
    steps = numbers.unflatten(-1, (-1, BLOCK)).abs().amax(-1)
    zeros = largest(exact)[..., ::BLOCK] == 0
    assert bool(((steps >= 126) & (steps <= 127) | zeros).all())
    assert bool((scale[zeros] == 0).all())


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("size, half, v_size", [(64, 32, 64), (96, 20, 32), (32, 16, 128), (128, 64, 96)])
def test_error_of_what_is_appended(dtype, interleaved, size, half, v_size):
    """Turned first, then rounded: one error of 8 bits. Rows that have no token stay as they are, poisoned."""
    batch, tokens, heads, kv_heads, rows = 3, 4, 6, 2, 20
    q, k = torch.randn(batch, tokens, heads, size).to(dtype), torch.randn(batch, tokens, kv_heads, size).to(dtype)
    v = (torch.randn(batch, tokens, kv_heads, v_size) * 10.0 ** torch.randint(-3, 4, (batch, 1, 1, 1))).to(dtype)
    cos, sin = angles(rows, half)
    lengths = torch.randint(0, rows - tokens + 1, (batch,), dtype=torch.int32)
    (keys, k_scale), (values, v_scale) = (new_cache(batch, rows, kv_heads, d, fill=77) for d in (size, v_size))
    out, after = append(
        k.to("aule"), v.to("aule"), keys, values, lengths.to("aule"), None, q.to("aule"), cos.to("aule"),
        sin.to("aule"), interleaved, k_scale, v_scale,
    )  # fmt: skip
    assert torch.equal(after.cpu(), lengths + tokens) and after.dtype == torch.int32
    positions = lengths[:, None] + torch.arange(tokens)
    order = torch.arange(batch)[:, None]
    exact, sizes = turned(k, cos, sin, positions, interleaved)
    check(keys.cpu()[order, positions], k_scale.cpu()[order, positions], exact, 3 * 2.0**-24 * sizes)
    check(values.cpu()[order, positions], v_scale.cpu()[order, positions], v.double(), torch.tensor(0.0))
    exact, sizes = turned(q, cos, sin, positions, interleaved)
    eps = {torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}[dtype]
    assert bool(
        ((out.cpu().double() - exact).abs() <= 3 * 2.0**-24 * sizes + eps * exact.abs() * 1.01 + 2.0**-25).all()
    )
    for cache, scale in ((keys, k_scale), (values, v_scale)):
        left = torch.ones(batch, rows, dtype=torch.bool)
        left[order, positions] = False
        assert bool((cache.cpu()[left] == 77).all()) and bool(scale.cpu()[left].isnan().all())
        assert bool(scale.cpu()[~left].isfinite().all())


def test_numbers_are_those_of_the_formula():
    """But for a quotient within an ulp or two of a tie."""
    k = torch.randn(2, 9, 3, 64)
    (keys, scale), (values, v_scale) = new_cache(2, 9, 3, 64), new_cache(2, 9, 3, 64)
    lengths = torch.zeros(2, dtype=torch.int64, device="aule")
    append(k.to("aule"), k.to("aule"), keys, values, lengths, key_scale=scale, value_scale=v_scale)
    expected, expected_scale = quantized(k)
    assert torch.equal(scale.cpu(), expected_scale) and torch.equal(v_scale, scale) and torch.equal(values, keys)
    differs = keys.cpu() != expected
    ratio = (k.double() / expected_scale.double().repeat_interleave(BLOCK, -1))[differs]
    assert bool(((ratio - ratio.floor() - 0.5).abs() < 1e-4).all())


def test_pages_and_views():
    """Rows in pages of any order, from keys and values that are views at odd addresses."""
    batch, tokens, heads, size, page_rows = 2, 5, 3, 32, 4
    k = torch.randn(heads, batch, tokens, size + 1, device="aule").permute(1, 2, 0, 3)[..., 1:]
    v = torch.randn(batch, tokens, heads, 2 * size + 3, device="aule")[..., 3:]
    table = torch.randperm(8, dtype=torch.int32).view(batch, 4)
    lengths = torch.tensor([2, 11])
    (keys, k_scale), (values, v_scale) = (new_cache(8, page_rows, heads, d) for d in (size, 2 * size))
    nothing, after = append(
        k, v, keys, values, lengths.to("aule"), table.to("aule"), key_scale=k_scale, value_scale=v_scale
    )
    assert nothing.numel() == 0 and after.tolist() == [7, 16]
    for cache, scale, new in ((keys, k_scale, k), (values, v_scale, v)):
        for b in range(batch):
            rows = lengths[b] + torch.arange(tokens)
            at = table[b, rows // page_rows].long(), rows % page_rows
            check(cache.cpu()[at], scale.cpu()[at], new[b].cpu().double(), torch.tensor(0.0))
        assert int(scale.isnan().sum()) == (8 * page_rows - batch * tokens) * heads * scale.size(-1)


def test_odd_blocks():
    """Zeros, one huge number among small ones, the smallest and the largest numbers, and what is not finite."""
    k = torch.zeros(1, 8, 1, 64)
    k[0, 1, 0, :32] = torch.randn(32)
    k[0, 1, 0, 7] = 1e30  # the others are less than half a step
    k[0, 2] = torch.randn(64) * 1e-40  # subnormal: zeros
    k[0, 3] = torch.randn(64).clamp(-1, 1) * 2.0**-110
    k[0, 4] = torch.finfo(torch.float32).max
    k[0, 4, 0, 1::2] = -torch.finfo(torch.float32).max
    k[0, 5, 0, 3], k[0, 6, 0, 40], k[0, 7, 0, 1] = torch.inf, torch.nan, -torch.inf
    (keys, scale), (values, v_scale) = new_cache(1, 8, 1, 64, fill=9), new_cache(1, 8, 1, 64, fill=9)
    append(
        k.to("aule"), k.to("aule"), keys, values, torch.zeros(1, dtype=torch.int64, device="aule"), key_scale=scale,
        value_scale=v_scale,
    )  # fmt: skip
    assert torch.equal(keys, values)
    found, numbers, scale = numbers_of(keys, scale)[0, :, 0], keys.cpu()[0, :, 0], scale.cpu()[0, :, 0]
    assert bool((found[0] == 0).all()) and bool((scale[0] == 0).all())
    assert numbers[1, 7] in (126, 127) and int(numbers[1].count_nonzero()) == 1
    assert bool((found[1] - k[0, 1, 0].double()).abs().max() <= 1e30 / 252)
    assert bool((found[2] == 0).all())
    for row in (3, 4):
        exact = k[0, row, 0].double()
        assert bool(((found[row] - exact).abs() <= largest(exact) / 252).all())
    for row, block in ((5, 0), (6, 1), (7, 0)):  # the whole block, and no other
        assert bool(scale[row].isnan().tolist() == [block == 0, block == 1])
        assert bool((numbers[row] == 0).all())


def test_half_the_memory():
    numbers, scale = new_cache(4, 16, 2, 128)
    assert (numbers.nbytes + scale.nbytes) / (numbers.numel() * 2) == 0.53125  # of 16 bits


def test_rows_without_a_place_are_reported():
    k = torch.ones(2, 2, 1, 32, device="aule")
    (keys, scale), (values, v_scale) = new_cache(2, 3, 1, 32), new_cache(2, 3, 1, 32)
    scales = dict(key_scale=scale, value_scale=v_scale)
    append(k, k, keys, values, torch.tensor([1, 2], device="aule"), **scales)
    with pytest.raises(IndexError, match="kv_cache_append: index 3 is out of bounds .* 3"):
        torch.aule.synchronize()
    assert int(scale.isfinite().sum()) == 3  # the rows that have one are written
    table = torch.tensor([[0], [5]], dtype=torch.int32, device="aule")
    append(k, k, keys, values, torch.zeros(2, dtype=torch.int64, device="aule"), table, **scales)
    with pytest.raises(IndexError, match="kv_cache_append: index 5 is out of bounds .* 2"):
        torch.aule.synchronize()


def test_errors():
    new, lengths = torch.zeros(2, 1, 2, 32, device="aule"), torch.zeros(2, dtype=torch.int32, device="aule")
    (keys, scale), (values, v_scale) = new_cache(2, 5, 2, 32), new_cache(2, 5, 2, 32)
    odd = torch.zeros(2, 1, 2, 40, device="aule")
    odd_cache = torch.zeros(2, 5, 2, 40, dtype=torch.int8, device="aule")
    wide = torch.zeros(2, 5, 2, 64, dtype=torch.int8, device="aule")[..., ::2]
    cases = [
        ("expected both of key_scale and value_scale", (new, new, keys, values), scale, None),
        ("expected key_cache of dtype int8 and key_scale of dtype bfloat16", (new, new, new, values), scale, v_scale),
        ("expected value_cache of dtype int8 and value_scale", (new, new, keys, values), scale, v_scale.float()),
        ("expected value_scale of shape .*1.*, a scale for each 32", (new, new, keys, values), scale, v_scale[:, 1:]),
        ("head size that is a multiple of 32", (odd, odd, odd_cache, odd_cache), scale, v_scale),
        ("expected key_cache and key_scale contiguous", (new, new, wide, values), scale, v_scale),
        ("expected key of dtype float32", (new.double(), new, keys, values), scale, v_scale),
    ]
    for text, args, first, second in cases:
        with pytest.raises(RuntimeError, match="kv_cache_append: .*" + text):
            append(*args, lengths, key_scale=first, value_scale=second)
    with pytest.raises(RuntimeError, match="expected key_cache of dtype .* like key"):
        append(new, new, keys, values, lengths)


def test_traced():
    new = torch.randn(2, 1, 2, 32, device="aule")
    (keys, scale), (values, v_scale) = (
        (numbers, torch.zeros_like(scale)) for numbers, scale in (new_cache(2, 5, 2, 32), new_cache(2, 5, 2, 32))
    )
    cos, sin = (t.to("aule") for t in angles(5, 16))
    args = (new, new, keys, values, torch.tensor([1, 4], device="aule"), None, new, cos, sin, True, scale, v_scale)
    tests = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
    torch.library.opcheck(append.default, args, test_utils=tests)


def test_attention_over_what_was_appended():
    """flash_attn_with_kvcache step by step, beside attention over what the cache says afterwards."""
    batch, steps, heads, kv_heads, size = 2, 7, 4, 2, 32
    q, k, v = (torch.randn(batch, steps, h, size) for h in (heads, kv_heads, kv_heads))
    (keys, scale), (values, v_scale) = (new_cache(batch, steps, kv_heads, size) for _ in range(2))
    lengths, outs = torch.zeros(batch, dtype=torch.int32, device="aule"), []
    for begin, end in ((0, 3), (3, 4), (4, 7)):
        new_q, new_k, new_v = (t[:, begin:end].to("aule") for t in (q, k, v))
        outs.append(
            torch_aule.flash_attn_with_kvcache(
                new_q, keys, values, new_k, new_v, cache_seqlens=lengths, causal=True, k_scale=scale, v_scale=v_scale
            )
        )
        lengths += end - begin
    kept_k, kept_v = (numbers_of(*pair).transpose(1, 2) for pair in ((keys, scale), (values, v_scale)))
    expected = torch.nn.functional.scaled_dot_product_attention(
        q.double().transpose(1, 2), kept_k, kept_v, is_causal=True, enable_gqa=True
    )
    torch.testing.assert_close(torch.cat(outs, 1).cpu().double().transpose(1, 2), expected, rtol=1e-5, atol=1e-5)
