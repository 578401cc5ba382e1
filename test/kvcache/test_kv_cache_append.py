"""Keys and values that one kernel turns and appends to a cache, contiguous or in pages."""

import pytest
import torch

import torch_aule
from helpers import FLOATS

pytestmark = [pytest.mark.current_lavapipe, pytest.mark.validated]

EPS = {torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}


def angles(rows, half):
    turns = torch.outer(torch.arange(rows), 100.0 ** (-torch.arange(half) / half))
    return turns.cos(), turns.sin()


def turned(x, cos, sin, positions, interleaved):
    """x [batch, tokens, heads, size] in float64, and the sizes of the terms."""
    x, half = x.double(), cos.size(1)
    c, s = (t.double()[positions][:, :, None] for t in (cos, sin))
    head, tail = x[..., : 2 * half], x[..., 2 * half :]
    a, b = (head[..., 0::2], head[..., 1::2]) if interleaved else head.split(half, -1)
    parts = a * c - b * s, a * s + b * c
    sizes = (a * c).abs() + (b * s).abs(), (a * s).abs() + (b * c).abs()
    join = (lambda p: torch.stack(p, -1).flatten(-2)) if interleaved else (lambda p: torch.cat(p, -1))
    return torch.cat((join(parts), tail), -1), torch.cat((join(sizes), tail.abs()), -1)


def check(actual, expected, sizes, dtype):
    """Three roundings of float32, one to the dtype, and half of the smallest float16."""
    tolerance = 3 * 2.0**-24 * sizes + EPS[dtype] * expected.abs() * 1.01 + 2.0**-25
    assert bool(((actual.cpu().double() - expected).abs() <= tolerance).all())


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("size, half, v_size", [(64, 32, 64), (48, 16, 32), (10, 3, 7)])
def test_turns_and_appends(dtype, interleaved, size, half, v_size):
    batch, tokens, heads, kv_heads, rows = 3, 4, 6, 2, 20
    q, k = torch.randn(batch, tokens, heads, size).to(dtype), torch.randn(batch, tokens, kv_heads, size).to(dtype)
    v = torch.randn(batch, tokens, kv_heads, v_size).to(dtype)
    cos, sin = angles(rows, half)
    lengths = torch.randint(0, rows - tokens + 1, (batch,), dtype=torch.int32)
    caches = [torch.full((batch, rows, kv_heads, d), torch.nan, dtype=dtype, device="aule") for d in (size, v_size)]
    out, after = torch.ops.aule.kv_cache_append(
        k.to("aule"), v.to("aule"), *caches, lengths.to("aule"), None, q.to("aule"), cos.to("aule"), sin.to("aule"),
        interleaved,
    )  # fmt: skip
    assert torch.equal(after.cpu(), lengths + tokens) and after.dtype == torch.int32
    positions = lengths[:, None] + torch.arange(tokens)
    check(out, *turned(q, cos, sin, positions, interleaved), dtype)
    order = torch.arange(batch)[:, None]
    check(caches[0].cpu()[order, positions], *turned(k, cos, sin, positions, interleaved), dtype)
    assert torch.equal(caches[1].cpu()[order, positions], v)
    assert [int(t.isnan().sum()) for t in caches] == [(rows - tokens) * batch * kv_heads * d for d in (size, v_size)]


@pytest.mark.parametrize("lengths_dtype", [torch.int32, torch.int64])
def test_pages(lengths_dtype):
    """Sequences whose pages lie in any order; rows of two pages; views of keys, of values and of the caches."""
    batch, tokens, heads, size, page_rows = 2, 5, 3, 17, 4
    k = torch.randn(heads, batch, tokens, size, device="aule").permute(1, 2, 0, 3)[..., 1:]
    v = torch.randn(batch, tokens, heads, 16, device="aule")
    table = torch.randperm(8, dtype=torch.int32).view(batch, 4)
    lengths = torch.tensor([2, 11]).to(lengths_dtype)
    caches = [torch.zeros(8, heads, page_rows, size, device="aule").transpose(1, 2)[..., 1:] for _ in range(2)]
    nothing, after = torch.ops.aule.kv_cache_append(k, v, *caches, lengths.to("aule"), table.to("aule"))
    assert nothing.numel() == 0 and after.tolist() == [7, 16]
    for cache, new in zip(caches, (k, v)):
        expected = torch.zeros(8, page_rows, heads, 16)
        for b in range(batch):
            for i in range(tokens):
                row = int(lengths[b]) + i
                expected[table[b, row // page_rows], row % page_rows] = new[b, i].cpu()
        assert torch.equal(cache.cpu(), expected)


def test_rows_without_a_place_are_reported():
    q = torch.ones(2, 2, 1, 8, device="aule")
    caches = [torch.zeros(2, 3, 1, 8, device="aule") for _ in range(2)]
    append = torch.ops.aule.kv_cache_append
    append(q, q, *caches, torch.tensor([1, 2], dtype=torch.int32, device="aule"))
    with pytest.raises(IndexError, match="kv_cache_append: index 3 is out of bounds .* 3"):
        torch.aule.synchronize()
    assert caches[0].sum().item() == 3 * 8  # the rows that have one are written
    append(q, q, *caches, torch.tensor([-1, 0], dtype=torch.int32, device="aule"))
    with pytest.raises(IndexError, match="kv_cache_append: index"):
        torch.aule.synchronize()
    table = torch.tensor([[0], [5]], dtype=torch.int32, device="aule")
    append(q, q, *caches, torch.zeros(2, dtype=torch.int64, device="aule"), table)
    with pytest.raises(IndexError, match="kv_cache_append: index 5 is out of bounds .* 2"):
        torch.aule.synchronize()
    cos, sin = (t.to("aule") for t in angles(1, 4))
    append(q, q, *caches, torch.zeros(2, dtype=torch.int64, device="aule"), None, q, cos, sin)
    with pytest.raises(IndexError, match="kv_cache_append: index 1 is out of bounds .* 1"):
        torch.aule.synchronize()


def test_nothing_to_append():
    caches = [torch.zeros(2, 3, 1, 8, device="aule") for _ in range(2)]
    none = torch.zeros(2, 0, 1, 8, device="aule")
    _, after = torch.ops.aule.kv_cache_append(none, none, *caches, torch.tensor([1, 2], device="aule"))
    assert after.tolist() == [1, 2] and after.dtype == torch.int32
    empty = torch.zeros(0, 1, 1, 8, device="aule")
    _, after = torch.ops.aule.kv_cache_append(empty, empty, *caches, torch.zeros(0, dtype=torch.int64, device="aule"))
    assert after.shape == (0,)


def test_errors():
    new, caches = torch.zeros(2, 1, 2, 8, device="aule"), [torch.zeros(2, 5, 2, 8, device="aule") for _ in range(2)]
    lengths, table = torch.zeros(2, dtype=torch.int32, device="aule"), torch.zeros(2, 4, device="aule")
    append = torch.ops.aule.kv_cache_append
    angle = torch.zeros(4, 4, device="aule")
    cases = [
        ("key of shape", lambda: append(new[0], new, *caches, lengths)),
        ("key_cache of shape .*2, 8", lambda: append(new, new, caches[0][..., :7], caches[1], lengths)),
        ("value of shape", lambda: append(new, new[:, :0], *caches, lengths)),
        ("value_cache of 2 pages", lambda: append(new, new, caches[0], caches[1][:, 1:], lengths)),
        ("lengths of int32 or int64", lambda: append(new, new, *caches, lengths.float())),
        ("block_table of int32", lambda: append(new, new, *caches, lengths, table)),
        ("caches of 2 sequences", lambda: append(new, new, *(t[:1] for t in caches), lengths)),
        ("both of cos and sin", lambda: append(new, new, *caches, lengths, None, new, angle)),
        ("query of shape", lambda: append(new, new, *caches, lengths, None, new[:, :, :, 1:], angle, angle)),
    ]
    for text, call in cases:
        with pytest.raises(RuntimeError, match="kv_cache_append: expected " + text):
            call()
    with pytest.raises(RuntimeError, match="turn twice as many elements, but heads have 8"):
        append(new, new, *caches, lengths, None, new, angle.repeat(1, 2), angle.repeat(1, 2))
    with pytest.raises(ValueError, match="rotary_cos and rotary_sin need k and v"):
        torch_aule.flash_attn_with_kvcache(new, *caches, cache_seqlens=1, rotary_cos=angle, rotary_sin=angle)


def test_traced():
    new, caches = torch.randn(2, 1, 2, 8, device="aule"), [torch.randn(2, 5, 2, 8, device="aule") for _ in range(2)]
    lengths = torch.tensor([1, 4], device="aule")
    cos, sin = (t.to("aule") for t in angles(5, 4))
    tests = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
    args = (new, new, *(t.clone() for t in caches), lengths, None, new, cos, sin, True)
    torch.library.opcheck(torch.ops.aule.kv_cache_append.default, args, test_utils=tests)


@pytest.mark.parametrize("interleaved", [False, True])
def test_attention_over_what_was_appended(interleaved):
    """flash_attn_with_kvcache with tables of angles, step by step, is attention over all tokens that were turned."""
    batch, steps, heads, kv_heads, size = 2, 7, 4, 2, 16
    q, k, v = (torch.randn(batch, steps, h, size) for h in (heads, kv_heads, kv_heads))
    cos, sin = angles(steps, size // 2)
    caches = [torch.zeros(batch, steps, kv_heads, size, device="aule") for _ in range(2)]
    lengths = torch.zeros(batch, dtype=torch.int32, device="aule")
    outs = []
    for begin, end in ((0, 3), (3, 4), (4, 7)):
        parts = (t[:, begin:end].to("aule") for t in (q, k, v))
        new_q, new_k, new_v = parts
        outs.append(
            torch_aule.flash_attn_with_kvcache(
                new_q, *caches, new_k, new_v, rotary_cos=cos.to("aule"), rotary_sin=sin.to("aule"),
                cache_seqlens=lengths, causal=True, rotary_interleaved=interleaved,
            )
        )  # fmt: skip
        lengths += end - begin
    positions = torch.arange(steps).expand(batch, steps)
    turned_q, turned_k = (turned(t, cos, sin, positions, interleaved)[0].transpose(1, 2) for t in (q, k))
    expected = torch.nn.functional.scaled_dot_product_attention(
        turned_q, turned_k, v.double().transpose(1, 2), is_causal=True, enable_gqa=True
    )
    torch.testing.assert_close(torch.cat(outs, 1).cpu().double().transpose(1, 2), expected, rtol=1e-5, atol=1e-5)
