"""Tensors of more than 2^31 elements and 2^32 bytes, on devices with the memory for them.

Inputs repeat a block of prime length, so that the CPU knows every element by its index, and an index that lost its
upper bits finds another one. Results are compared in slices: both ends, around 2^31 elements, 2^31 and 2^32 bytes, and
between.
TORCH_AULE_HUGE_ELEMS=<n> runs the same programs at another size, on any device (300000 takes seconds).
"""

import gc
import os

import pytest
import torch
import torch.nn.functional as F

from helpers import assert_close

GIVEN = int(os.environ.get("TORCH_AULE_HUGE_ELEMS", "0"))
ELEMS = GIVEN or 2**31 + 2**20
NEEDED = 70 * 10**9
COLUMNS = 1024 if ELEMS > 2**24 else 64
PERIOD = 1000003 if ELEMS > 2**24 else 4999  # primes
WINDOW = min(4096, ELEMS // 8)


@pytest.fixture(autouse=True)
def large_device(device):
    total = torch.aule.get_device_properties().total_memory
    if not GIVEN and total < NEEDED:
        pytest.skip(f"needs {NEEDED / 1e9:.0f} GB of device memory, here are {total / 1e9:.0f} (TORCH_AULE_HUGE_ELEMS)")
    gc.collect()
    torch.aule.empty_cache()
    yield
    gc.collect()
    torch.aule.empty_cache()


class Pattern:
    """A tensor on the device whose element i is block[i % PERIOD]."""

    def __init__(self, dtype, elems=ELEMS, low=-8, high=9):
        self.elems = elems
        if dtype == torch.bool:
            self.block = torch.rand(PERIOD) < 0.4
        elif dtype.is_floating_point:
            self.block = ((torch.rand(PERIOD) - 0.5) * 4).to(dtype)
        else:
            self.block = torch.randint(low, high, (PERIOD,)).to(dtype)

    def tensor(self, *shape):
        whole = self.block.to("aule").repeat((self.elems + PERIOD - 1) // PERIOD)[: self.elems]
        return whole.view(shape) if shape else whole

    def at(self, index):
        return self.block[index % PERIOD]

    def rows(self, first, count, columns=COLUMNS):
        return self.at(torch.arange(first * columns, (first + count) * columns)).view(count, columns)


def places(elems, itemsize):
    """Starts of the slices to look at."""
    wanted = [0, elems // 3, elems // 2, elems - WINDOW, 2**31 - WINDOW // 2, 2**32 - WINDOW // 2]
    wanted += [bytes_ // itemsize - WINDOW // 2 for bytes_ in (2**31, 2**32, 2**33)]
    return sorted({w for w in wanted if 0 <= w <= elems - WINDOW})


def check(actual, expected, **tolerance):
    """`expected` takes int64 indices into the flat result."""
    flat = actual.view(-1)
    for start in places(flat.numel(), flat.element_size()):
        index = torch.arange(start, start + WINDOW)
        want = expected(index).to(actual.dtype)
        assert_close(flat[start : start + WINDOW], want, msg=f"at {start}", **tolerance)


def row_places(rows):
    """First rows of the groups of four to look at."""
    boundary = [b // COLUMNS for b in (2**31, 2**30, 2**32)]
    return sorted({r for r in (0, rows // 2, rows - 4, *(b - 2 for b in boundary)) if 0 <= r <= rows - 4})


def check_rows(actual, function, x, **tolerance):
    """Each row of `actual` depends on the row of `x` alone."""
    for first in row_places(actual.shape[0]):
        want = function(x.rows(first, 4).double())
        assert_close(actual[first : first + 4], want.to(actual.dtype), msg=f"row {first}", **tolerance)


ROWS = ELEMS // COLUMNS
GRID = ROWS * COLUMNS


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.int8], ids=str)
def test_pointwise(dtype):
    a, b = Pattern(dtype), Pattern(dtype)
    x, y = a.tensor(), b.tensor()
    check(x + y, lambda i: a.at(i) + b.at(i))
    check(torch.where(x > y, x, y), lambda i: torch.maximum(a.at(i), b.at(i)))
    check(x.ge(y), lambda i: a.at(i) >= b.at(i))
    x.mul_(y).neg_()
    check(x, lambda i: -(a.at(i) * b.at(i)))


def test_pointwise_broadcast():
    a = Pattern(torch.bfloat16, GRID)
    x, row, column = a.tensor(ROWS, COLUMNS), torch.randn(COLUMNS), torch.randn(ROWS, 1)
    check(x * row.to("aule"), lambda i: a.at(i).float() * row[i % COLUMNS], rtol=1e-2, atol=1e-2)
    check(x + column.to("aule"), lambda i: a.at(i).float() + column[i // COLUMNS, 0], rtol=1e-2, atol=1e-2)
    check(torch.exp(x), lambda i: a.at(i).float().exp(), rtol=1e-2, atol=1e-2)


def test_host_and_back():
    a = Pattern(torch.int8)
    host = a.block.repeat((ELEMS + PERIOD - 1) // PERIOD)[:ELEMS].clone()
    x = host.to("aule")
    check(x, a.at)
    assert torch.equal(x.cpu(), host)


@pytest.mark.parametrize("source, target", [(torch.float16, torch.float32), (torch.float32, torch.bfloat16),
                                            (torch.int8, torch.int32), (torch.float16, torch.bool)], ids=str)
def test_casts(source, target):
    a = Pattern(source)
    check(a.tensor().to(target), lambda i: a.at(i).to(target))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.float32], ids=str)
def test_copies(dtype):
    a = Pattern(dtype, GRID, low=0, high=200)
    x = a.tensor(ROWS, COLUMNS)
    check(x.clone(), a.at)
    check(x.t().contiguous(), lambda i: a.at(i % ROWS * COLUMNS + i // ROWS))  # strided reads
    y = torch.empty(COLUMNS, ROWS, dtype=dtype, device="aule")
    y.t().copy_(x)  # strided writes
    check(y, lambda i: a.at(i % ROWS * COLUMNS + i // ROWS))
    del y
    check(x[:, ::2].contiguous(), lambda i: a.at(i // (COLUMNS // 2) * COLUMNS + i % (COLUMNS // 2) * 2))
    check(x.flip(0), lambda i: a.at((ROWS - 1 - i // COLUMNS) * COLUMNS + i % COLUMNS))


def test_fills():
    x = torch.full((ELEMS,), 3, dtype=torch.int8, device="aule")
    check(x, lambda i: torch.full_like(i, 3))
    x[ELEMS // 2 :].zero_()
    check(x, lambda i: torch.where(i < ELEMS // 2, 3, 0))
    del x
    check(torch.arange(ELEMS, device="aule"), lambda i: i)


def test_full_reductions():
    a = Pattern(torch.int8)
    x = a.tensor()
    whole, rest = divmod(ELEMS, PERIOD)
    wide = a.block.long()
    assert x.sum().item() == whole * wide.sum() + wide[:rest].sum()
    count = (a.block != 0).long()
    assert torch.count_nonzero(x).item() == whole * count.sum() + count[:rest].sum()
    at = ELEMS - ELEMS // 100
    x[at] = 100
    assert x.argmax().item() == at and x.max().item() == 100 and x.min().item() == a.block.min()
    assert (x == 100).any().item() and not (x != 100).all().item()
    del x
    b = Pattern(torch.float16)
    y = b.tensor()
    mean = (whole * b.block.double().sum() + b.block[:rest].double().sum()) / ELEMS
    assert abs(y.sum(dtype=torch.float32).item() / ELEMS - mean) < 1e-4
    squares = whole * b.block.double().square().sum() + b.block[:rest].double().square().sum()
    norm = torch.linalg.vector_norm(y, dtype=torch.float32).item()
    assert abs(norm / squares.sqrt().item() - 1) < 1e-3


def test_reductions_along_dimensions():
    a = Pattern(torch.float16, GRID)
    x = a.tensor(ROWS, COLUMNS)
    check_rows(x.sum(1, dtype=torch.float32), lambda r: r.sum(1), a, rtol=1e-3, atol=1e-2)
    check_rows(x.amax(1), lambda r: r.amax(1), a)
    check_rows(x.argmax(1), lambda r: r.argmax(1), a)
    sums, most = x.sum(0, dtype=torch.float32).cpu(), x.amax(0).cpu()
    for column in (0, COLUMNS // 2, COLUMNS - 1):
        values = a.at(torch.arange(column, GRID, COLUMNS)).double()
        assert abs(sums[column].item() - values.sum().item()) < 1e-3 * values.abs().sum().item() ** 0.5 * 30
        assert most[column].item() == values.max().item()


@pytest.mark.parametrize("kind", ["layer_norm", "rms_norm", "softmax", "log_softmax"])
def test_rowwise(kind):
    a = Pattern(torch.float16, GRID)
    x = a.tensor(ROWS, COLUMNS).requires_grad_()

    def function(t):
        return getattr(F, kind)(t, (COLUMNS,)) if "norm" in kind else getattr(F, kind)(t, dim=-1)

    y = function(x)
    check_rows(y.detach(), function, a, rtol=1e-2, atol=1e-2)
    weight = torch.randn(COLUMNS)
    (gradient,) = torch.autograd.grad(y, x, weight.half().to("aule").expand_as(y))

    def backward(rows):
        rows.requires_grad_()
        return torch.autograd.grad(function(rows), rows, weight.half().double().expand_as(rows))[0]

    check_rows(gradient, backward, a, rtol=2e-2, atol=2e-2)


def test_long_rows_of_softmax():
    rows = 4
    a = Pattern(torch.float16, rows * (ELEMS // rows))
    y = torch.softmax(a.tensor(rows, -1).float(), 1)
    wide = a.at(torch.arange(ELEMS // rows)).double().exp()  # of the first row
    assert_close(y[0, -WINDOW:], (wide[-WINDOW:] / wide.sum()).float(), rtol=1e-3, atol=0)
    assert_close(y.sum(1), torch.ones(rows), rtol=1e-3, atol=1e-3)


def test_products():
    a, k = Pattern(torch.float16, GRID), COLUMNS
    b = (torch.rand(k, 24) - 0.5).half()
    x = a.tensor(ROWS, k)
    check_rows(x @ b.to("aule"), lambda r: r @ b.double(), a, rtol=1e-2, atol=5e-2)  # a large left side
    v = (torch.rand(k) - 0.5).half()
    check_rows(x @ v.to("aule"), lambda r: r @ v.double(), a, rtol=1e-2, atol=5e-2)
    del x
    m = int(ELEMS**0.5) + 8  # a large result
    left, right = (torch.rand(m, 32) - 0.5).half(), (torch.rand(32, m) - 0.5).half()
    y = left.to("aule") @ right.to("aule")
    for first in (0, m // 2, m - 4):
        expected = (left[first : first + 4].double() @ right.double()).half()
        assert_close(y[first : first + 4], expected, rtol=1e-2, atol=1e-2)
    del y
    batch = ELEMS // (16 * 32)  # many batches
    c = Pattern(torch.float16, batch * 16 * 32)
    y = torch.bmm(c.tensor(batch, 16, 32), c.tensor(batch, 32, 16))
    for first in (0, batch // 2, batch - 1):
        block = c.at(torch.arange(first * 512, first * 512 + 512)).double()
        assert_close(y[first], (block.view(16, 32) @ block.view(32, 16)).half(), rtol=1e-2, atol=5e-2)


def test_gather_and_scatter():
    a, k = Pattern(torch.float16, GRID), torch.randperm(COLUMNS)
    x = a.tensor(ROWS, COLUMNS)
    index = k.to("aule").expand(ROWS, COLUMNS)
    check(x.gather(1, index), lambda i: a.at(i // COLUMNS * COLUMNS + k[i % COLUMNS]))
    y = torch.zeros_like(x).scatter_(1, index, x)
    inverse = torch.argsort(k)
    check(y, lambda i: a.at(i // COLUMNS * COLUMNS + inverse[i % COLUMNS]))


def test_index_select_and_index_put():
    a = Pattern(torch.float16, GRID)
    x = a.tensor(ROWS, COLUMNS)
    wanted = torch.tensor([ROWS - 1, 0, *row_places(ROWS), ROWS // 3])
    assert_close(x.index_select(0, wanted.to("aule")), torch.cat([a.rows(int(r), 1) for r in wanted]))
    assert_close(F.embedding(wanted.to("aule"), x), torch.cat([a.rows(int(r), 1) for r in wanted]))
    back = torch.arange(ROWS - 1, -1, -1, device="aule")
    check(x[back], lambda i: a.at((ROWS - 1 - i // COLUMNS) * COLUMNS + i % COLUMNS))
    flat = x.view(-1)
    spots = torch.tensor(sorted({s + 7 for s in places(GRID, 2)}))
    flat[spots.to("aule")] = 5.0
    check(flat, lambda i: torch.where(torch.isin(i, spots), torch.tensor(5.0).half(), a.at(i)))
    assert_close(flat.take(spots.to("aule")), torch.full((len(spots),), 5.0).half())


def compressed(block, elems, index):
    """Elements `index` of what is kept of a pattern whose kept positions within the block are `block`."""
    return index // len(block) * PERIOD + block[index % len(block)]


def test_masked_select_and_nonzero():
    mask, a = Pattern(torch.bool), Pattern(torch.int8)
    m, x = mask.tensor(), a.tensor()
    kept = mask.block.nonzero().flatten()
    count = ELEMS // PERIOD * len(kept) + int(mask.block[: ELEMS % PERIOD].sum())
    y = x.masked_select(m)
    assert y.numel() == count
    check(y, lambda i: a.at(compressed(kept, ELEMS, i)))
    check(x.masked_fill(m, 77), lambda i: torch.where(mask.at(i), 77, a.at(i)))
    del y, x
    found = m.nonzero()
    assert found.shape == (count, 1)
    check(found, lambda i: compressed(kept, ELEMS, i))


def test_concatenation():
    a, b = Pattern(torch.int8, ELEMS // 2), Pattern(torch.int8, ELEMS - ELEMS // 2)
    y = torch.cat([a.tensor(), b.tensor()])
    check(y, lambda i: torch.where(i < a.elems, a.at(i), b.at(i - a.elems)))
    first, second = y.split(a.elems)
    check(second.clone(), b.at)
    del y, first, second
    c = Pattern(torch.float16, GRID // 2 // COLUMNS * COLUMNS)
    half = c.tensor(-1, COLUMNS)
    y = torch.cat([half, half], 1)
    check(y, lambda i: c.at(i // (2 * COLUMNS) * COLUMNS + i % COLUMNS))
    check(torch.stack([half, half]), lambda i: c.at(i % c.elems))


def test_sorting():
    a = Pattern(torch.float16, GRID)
    x = a.tensor(ROWS, COLUMNS)
    values, places_ = x.topk(5, dim=1)
    check_rows(values, lambda r: r.topk(5, dim=1).values, a)
    assert_close(x[-4:].gather(1, places_[-4:]), values[-4:].cpu())
    del values, places_
    values, order = x.sort(dim=1)
    check_rows(values, lambda r: r.sort(dim=1).values, a)
    assert_close(x[-4:].gather(1, order[-4:]), values[-4:].cpu())


def test_cumulative_sums():
    a = Pattern(torch.int8)
    sums = a.block.long().cumsum(0)
    check(a.tensor().cumsum(0), lambda i: i // PERIOD * sums[-1] + sums[i % PERIOD])
    b = Pattern(torch.float16, GRID)
    y = b.tensor(ROWS, COLUMNS).cumsum(1, dtype=torch.float32)
    check_rows(y, lambda r: r.cumsum(1), b, rtol=1e-3, atol=1e-2)


def test_random():
    """Every slice was written, and none repeats another."""

    def slices(x):
        return [x[p : p + WINDOW].float().cpu() for p in places(x.numel(), x.element_size())]

    x = torch.full((ELEMS,), -1, dtype=torch.float32, device="aule").uniform_()
    assert x.min().item() >= 0 and x.max().item() < 1 and abs(x.mean().item() - 0.5) < (1e-3 if ELEMS > 2**24 else 1e-2)
    parts = slices(x)
    del x
    parts += slices(torch.empty(ELEMS, dtype=torch.float16, device="aule").normal_())
    y = torch.randint(0, 100, (ELEMS,), dtype=torch.int8, device="aule")
    assert y.min().item() == 0 and y.max().item() == 99
    parts += slices(y)
    del y
    for i, part in enumerate(parts):
        assert part.unique().numel() > min(90, WINDOW // 4)
        assert not any(part.equal(other) for other in parts[:i])
    kept = F.dropout(torch.ones(ELEMS, dtype=torch.float16, device="aule"), 0.25)
    share = torch.count_nonzero(kept).item() / ELEMS
    assert abs(share - 0.75) < (1e-3 if ELEMS > 2**24 else 1e-2)
    masks = [part != 0 for part in slices(kept)]
    assert not any(mask.equal(other) for i, mask in enumerate(masks) for other in masks[:i])
