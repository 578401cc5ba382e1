"""Decoding over caches whose lengths are on the device, whole and in pages, against float64."""

import math

import pytest
import torch

import torch_aule
from attention_reference import DECODE, TOLERANCE, poison

pytestmark = [pytest.mark.current_lavapipe, pytest.mark.validated]

every_family = pytest.mark.parametrize("family", [*DECODE, "simd", "simt"], indirect=True)


@pytest.fixture(autouse=True, params=DECODE)
def family(request, override):
    override(attention_variant=request.param)
    return request.param


def expected(q, k, v, lengths, *, causal=False, scale=None, window=(-1, -1), softcap=0.0):
    """float64 on the CPU, one sequence after another; causal and windows count from the last key."""
    q, k, v = (t.cpu().double() for t in (q, k, v))
    group, q_len = q.size(2) // k.size(2), q.size(1)
    outs, lses = [], []
    for b, length in enumerate(lengths):
        kb, vb = (t[b, :length].repeat_interleave(group, 1) for t in (k, v))
        scores = torch.einsum("qhd,khd->hqk", q[b], kb) * (q.size(-1) ** -0.5 if scale is None else scale)
        if softcap:
            scores = softcap * torch.tanh(scores / softcap)
        seen = torch.arange(length)[None] - torch.arange(q_len)[:, None] - (length - q_len)
        left, right = window
        hidden = (seen > 0) if causal else torch.zeros_like(seen, dtype=torch.bool)
        hidden = hidden | (seen > right) if right >= 0 else hidden
        hidden = hidden | (seen < -left) if left >= 0 else hidden
        scores = scores.masked_fill(hidden, -math.inf)
        lse = scores.logsumexp(-1) if length else torch.full(scores.shape[:2], -math.inf, dtype=torch.float64)
        weights = torch.exp(scores - lse[..., None].masked_fill(lse[..., None] == -math.inf, 0.0))
        outs.append(torch.einsum("hqk,khd->qhd", weights, vb))
        lses.append(lse)
    return torch.stack(outs), torch.stack(lses)


def close(actual, wanted, dtype):
    error = (actual.cpu().double() - wanted).abs()
    assert actual.shape == wanted.shape and not error.isnan().any()
    assert float(error.max()) < TOLERANCE[dtype] * max(1.0, float(wanted.abs().max()))


def agree(out, lse, wanted, wanted_lse, dtype):
    close(out, wanted, dtype)
    hidden = wanted_lse == -math.inf
    assert torch.equal(lse.cpu() == -math.inf, hidden)
    close(lse.cpu().masked_fill(hidden, 0.0), wanted_lse.masked_fill(hidden, 0.0), dtype)


def in_pages(cache, page, lengths):
    """The same cache as shuffled pages of NaN where no sequence has rows, and the table that finds them."""
    batch, capacity = cache.shape[:2]
    each = -(-capacity // page)
    order = torch.randperm(batch * each + 3)[: batch * each].view(batch, each)
    pages = torch.full((batch * each + 3, page, *cache.shape[2:]), math.nan, dtype=cache.dtype)
    table = torch.full((batch, each), 10**6, dtype=torch.int32)
    for b, length in enumerate(lengths):
        for i in range(-(-length // page)):
            rows = cache[b, i * page : min((i + 1) * page, length)]
            pages[order[b, i], : len(rows)] = rows
            table[b, i] = order[b, i]
    return pages, table


def caches(batch, capacity, kv_heads, dim, v_dim, lengths, dtype):
    k, v = torch.randn(batch, capacity, kv_heads, dim), torch.randn(batch, capacity, kv_heads, v_dim)
    for b, length in enumerate(lengths):
        k[b, length:] = math.nan
        v[b, length:] = math.nan
    return k.to(dtype), v.to(dtype)


def compare(dtype, q_len, heads, kv_heads, capacity, dim, v_dim, lengths, page=None, **options):
    batch = len(lengths)
    q = torch.randn(batch, q_len, heads, dim).to(dtype)
    k, v = caches(batch, capacity, kv_heads, dim, v_dim, lengths, dtype)
    used = torch.tensor(lengths, dtype=torch.int32, device="aule")
    wanted, wanted_lse = expected(q, k, v, lengths, **options)
    window, scale = options.pop("window", (-1, -1)), options.pop("scale", None)
    table = None
    if page is not None:
        torch.manual_seed(0)  # the same order of pages for both
        k, table = in_pages(k, page, lengths)
        torch.manual_seed(0)
        v, table = in_pages(v, page, lengths)
        table = table.to("aule")
    poison(q.shape, wanted.shape, wanted_lse.shape)
    out, lse = torch_aule.flash_attn_with_kvcache(
        q.to("aule"),
        k.to("aule"),
        v.to("aule"),
        cache_seqlens=used,
        block_table=table,
        softmax_scale=scale,
        window_size=window,
        return_softmax_lse=True,
        **options,
    )
    agree(out, lse, wanted, wanted_lse, dtype)


@pytest.mark.parametrize("page", [None, 16])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_lengths_on_the_device(dtype, page):
    compare(dtype, 1, 8, 2, 900, 16, 16, [900, 0, 1, 317], page)
    compare(dtype, 3, 4, 2, 300, 24, 40, [128, 2, 300], page, causal=True)


@every_family
def test_families():
    compare(torch.float16, 1, 8, 2, 900, 16, 16, [900, 0, 1, 317])
    compare(torch.float32, 3, 4, 2, 300, 24, 40, [128, 2, 300], 16, causal=True)
    compare(torch.float32, 70, 4, 2, 90, 16, 16, [90, 70, 3], 7, causal=True, softcap=2.0)  # too many for decode


@every_family
@pytest.mark.parametrize("page", [None, 5])
def test_options(page):
    compare(torch.float32, 2, 4, 4, 600, 9, 13, [600, 77, 1], page, causal=True, window=(50, -1))
    compare(torch.float32, 4, 2, 1, 40, 16, 16, [40, 3], page, window=(3, 1), scale=0.3)
    compare(torch.float32, 1, 2, 1, 40, 16, 16, [40, 3], page, softcap=2.0)


def test_random_lengths():
    for _ in range(4):
        batch, capacity = int(torch.randint(1, 4, ())), int(torch.randint(1, 1200, ()))
        lengths = torch.randint(0, capacity + 1, (batch,)).tolist()
        compare(torch.float32, 2, 4, 2, capacity, 16, 16, lengths, causal=True)
        compare(torch.float32, 2, 4, 2, capacity, 16, 16, lengths, page=7, causal=True)


@every_family
def test_lengths_and_pages_beyond_the_cache_stay_inside():
    q, k = torch.randn(2, 1, 2, 8).to("aule"), torch.randn(2, 20, 2, 8).to("aule")
    for lengths, first in (([10**9, 0], 10**9), ([20, -5], -5), ([21, 20], 21)):
        kept = torch_aule.flash_attn_with_kvcache(q, k, k, cache_seqlens=torch.tensor(lengths, device="aule"))
        told = f"decode, a length or offset of a sequence: index {first} is out of bounds .* 21"
        with pytest.raises(IndexError, match=told):
            torch.aule.synchronize()
        close(kept, expected(q, k, k, [min(max(n, 0), 20) for n in lengths])[0], torch.float32)
    for page in (-7, 2, 2**31 - 1):
        table = torch.tensor([[0, page], [0, 0]], dtype=torch.int32, device="aule")
        out = torch_aule.flash_attn_with_kvcache(q, k, k, cache_seqlens=40, block_table=table)
        with pytest.raises(IndexError, match=f"decode, a page: index {page} is out of bounds .* size 2"):
            torch.aule.synchronize()
        assert out.isfinite().all().item()


def test_pages_that_are_not_read_may_be_anything():
    q, k = torch.randn(1, 1, 2, 8).to("aule"), torch.randn(2, 4, 2, 8).to("aule")
    table = torch.tensor([[-1, 0, 1, 99]], dtype=torch.int32, device="aule")  # the window has left the first page
    lengths = torch.tensor([9], dtype=torch.int32, device="aule")
    out = torch_aule.flash_attn_with_kvcache(
        q, k, k, cache_seqlens=lengths, block_table=table, causal=True, window_size=(3, 0)
    )
    flat = torch.cat([k[:1], k[:1], k[1:]], 1).reshape(1, 12, 2, 8)
    close(out, expected(q, flat, flat, [9], causal=True, window=(3, 0))[0], torch.float32)
    torch.aule.synchronize()


def test_the_whole_cache_without_lengths():
    q, k, v = (torch.randn(2, n, 4, 16) for n in (2, 50, 50))
    out = torch_aule.flash_attn_with_kvcache(q.to("aule"), k.to("aule"), v.to("aule"))
    close(out, expected(q, k, v, [50, 50])[0], torch.float32)


@pytest.mark.parametrize("page", [None, 8])
def test_new_rows_are_written_first(page):
    lengths = [13, 0, 30]
    k, v = caches(3, 32, 2, 16, 16, lengths, torch.float32)
    q, new_k, new_v = torch.randn(3, 2, 4, 16), torch.randn(3, 2, 2, 16), torch.randn(3, 2, 2, 16)
    full_k, full_v = k.clone(), v.clone()
    for b, length in enumerate(lengths):
        full_k[b, length : length + 2] = new_k[b]
        full_v[b, length : length + 2] = new_v[b]
    after = [n + 2 for n in lengths]
    table = None
    if page is not None:
        torch.manual_seed(0)
        k, table = in_pages(k, page, after)  # pages for the rows to come, too
        torch.manual_seed(0)
        v, table = in_pages(v, page, after)
        table = table.to("aule")
    k, v = k.to("aule"), v.to("aule")
    out = torch_aule.flash_attn_with_kvcache(
        q.to("aule"),
        k,
        v,
        new_k.to("aule"),
        new_v.to("aule"),
        cache_seqlens=torch.tensor(lengths, device="aule"),
        block_table=table,
        causal=True,
    )
    close(out, expected(q, full_k, full_v, after, causal=True)[0], torch.float32)
    if page is None:
        assert torch.equal(k.cpu().nan_to_num(7.0), full_k.nan_to_num(7.0))


def test_paged_attention():
    lengths = [37, 5]
    k, v = caches(2, 40, 2, 16, 16, lengths, torch.float32)
    torch.manual_seed(0)
    pages, table = in_pages(k, 8, lengths)
    torch.manual_seed(0)
    v_pages, table = in_pages(v, 8, lengths)
    used = torch.tensor(lengths, dtype=torch.int32, device="aule")
    q = torch.randn(2, 3, 4, 16)
    args = (pages.to("aule"), v_pages.to("aule"), table.to("aule"), used)
    close(torch_aule.paged_attention(q.to("aule"), *args), expected(q, k, v, lengths, causal=True)[0], torch.float32)
    one = torch_aule.paged_attention(q[:, 0].to("aule"), *args, scale=0.2)
    close(one[:, None], expected(q[:, :1], k, v, lengths, scale=0.2)[0], torch.float32)


@pytest.mark.skipif(torch.aule.Graph is None, reason="torch.accelerator.Graph exists from torch 2.12 on")
@pytest.mark.parametrize("page", [None, 16])
def test_a_captured_graph_replays_with_another_length(page):
    k, v = caches(2, 700, 2, 16, 16, [700, 700], torch.float32)
    q = torch.randn(2, 1, 4, 16)
    device_k, device_v, table = k, v, None
    if page is not None:
        torch.manual_seed(0)
        device_k, table = in_pages(k, page, [700, 700])
        torch.manual_seed(0)
        device_v, table = in_pages(v, page, [700, 700])
        table = table.to("aule")
    device_q, device_k, device_v = q.to("aule"), device_k.to("aule"), device_v.to("aule")
    used = torch.tensor([1, 1], dtype=torch.int32, device="aule")
    graph = torch.aule.Graph()
    with torch.aule.graph(graph):
        out = torch_aule.flash_attn_with_kvcache(device_q, device_k, device_v, cache_seqlens=used, block_table=table)
    for lengths in ([3, 700], [512, 0], [129, 64]):
        used.copy_(torch.tensor(lengths, dtype=torch.int32))
        torch.aule.synchronize()
        graph.replay()
        torch.aule.synchronize()
        close(out, expected(q, k, v, lengths)[0], torch.float32)


def test_calls_of_a_graph_share_their_counters():
    """The counters of arrived splits are filled once in a graph of three calls, and are zeros after each."""
    q, k = torch.randn(2, 1, 4, 32, device="aule"), torch.randn(2, 300, 2, 32, device="aule")
    lengths = torch.tensor([300, 140], dtype=torch.int32, device="aule")

    def run(check):
        return [
            torch.ops.aule.flash_attn_decode(q * i, k, k, lengths, None, True, num_splits=3, check=check)[0]
            for i in (1.0, 2.0, 3.0)
        ]

    eager = run(True)
    for check in (True, False):
        graph = torch_aule._C.Graph()
        graph.capture_begin((0, 0))
        results = run(check)
        graph.capture_end()
        for _ in range(3):
            for result in results:
                result.fill_(torch.nan)
            graph.replay()
            assert all(torch.equal(result, other) for result, other in zip(results, eager))


def test_lengths_that_need_no_look():
    q, k = torch.randn(1, 1, 4, 32, device="aule"), torch.randn(1, 30, 2, 32, device="aule")
    lengths = torch.tensor([20], dtype=torch.int32, device="aule")
    kernels = []
    for check in (True, False):
        with torch.aule.profiler.profile() as seen:
            torch.ops.aule.flash_attn_decode(q, k, k, lengths, check=check)
            torch.aule.synchronize()
        kernels.append([event.name for event in seen.events() if event.name.startswith("flash_attn_")])
    checks = [[name for name in names if "check" in name] for names in kernels]
    assert len(checks[0]) == 1 and not checks[1] and len(kernels[1]) >= 1


def test_opcheck():
    q, k = torch.randn(2, 2, 4, 16, device="aule"), torch.randn(2, 20, 2, 16, device="aule")
    used = torch.tensor([7, 20], dtype=torch.int32, device="aule")
    table = torch.tensor([[1], [0]], dtype=torch.int32, device="aule")
    tests = ("test_schema", "test_faketensor", "test_autograd_registration")
    for args in ((q, k, k, used), (q, k, k, used, table, True), (q, k, k)):
        torch.library.opcheck(torch.ops.aule.flash_attn_decode.default, args, test_utils=tests)
    torch.library.opcheck(torch.ops.aule.paged_attention.default, (q[:, 0], k, k, table, used), test_utils=tests)


def test_bad_input():
    flash = torch_aule.flash_attn_with_kvcache
    q, k = torch.randn(2, 1, 4, 16).to("aule"), torch.randn(2, 20, 2, 16).to("aule")
    used, table = torch.zeros(2, dtype=torch.int32, device="aule"), torch.zeros(2, 3, dtype=torch.int32, device="aule")
    cases = [
        (ValueError, "batch, q_len, heads", lambda: flash(q[0], k, k)),
        (ValueError, "both of k and v", lambda: flash(q, k, k, k)),
        (ValueError, "need cache_seqlens", lambda: flash(q, k, k, k, k)),
        (TypeError, "integers", lambda: flash(q, k, k, cache_seqlens=used.float())),
        (RuntimeError, "seqused_k of shape", lambda: flash(q, k, k, cache_seqlens=used[:1])),
        (RuntimeError, "seqused_k on aule", lambda: flash(q, k, k, cache_seqlens=used.cpu())),
        (RuntimeError, "seqused_k beside", lambda: flash(q, k, k, block_table=table)),
        (RuntimeError, "block_table of dtype", lambda: flash(q, k, k, cache_seqlens=used, block_table=table.long())),
        (RuntimeError, "block_table of shape", lambda: flash(q, k, k, cache_seqlens=used, block_table=table[:1])),
        (RuntimeError, "batch size", lambda: flash(q, k[:1], k[:1], cache_seqlens=used)),
        (RuntimeError, "divides", lambda: flash(q[:, :, :3], k, k, cache_seqlens=used)),
        (RuntimeError, "head size", lambda: flash(q, k[..., :8], k, cache_seqlens=used)),
        (RuntimeError, "dtype", lambda: flash(q.half(), k, k, cache_seqlens=used)),
        (RuntimeError, "value", lambda: flash(q, k, k[:1], cache_seqlens=used)),
        (
            RuntimeError,
            "paged_attention: expected query",
            lambda: torch_aule.paged_attention(q[0, 0], k, k, table, used),
        ),
    ]
    for error, text, call in cases:
        with pytest.raises(error, match=text):
            call()
    leaf = q.clone().requires_grad_()
    with pytest.raises(RuntimeError, match="not implemented"):
        flash(leaf, k, k, cache_seqlens=used).sum().backward()
