"""Pages of a key-value cache: one kernel that writes them, a pool of blocks, and whole sequences moved into pages."""

import math

import pytest
import torch

import torch_aule
from helpers import FLOATS
from torch_aule.attention.pages import BlockPool, copy_kv_to_paged

pytestmark = [pytest.mark.current_lavapipe, pytest.mark.validated]


def written(k, v, k_cache, v_cache, slots):
    """The caches afterwards, on the CPU."""
    caches = [t.clone() for t in (k_cache, v_cache)]
    for token, slot in enumerate(slots.tolist()):
        if slot >= 0:
            for cache, new in zip(caches, (k, v)):
                cache[slot // cache.size(1), slot % cache.size(1)] = new[token]
    return caches


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("dim, v_dim", [(32, 16), (5, 3)])
@pytest.mark.parametrize("slot_dtype", [torch.int64, torch.int32])
def test_reshape_and_cache(dtype, dim, v_dim, slot_dtype):
    k, v = torch.randn(11, 3, dim).to(dtype), torch.randn(11, 3, v_dim).to(dtype)
    caches = torch.randn(4, 7, 3, dim).to(dtype), torch.randn(4, 7, 3, v_dim).to(dtype)
    slots = torch.randperm(28)[:11].to(slot_dtype)
    slots[[2, 5]] = torch.tensor([-1, -100]).to(slot_dtype)
    here = [t.to("aule") for t in caches]
    assert torch.ops.aule.reshape_and_cache(k.to("aule"), v.to("aule"), *here, slots.to("aule")) is None
    for actual, expected in zip(here, written(k, v, *caches, slots)):
        assert torch.equal(actual.cpu(), expected)


def test_views_of_tensors_and_caches():
    """Tokens behind heads, an offset that is not aligned, heads of the cache before its rows."""
    k = torch.randn(3, 9, 17, device="aule")[..., 1:].transpose(0, 1)
    v = torch.randn(9, 16, 3, device="aule").mT
    caches = [torch.zeros(5, 3, 4, 17, device="aule").transpose(1, 2)[..., 1:] for _ in range(2)]
    before = [t.cpu() for t in caches]
    slots = torch.arange(18, device="aule")[::2]
    torch.ops.aule.reshape_and_cache(k, v, *caches, slots)
    for actual, expected in zip(caches, written(k.cpu(), v.cpu(), *before, slots.cpu())):
        assert torch.equal(actual.cpu(), expected)


def test_nothing_to_write():
    cache = torch.randn(2, 4, 2, 8, device="aule")
    before = cache.cpu()
    empty = torch.zeros(0, 2, 8, device="aule")
    torch.ops.aule.reshape_and_cache(
        empty, empty, cache, cache.clone(), torch.zeros(0, dtype=torch.int64, device="aule")
    )
    new = torch.randn(3, 2, 8, device="aule")
    torch.ops.aule.reshape_and_cache(new, new, cache, cache.clone(), torch.full((3,), -1, device="aule"))
    assert torch.equal(cache.cpu(), before)


def test_slots_past_the_cache_are_reported():
    cache, new = torch.zeros(2, 4, 1, 8, device="aule"), torch.ones(2, 1, 8, device="aule")
    other = cache.clone()
    torch.ops.aule.reshape_and_cache(new, new, cache, other, torch.tensor([3, 8], device="aule"))
    with pytest.raises(IndexError, match="reshape_and_cache: index 8 is out of bounds .* 8"):
        torch.aule.synchronize()
    assert cache.sum().item() == 8  # the other token is written
    rows = torch.zeros(2, 3, 1, 8, device="aule")
    q = torch.zeros(2, 1, 1, 8, device="aule")
    torch_aule.flash_attn_with_kvcache(q, rows, rows.clone(), q, q, cache_seqlens=torch.tensor([1, 3], device="aule"))
    with pytest.raises(IndexError, match="kv_cache_append: index 3 is out of bounds"):
        torch.aule.synchronize()


def test_errors():
    new, cache = torch.zeros(3, 2, 8, device="aule"), torch.zeros(4, 5, 2, 8, device="aule")
    slots = torch.zeros(3, dtype=torch.int64, device="aule")
    write = torch.ops.aule.reshape_and_cache
    other = cache.clone()
    cases = [
        ("key of shape", lambda: write(new[0], new, cache, other, slots)),
        ("key_cache of shape .*2, 8", lambda: write(new, new, cache[..., :7], other, slots)),
        ("value of 3 tokens", lambda: write(new, new[1:], cache, other, slots)),
        ("key_cache of dtype float|key_cache of dtype Float", lambda: write(new, new, cache.half(), other, slots)),
        ("value of dtype", lambda: write(new, new.half(), cache, other.half(), slots)),
        ("value_cache of 4 pages", lambda: write(new, new, cache, other[1:], slots)),
        ("slot_mapping of dtype", lambda: write(new, new, cache, other, slots.float())),
        ("slot_mapping of shape", lambda: write(new, new, cache, other, slots[1:])),
        ("key_cache dense in its last dimension", lambda: write(new, new, cache.mT.contiguous().mT, other, slots)),
        ("key of dtype", lambda: write(new.int(), new.int(), cache.int(), other.int(), slots)),
    ]
    for text, call in cases:
        with pytest.raises(RuntimeError, match="reshape_and_cache: expected " + text):
            call()
    with pytest.raises(RuntimeError, match="overlap|single memory location"):
        write(new, new, cache, cache, slots)
    with pytest.raises(ValueError, match="copy_kv_to_paged: expected block_table"):
        copy_kv_to_paged(cache, cache, cache, other, slots[None])
    with pytest.raises(ValueError, match="copy_kv_to_paged: expected lengths"):
        copy_kv_to_paged(cache, cache, cache, other, torch.zeros(4, 1, device="aule").long(), slots)


def test_traced():
    new, slots = torch.randn(3, 2, 8, device="aule"), torch.tensor([4, -1, 9], device="aule")
    caches = [torch.randn(4, 5, 2, 8, device="aule") for _ in range(2)]
    tests = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
    torch.library.opcheck(
        torch.ops.aule.reshape_and_cache.default, (new, new, *(t.clone() for t in caches), slots), test_utils=tests
    )

    def step(k, v, k_cache, v_cache, slots):
        torch.ops.aule.reshape_and_cache(k * 2, v, k_cache, v_cache, slots)
        return k_cache.sum() + v_cache.sum()

    eager, traced = ([t.clone() for t in caches] for _ in range(2))
    expected = step(new, new, *eager, slots)
    actual = torch.compile(step, backend="aot_eager", fullgraph=True)(new, new, *traced, slots)
    assert torch.equal(actual, expected) and all(torch.equal(a, b) for a, b in zip(eager, traced))


@pytest.mark.parametrize("dtype", FLOATS)
def test_copy_to_pages(dtype):
    k, v = torch.randn(3, 9, 2, 8).to(dtype), torch.randn(3, 9, 2, 4).to(dtype)
    table = torch.randperm(12).view(3, 4).int()
    lengths, start = torch.tensor([9, 0, 4]), torch.tensor([1, 7, 0])
    caches = torch.zeros(12, 3, 2, 8, dtype=dtype), torch.zeros(12, 3, 2, 4, dtype=dtype)
    here = [t.to("aule") for t in caches]
    copy_kv_to_paged(*(t.to("aule") for t in (k, v)), *here, table.to("aule"), lengths.to("aule"), start.to("aule"))
    for cache, new in zip(caches, (k, v)):
        for b in range(3):
            for i in range(lengths[b]):
                row = start[b] + i
                cache[table[b, row // 3], row % 3] = new[b, i]
    assert all(torch.equal(a.cpu(), e) for a, e in zip(here, caches))
    copy_kv_to_paged(*(t[:, :0].to("aule") for t in (k, v)), *here, table.to("aule"))
    assert torch.equal(here[0].cpu(), caches[0])
    copy_kv_to_paged(*(t.to("aule") for t in (k, v)), *here, table[:, :2].to("aule"))
    with pytest.raises(IndexError, match="reshape_and_cache: index 36"):
        torch.aule.synchronize()


def attend(q, rows_k, rows_v):
    weights = torch.softmax(torch.einsum("hd,nhd->hn", q, rows_k) / math.sqrt(q.size(-1)), -1)
    return torch.einsum("hn,nhd->hd", weights, rows_v)


def test_forked_sequences_write_into_blocks_of_their_own():
    pool = BlockPool(12, 4, num_kv_heads=2, head_dim=8, dtype=torch.float32)
    told = {}

    def append(sequences, counts):
        k, v = (torch.randn(sum(counts), 2, 8) for _ in range(2))
        pool.append(sequences, k.to("aule"), v.to("aule"), counts)
        at = 0
        for sequence, count in zip(sequences, counts):
            rows = torch.stack((k, v))[:, at : at + count]
            told[sequence] = torch.cat((told.get(sequence, rows[:, :0]), rows), 1)
            at += count

    a, b = pool.allocate(), pool.allocate()
    append([a, b], [6, 3])
    assert pool.free_blocks == 12 - 3 and pool.length(a) == 6
    c, d = pool.fork(a), pool.fork(a)
    told[c], told[d] = told[a], told[a]
    assert pool.free_blocks == 9
    append([c, a, d], [1, 1, 5])  # two copies of the shared half block; the last one keeps it, and takes one more
    assert pool.free_blocks == 9 - 3
    q = torch.randn(4, 2, 8)
    table, lengths = pool.tables([a, b, c, d])
    assert lengths.tolist() == [7, 3, 7, 11]
    out = torch_aule.paged_attention(q.to("aule"), pool.key_cache, pool.value_cache, table, lengths).cpu()
    for i, sequence in enumerate((a, b, c, d)):
        rows = told[sequence].double()
        torch.testing.assert_close(out[i].double(), attend(q[i].double(), *rows), rtol=1e-4, atol=1e-5)
    pool.free(a)
    pool.free(d)
    e = pool.allocate()
    append([e], [9])
    table, lengths = pool.tables([c, e])
    out = torch_aule.paged_attention(q[:2].to("aule"), pool.key_cache, pool.value_cache, table, lengths).cpu()
    for i, sequence in enumerate((c, e)):
        torch.testing.assert_close(
            out[i].double(), attend(q[i].double(), *told[sequence].double()), rtol=1e-4, atol=1e-5
        )
    for sequence in (b, c, e):
        pool.free(sequence)
    assert pool.free_blocks == 12


def test_random_lives_of_sequences_keep_the_books():
    pool, alive = BlockPool(20, 3, 1, 1, dtype=torch.float32), {}
    generator = torch.Generator().manual_seed(torch.randint(1 << 30, ()).item())

    def draw(n):
        return torch.randint(n, (), generator=generator).item()

    for _ in range(60):
        action = draw(4)
        if action == 0 or not alive:
            alive[pool.allocate()] = []
            continue
        sequence = list(alive)[draw(len(alive))]
        if action == 1 and len(alive) < 6:
            alive[pool.fork(sequence)] = list(alive[sequence])
        elif action == 2 and draw(2):
            pool.free(sequence)
            del alive[sequence]
        else:
            count = draw(5)
            values = torch.randn(count, 1, 1)
            try:
                pool.append([sequence], values.to("aule"), values.to("aule"))
                alive[sequence] += values.flatten().tolist()
            except RuntimeError as error:
                assert "blocks are needed" in str(error)
    cache = pool.key_cache.cpu()
    used = set()
    for sequence, values in alive.items():
        table, lengths = (t.cpu() for t in pool.tables([sequence]))
        assert lengths.item() == len(values) == pool.length(sequence)
        assert [cache[table[0, i // 3], i % 3].item() for i in range(len(values))] == values
        used |= set(table[0, : -(-len(values) // 3)].tolist())
    assert pool.free_blocks == 20 - len(used)


def test_errors_of_the_pool():
    pool = BlockPool(2, 4, 1, 8, dtype=torch.float32)
    a = pool.allocate()
    new = torch.zeros(9, 1, 8, device="aule")
    with pytest.raises(RuntimeError, match="3 blocks are needed, but 2 of 2 are free"):
        pool.append([a], new, new)
    assert pool.length(a) == 0 and pool.free_blocks == 2
    cases = [
        (ValueError, "num_blocks of at least 1", lambda: BlockPool(0, 4, 1, 8)),
        (ValueError, "expected k of shape", lambda: pool.append([a], new[..., :4], new)),
        (ValueError, "expected v of shape", lambda: pool.append([a], new[:1], new[:1].half())),
        (ValueError, "expected k of 2 tokens", lambda: pool.append([a], new, new, [2])),
        (ValueError, "different sequences", lambda: pool.extend([a, a], [1, 1])),
        (ValueError, "at least 0", lambda: pool.extend([a], [-1])),
        (KeyError, "no sequence 7", lambda: pool.fork(7)),
        (KeyError, "no sequence 7", lambda: pool.free(7)),
        (KeyError, "no sequence 7", lambda: pool.tables([7])),
        (KeyError, "no sequence 7", lambda: pool.length(7)),
    ]
    for kind, text, call in cases:
        with pytest.raises(kind, match=text):
            call()
