"""Operands that share memory: copies take them as the CPU does, or as if the source were copied first."""

import random

import pytest
import torch

REFUSED = "single memory location"


def square(where, dtype=torch.complex64):
    return torch.arange(9.0).to(dtype).reshape(3, 3).to(where)


PARTIAL = {
    "t": lambda x: x.copy_(x.t()),
    "assigned": lambda x: x.__setitem__(..., x.t()),
    "mH": lambda x: x.copy_(x.mH),
    "negated": lambda x: x.copy_(x.t()._neg_view()),
    "row": lambda x: x.copy_(x[0]),
    "shifted": lambda x: x[1:].copy_(x[:-1]),
    "shifted conj": lambda x: x[1:].copy_(x[:-1].conj()),
    "converted": lambda x: x.view(torch.float32).view(-1)[3:12].copy_(x.view(-1)),
    "list": lambda x: torch._foreach_copy_([x, x.clone()], [x.t(), x]),
}


@pytest.mark.parametrize("name", PARTIAL)
def test_a_copy_between_parts_that_cross_is_refused(device, name):
    for where in ("cpu", device):
        x = square(where)
        with pytest.raises(RuntimeError, match=REFUSED):
            PARTIAL[name](x)
        assert torch.equal(x.cpu(), square("cpu"))


EXPANDED = {
    "device": lambda x, y: x.copy_(y.to(x.device)),
    "host": lambda x, y: x.copy_(y),
    "converted": lambda x, y: x.copy_(y.double().to(x.device)),
    "scalar": lambda x, y: x.copy_(y[0, 0]),
    "list": lambda x, y: torch._foreach_copy_([x, x.clone()], [y.to(x.device)] * 2),
}


@pytest.mark.parametrize("name", EXPANDED)
def test_a_copy_to_repeated_elements_is_refused(device, name):
    y = torch.arange(6.0).reshape(2, 3)
    for where in ("cpu", device):
        row = torch.zeros(1, 3, device=where)
        with pytest.raises(RuntimeError, match=REFUSED):
            EXPANDED[name](row.expand(2, 3), y)
        assert not row.any()
    with pytest.raises(RuntimeError, match=REFUSED):
        torch.zeros(1, 3).expand(2, 3).copy_(y.to(device))


ONE_PLACE = {
    "conj": lambda z: z.copy_(z.conj()),
    "step": lambda z: z[:, ::2].copy_(z[:, ::2].conj()),
    "itself": lambda z: z.copy_(z.view_as(z)),
    "transposed": lambda z: z.t().copy_(z.t()),
    "parts": lambda z: z.real.copy_(z.imag),
    "one element": lambda z: z.__setitem__(..., z[1, 1]),
    "columns": lambda z: z[:, :1].copy_(z[:, 1:2]),
    "steps": lambda z: z.view(-1)[:8:2].copy_(z.view(-1)[1::2]),
    "bits": lambda z: z.real.view(torch.int32).copy_(z.real),
    "real part": lambda z: z.copy_(z.imag),
    "filled": lambda z: z.fill_(z[1, 2]),
}


@pytest.mark.parametrize("name", ONE_PLACE)
def test_a_copy_that_may_be_in_place_equals_the_cpus(device, name):
    z = square("cpu") * (2 + 1j)
    d = z.to(device)
    ONE_PLACE[name](z)
    ONE_PLACE[name](d)
    assert torch.equal(d.cpu(), z)


def test_a_fill_by_a_conjugate_of_an_element(device):
    z = square(device) * (2 + 1j)
    assert torch.equal(z.fill_(z[1, 1].conj()).cpu(), torch.full((3, 3), 8 - 4j))
    assert z[0, 0].fill_(z[0, 0].conj()).item() == 8 + 4j
    x = torch.tensor([1.0, 2.0], device=device)
    assert x[:1].fill_(x[1]).tolist() == [2.0]


def test_repeated_elements_may_be_filled(device):
    for where in ("cpu", device):
        x = torch.ones(1, 3, device=where)
        assert x.expand(2, 3).fill_(2).tolist() == [[2.0] * 3] * 2 and x.tolist() == [[2.0] * 3]
        assert not x.expand(2, 3).zero_().any()


SCANS = (torch.cumsum, torch.cumprod, torch.logcumsumexp, torch.cummax, torch.cummin)


@pytest.mark.parametrize("scan", SCANS, ids=lambda f: f.__name__)
def test_scans(device, scan):
    """PyTorch's CPU gets the last two wrong where `out` crosses the input."""
    x = torch.rand(6, device=device)
    expected = scan(x[:-1], 0)
    if isinstance(expected, torch.Tensor):
        with pytest.raises(RuntimeError, match=REFUSED):
            scan(x[:-1], 0, out=x[1:])
        with pytest.raises(RuntimeError, match=REFUSED):
            scan(x, 0, out=torch.zeros(1, device=device).expand(6))
    else:
        scan(x[:-1], 0, out=(x[1:], torch.empty(5, dtype=torch.int64, device=device)))
        assert torch.equal(x[1:], expected.values)


@pytest.mark.parametrize("update", [torch.Tensor.sub_, torch.Tensor.mul_, torch.Tensor.copysign_])
def test_columns_that_cross(device, update):
    """The operand is read as it was, where PyTorch's CPU reads some of what it has written."""
    x = torch.randn(5, 4)
    for written, read in ((slice(1, 4), slice(0, 3)), (slice(0, 3), slice(1, 4)), (slice(0, 4), slice(1, 2))):
        d = x.to(device)
        update(d[:, written], d[:, read])
        expected = x.clone()
        update(expected[:, written], x[:, read])
        assert torch.equal(d.cpu(), expected)


def places(t):
    """Storage elements of a strided tensor, in the order of its elements."""
    return torch.arange(t.untyped_storage().nbytes() // t.element_size()).as_strided(
        t.shape, t.stride(), t.storage_offset()
    )


def random_view(x, shape):
    """Strides without order, gaps, or distinctness."""
    strides = [random.choice((0, 1, 2, 3, 4, 6, 8, 12)) for _ in shape]
    reach = sum((n - 1) * s for n, s in zip(shape, strides))
    return x.as_strided(shape, strides, random.randrange(x.numel() - reach))


def test_random_copies_within_one_storage(device):
    """Refused only where the CPU refuses, and else as if the source had been copied first."""
    copied = 0
    while copied < 25:
        x = torch.arange(100) - 50
        shape = [random.randint(1, 4) for _ in range(random.randint(0, 3))]
        dst, src = random_view(x, shape), random_view(x, [random.choice((1, n)) for n in shape])
        if places(dst).unique().numel() < dst.numel():
            continue
        d = x.to(device)
        to, source = (d.as_strided(t.shape, t.stride(), t.storage_offset()) for t in (dst, src))
        values = src.clone()
        try:
            dst.copy_(src)
        except RuntimeError:
            with pytest.raises(RuntimeError, match=REFUSED):
                to.copy_(source)
            continue
        x.copy_(torch.arange(100) - 50)
        dst.copy_(values)
        to.copy_(source)
        assert torch.equal(d.cpu(), x), (dst.stride(), dst.storage_offset(), src.shape, src.stride())
        copied += 1


SIZES = [((0,), (5,)), ((0, 3), (2, 3)), ((0,), (0, 0)), ((3, 0), (0, 0)), ((5,), (0,)), ((5,), (3,))]


@pytest.mark.parametrize("to, source", SIZES)
def test_a_copy_of_other_sizes_is_refused(device, to, source):
    for a, b in (("cpu", "cpu"), (device, "cpu"), (device, device), ("cpu", device)):
        for dtype in (torch.float32, torch.int32):
            x, y = torch.empty(to, device=a), torch.ones(source, dtype=dtype, device=b)
            with pytest.raises(RuntimeError, match="must match the size|match the broadcast shape"):
                x.copy_(y)
            with pytest.raises(RuntimeError, match="must match the size|match the broadcast shape"):
                torch._foreach_copy_([x, torch.ones(2, device=a)], [y, torch.ones(2, device=b)])


def test_a_copy_broadcasts_to_no_elements(device):
    for to, source in (((0,), (1,)), ((0, 3), (3,)), ((2, 0), (2, 1))):
        for where in ("cpu", device):
            assert torch.empty(to, device=device).copy_(torch.ones(source, device=where)).shape == to
