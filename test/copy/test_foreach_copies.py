"""Lists of copies, splits and concatenations, which are few dispatches, against the CPU's loops."""

import pytest
import torch

from helpers import assert_close, check_program, launches, layouts, like_strided, random_tensor, without

pytestmark = [pytest.mark.current_lavapipe, pytest.mark.validated]

FLOATS = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
PAIRS = [*((a, b) for a in FLOATS for b in FLOATS), (torch.int64, torch.int32), (torch.uint8, torch.uint8),
         (torch.int32, torch.float32), (torch.float32, torch.int16), (torch.bool, torch.float16),
         (torch.complex64, torch.complex64), (torch.complex128, torch.complex128)]  # fmt: skip
TABLE = 48  # tensors of a dispatch


def guarded(sizes, dtype, device):
    """Neighbours in one buffer, each with an element between them that nothing may write; and the buffer."""
    elems = [torch.Size(s).numel() for s in sizes]
    buffer = torch.full((sum(elems) + len(elems) + 1,), 7, dtype=dtype, device=device)
    views, at = [], 1
    for size, n in zip(sizes, elems, strict=True):
        views.append(buffer[at : at + n].view(size))
        at += n + 1
    return buffer, views


@pytest.mark.parametrize("target, source", PAIRS, ids=str)
def test_foreach_copy(device, target, source):
    """More tensors than one dispatch takes: odd sizes, no elements, unaligned views, one dispatch for 48 of them."""
    sizes = [(i % 37,) for i in range(60)] + [(3, 5), (), (1025,), (2047, 2), (2, 0, 3)]
    values = [random_tensor(*s, dtype=source) for s in sizes]
    _, sources = guarded(sizes, source, device)
    for t, value in zip(sources, values, strict=True):
        t.copy_(value)
    buffer, targets = guarded(sizes, target, device)
    expected, cpu = guarded(sizes, target, "cpu")
    version = targets[3]._version
    tensors = sum(torch.Size(s).numel() > 0 for s in sizes)
    assert launches(lambda: torch._foreach_copy_(targets, sources)) == -(-tensors // TABLE)
    torch._foreach_copy_(cpu, values)
    assert_close(buffer, expected)
    assert targets[3]._version > version


@pytest.mark.parametrize("source", [torch.float32, torch.bfloat16], ids=str)
def test_foreach_copy_of_700_tensors(device, source):
    values = [random_tensor(i % 61 + 1, dtype=source) for i in range(700)]
    mine, targets = [t.to(device) for t in values], [torch.zeros(len(t), device=device) for t in values]
    assert launches(lambda: torch._foreach_copy_(targets, mine)) == -(-700 // TABLE)
    assert_close(targets, [t.float() for t in values])


@pytest.mark.parametrize("target, source", [(torch.float32, torch.float32), (torch.bfloat16, torch.float32)], ids=str)
def test_foreach_copy_of_large_tensors(device, target, source):
    """Aligned and unaligned, with a rest; more chunks than a row of the grid has; 16-byte accesses and others."""
    sizes = [70000 * 1024 // 64 + 3, 4096, 33, 1 << 20, 40000 * 1024 + 5]
    values = [torch.arange(n, dtype=torch.int32).remainder_(251).to(source) for n in sizes]
    for first in (0, 1):
        flat = torch.full((sum(sizes) + 8,), 9, dtype=target, device=device)
        parts = flat[first : first + sum(sizes)].split(sizes)
        mine = [t.to(device) for t in values]
        assert launches(lambda: torch._foreach_copy_(parts, mine)) <= (len(sizes) if target == source else 2)
        assert_close(parts, [t.to(target) for t in values])
        assert (flat[:first] == 9).all() and (flat[first + sum(sizes) :] == 9).all()


def test_more_chunks_than_an_axis_of_the_grid_has(device):
    """Two expanded sources of 2^25 bytes each are 65,536 workgroups."""
    n = 1 << 25
    targets = [torch.empty(n + 1, dtype=t, device=device)[1:] for t in (torch.int8, torch.uint8)]
    sources = [torch.full((1,), v, dtype=t.dtype, device=device) for v, t in zip((3, 5), targets, strict=True)]
    assert launches(lambda: torch._foreach_copy_(targets, sources)) == 1
    assert (targets[0] == 3).all() and (targets[1] == 5).all()


@pytest.mark.parametrize("target", [torch.float32, torch.float16], ids=str)
def test_foreach_copy_of_layouts(device, target):
    x = random_tensor(3, 5, 4, 6)
    forms = [t for _, t in layouts(x)]
    sources = [s for s in forms for _ in forms]
    cpu = [t.to(target) for _ in forms for _, t in layouts(torch.zeros_like(x))]
    targets = [like_strided(t, device) for t in cpu]
    mine = [like_strided(s, device) for s in sources]
    assert launches(lambda: torch._foreach_copy_(targets, mine)) == 1
    assert_close(targets, [s.to(target) for s in sources])
    wide = random_tensor(7, 1, 3)
    many = random_tensor(*[2] * 9)  # more dimensions than an entry has
    order = (8, 3, 5, 1, 0, 2, 4, 7, 6)
    two = [torch.zeros(7, 4, 3, device=device), torch.zeros(*[2] * 9, device=device)]
    torch._foreach_copy_(two, [wide.to(device), many.to(device).permute(order)])
    assert_close(two, [wide.expand(7, 4, 3), many.permute(order)])


def test_foreach_copy_of_bits(device):
    """Conjugate and negative bits, and dtypes between which nothing converts by this kernel."""
    z = random_tensor(5, dtype=torch.complex64)
    real = random_tensor(5)

    def run(where):
        a, b = z.to(where), real.to(where)
        out = [torch.zeros(5, dtype=torch.complex64, device=where) for _ in range(3)]
        torch._foreach_copy_(out, [a.conj(), b, torch._neg_view(a)])
        torch._foreach_copy_(out[:2], [b, a.conj()])
        return out

    assert_close(run(device), run("cpu"))


def test_foreach_copy_where_the_order_shows(device):
    """Tensors that share memory, other devices, other lists: as PyTorch's loop does it."""
    def run(where):
        x = torch.arange(40.0, device=where)
        torch._foreach_copy_([x[:10], x[10:20]], [x[10:20], x[20:30]])
        torch._foreach_copy_([x[30:35], x[35:40]], [x[:5], x[30:35]])
        torch._foreach_copy_([x[:4], x[2:6]], [x[20:24], x[24:28]])
        y = torch.zeros(3, 4, device=where)
        torch._foreach_copy_([y[:, 1], y[:, 2]], [x[:3], x[4:7]])
        return x, y

    assert_close(run(device), run("cpu"))
    a, b = torch.arange(3.0), torch.arange(4, device=device)
    here, there = [torch.zeros(3, device=device), torch.zeros(4)], [a, b]
    torch._foreach_copy_(here, there)
    assert_close(here[0], a)
    assert_close(here[1], torch.arange(4.0))
    with pytest.raises(RuntimeError, match="same number"):
        torch._foreach_copy_(here, [a])
    with pytest.raises(RuntimeError, match="must match the size"):
        torch._foreach_copy_([torch.zeros(3, device=device)] * 2, [b, b])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.uint8, torch.complex128], ids=str)
@pytest.mark.parametrize("dim", [0, 1, 2, -1])
def test_split_with_sizes_copy(device, dtype, dim):
    x = random_tensor(12, 12, 12, dtype=dtype)
    for sizes in ([12], [1, 4, 0, 7], [8, 4]):
        parts = x.split(sizes, dim)
        buffer, out = guarded([p.shape for p in parts], dtype, device)
        expected, cpu = guarded([p.shape for p in parts], dtype, "cpu")
        mine = x.to(device)
        count = launches(lambda: torch.split_with_sizes_copy(mine, sizes, dim, out=out))
        assert count == 1
        torch.split_with_sizes_copy(x, sizes, dim, out=cpu)
        assert_close(buffer, expected)
        turned = x.to(device).transpose(0, 2)
        torch.split_with_sizes_copy(turned, sizes, dim, out=out)
        assert_close(out, x.transpose(0, 2).split(sizes, dim))


def test_split_with_sizes_copy_as_fsdp_calls_it(device):
    """Two ranks' shards of 700 parameters, side by side, to as many parameters; and what is refused."""
    sizes = [i % 61 + 1 for i in range(700)]
    x = random_tensor(2, sum(sizes), dtype=torch.bfloat16)
    mine, out = x.to(device), [torch.zeros(2, n, dtype=torch.bfloat16, device=device) for n in sizes]
    assert launches(lambda: torch.split_with_sizes_copy(mine, sizes, dim=1, out=out)) == -(-700 // TABLE)
    assert_close(out, x.split(sizes, 1))
    with pytest.raises(RuntimeError, match="size 700, got size 699"):
        torch.split_with_sizes_copy(mine, sizes, dim=1, out=out[1:])
    with pytest.raises(RuntimeError, match="dtype"):
        torch.split_with_sizes_copy(mine, sizes, dim=1, out=[t.float() for t in out])
    empty = [torch.empty(0, dtype=torch.bfloat16, device=device) for _ in range(2)]
    torch.split_with_sizes_copy(mine[:, :9], [4, 5], 1, out=empty)
    assert_close(empty, x[:, :9].split([4, 5], 1))


CHUNKED = {
    0: [(5, 3), (7,), (8, 2), (1,), (4, 4), (3, 2, 2), (16,)],
    1: [(3, 5), (3, 8, 2), (3, 1), (3, 2, 5), (3, 4)],
    2: [(2, 3, 5), (2, 3, 4, 3), (2, 3, 1)],
}


@pytest.mark.parametrize("dim", CHUNKED)
@pytest.mark.parametrize("chunks", [1, 2, 3, 4, 9])
def test_chunk_cat(device, dim, chunks):
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.bool):
        tensors = [random_tensor(*s, dtype=dtype) for s in CHUNKED[dim]]
        mine = [t.to(device) for t in tensors]
        expected = torch._chunk_cat(tensors, dim, chunks)
        assert launches(lambda: assert_shape(torch._chunk_cat(mine, dim, chunks), expected)) == 1
        assert_close(torch._chunk_cat(mine, dim, chunks), expected)
        turned = [t.to(device).transpose(0, -1).contiguous().transpose(0, -1) for t in tensors]
        assert_close(torch._chunk_cat(turned, dim, chunks), expected)
        for target in (dtype, torch.float32, torch.float64):
            if target == torch.float64 and not torch.aule.get_device_properties().float64 and dtype == torch.int64:
                continue
            buffer = torch.full((expected.numel() + 2,), 7, dtype=target, device=device)
            out = buffer[1:-1].view(expected.shape)
            assert launches(lambda: torch._chunk_cat(mine, dim, chunks, out=out)) == 1
            assert_close(out, expected.to(target))
            assert_close(buffer[[0, -1]], torch.full((2,), 7, dtype=target))
    steps = torch.zeros(*expected.shape[:-1], 2 * expected.shape[-1], device=device)[..., ::2]
    tensors = [random_tensor(*s) for s in CHUNKED[dim]]
    torch._chunk_cat([t.to(device) for t in tensors], dim, chunks, out=steps)
    assert_close(steps, torch._chunk_cat(tensors, dim, chunks))


def assert_shape(actual, expected):
    assert actual.shape == expected.shape and actual.dtype == expected.dtype


def test_chunk_cat_as_fsdp_calls_it(device):
    """700 gradients in bfloat16 to float32, for two ranks; those of odd length are padded: two entries more."""
    grads = [random_tensor(i % 13 + 1, i % 3 + 1, dtype=torch.bfloat16) for i in range(700)]
    expected = torch._chunk_cat(grads, 0, 2).float()
    out, mine = torch.full_like(expected, 7, device=device), [g.to(device) for g in grads]
    entries = sum(1 if len(g) % 2 == 0 else 2 if len(g) == 1 else 3 for g in grads)
    assert launches(lambda: torch._chunk_cat(mine, 0, 2, out=out)) == -(-entries // TABLE)
    assert_close(out, expected)


def test_chunk_cat_refuses(device):
    a, b = torch.ones(4, 2, device=device), torch.ones(4, device=device)
    for tensors, dim, chunks, words in [
        ([a, b], 0, 0, "positive num_chunks"), ([a, b.half()], 0, 2, "same dtype"), ([a, b], -1, 2, "non-negative dim"),
        ([a, b[:0]], 0, 2, "non-empty"), ([a, torch.ones(3, 2, device=device)], 1, 2, "same sizes"),
    ]:  # fmt: skip
        with pytest.raises(RuntimeError, match=words):
            torch._chunk_cat(tensors, dim, chunks)
    with pytest.raises(RuntimeError, match="single memory location"):
        torch._chunk_cat([a, a], 0, 2, out=torch.as_strided(a, (2, 8), (0, 1)))
    with pytest.raises(RuntimeError, match="cast"):
        torch._chunk_cat([a, a], 0, 2, out=torch.empty(2, 8, dtype=torch.int32, device=device))


def test_cat_of_many_tensors(device):
    """One dispatch for 48 of them, along any dimension, also of mixed dtypes; stack is a cat."""
    tensors = [random_tensor(3, i % 5, 2) for i in range(100)]
    mine = [t.to(device) for t in tensors]
    assert launches(lambda: torch.cat(mine, 1)) == 2
    assert_close(torch.cat(mine, 1), torch.cat(tensors, 1))
    scalars = [torch.tensor(float(i), device=device) for i in range(700)]
    assert launches(lambda: torch.stack(scalars)) == -(-700 // TABLE)
    assert_close(torch.stack(scalars), torch.arange(700.0))
    mixed = [random_tensor(5, dtype=t) for t in (torch.float16, torch.float32, torch.int64, torch.float32)]
    assert_close(torch.cat([t.to(device) for t in mixed]), torch.cat(mixed))


def test_forms_of_gpus():
    check_program("gpu_lists", **without("cpu_kernels"))
