"""Dtypes that are storage only, float8 and unsigned integers of 16 to 64 bits: conversions and scaled products.
Kernel: float8."""

import itertools

import pytest
import torch
import torch.nn.functional as F

from helpers import assert_close, to_device

pytestmark = pytest.mark.validated

FLOAT8 = [
    torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu,
]  # fmt: skip
UNSIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}


def bytes_of(t):
    return t.detach().cpu().contiguous().view(torch.uint8)


def is_same(actual, expected):
    """Equal bits; a NaN is any NaN."""
    assert actual.dtype == expected.dtype and actual.shape == expected.shape
    wide_a, wide_e = actual.cpu().float(), expected.float()
    both_nan = wide_a.isnan() & wide_e.isnan()
    same = (bytes_of(actual) == bytes_of(expected)).view(*expected.shape, expected.itemsize).all(-1)
    wrong = ~(same | both_nan)
    assert not wrong.any(), (wide_a[wrong][:5], wide_e[wrong][:5], int(wrong.sum()))


def floats():
    """All exponents and the neighbourhoods of every number and tie of 8 bits."""
    codes = torch.arange(256, dtype=torch.uint8)
    ties = []
    for dtype in FLOAT8:
        x = codes.view(dtype).double()
        x = x[x.isfinite()].sort().values
        x = torch.cat([x, (x[1:] + x[:-1]) / 2]).float()
        ties += [x, x.nextafter(torch.tensor(1e38)), x.nextafter(torch.tensor(-1e38))]
    bits = torch.randint(-(1 << 31), (1 << 31) - 1, (20_001,)).to(torch.int32).view(torch.float32)
    ends = torch.tensor([torch.inf, -torch.inf, torch.nan, 3.4e38, -3.4e38, 1e-45, 0.0, -0.0])
    return torch.cat([*ties, bits, torch.randn(999), ends])


@pytest.mark.parametrize("dtype", FLOAT8, ids=str)
def test_every_number_of_8_bits(device, dtype):
    x = torch.arange(256, dtype=torch.uint8).view(dtype)
    for to in (torch.float32, torch.float16, torch.bfloat16):
        is_same(x.to(device).to(to), x.to(to))
    for shape in ((2, 128), (4, 8, 8)):
        y = x.view(shape)
        is_same(y.to(device).mT.float(), y.mT.float())
        is_same(y.to(device)[1:, ..., ::3].float(), y[1:, ..., ::3].float())
    some = x[:1].expand(7)
    is_same(some.to(device).float(), some.float())
    assert x[:0].to(device).float().shape == (0,)


@pytest.mark.parametrize("dtype", FLOAT8, ids=str)
def test_rounding_to_8_bits(device, dtype):
    x = floats()
    if dtype == torch.float8_e8m0fnu:
        x = x.abs()
    is_same(x.to(device).to(dtype), x.to(dtype))
    is_same(x[1:].to(device)[::2].to(dtype), x[1:][::2].to(dtype))
    for via in (torch.float16, torch.bfloat16):
        is_same(x.to(via).to(device).to(dtype), x.to(via).to(dtype))
    whole = torch.arange(-300, 300) if dtype != torch.float8_e8m0fnu else torch.arange(300)
    is_same(whole.to(device).to(dtype), whole.to(dtype))
    if torch.aule.get_device_properties().float64:
        is_same(x.double().to(device).to(dtype), x.double().to(dtype))
    target = torch.ones(6, 5, device=device).to(dtype)
    target.t()[:, 1:].copy_(x[:25].view(5, 5).to(device))  # into a view
    expected = torch.ones(6, 5).to(dtype)
    expected.t()[:, 1:].copy_(x[:25].view(5, 5))
    is_same(target, expected)


def test_between_formats_of_8_bits(device):
    x = torch.arange(256, dtype=torch.uint8)
    for a, b in itertools.permutations(FLOAT8[:4], 2):
        is_same(x.view(a).to(device).to(b), x.view(a).to(b))


@pytest.mark.parametrize("dtype", UNSIGNED, ids=str)
def test_conversions_of_unsigned_integers(device, dtype):
    bits = torch.randint(torch.iinfo(torch.int64).min, torch.iinfo(torch.int64).max, (3, 701))
    ends = torch.tensor([[0, 1, -1, -2, 255, 65535, 65536, 2**31, 2**32 - 1, 2**63 - 1, -(2**63), -(2**63) + 1]])
    bits = torch.cat([bits.flatten(), ends.flatten(), bits.flatten() >> 33, bits.flatten() >> 11])
    x = bits.to(UNSIGNED[dtype]).view(dtype)
    wider = [torch.float32, torch.int64, torch.int32, torch.int16, torch.uint8, torch.int8, torch.bool, torch.bfloat16]
    if torch.aule.get_device_properties().float64:
        wider.append(torch.float64)
    for to in wider:
        is_same(x.to(device).to(to), x.to(to))
        is_same(x[:2000].view(2, 1000).t().to(device).to(to), x[:2000].view(2, 1000).t().to(to))
    for other in (torch.int64, torch.int32, torch.uint8, torch.bool, *UNSIGNED):
        source = bits.to(UNSIGNED[other]).view(other) if other in UNSIGNED else bits.to(other)
        is_same(source.to(device).to(dtype), source.to(dtype))
    most = float(torch.iinfo(dtype).max) * 0.999
    numbers = torch.rand(999) * most
    is_same(numbers.to(device).to(dtype), numbers.to(dtype))


@pytest.mark.parametrize("dtype", UNSIGNED, ids=str)
def test_functions_of_unsigned_integers(device, dtype):
    x, y = (torch.randint(0, 5, (4, 33)).to(dtype) for _ in range(2))
    ours, other = to_device(x), to_device(y)
    assert_close(torch.special.entr(ours), torch.special.entr(x))
    assert_close(torch.special.xlog1py(ours, other), torch.special.xlog1py(x, y))
    assert_close(ours.eq(other), x.eq(y))
    assert_close(ours.t().ne(other.t()), x.t().ne(y.t()))
    assert_close(torch.special.ndtr(ours), torch.special.ndtr(x))
    if dtype != torch.uint64:
        assert_close(ours == 3, x == 3)
    large = torch.tensor([-1, 5, -(2**63)]).to(UNSIGNED[dtype]).view(dtype)
    assert_close(large.to(device).sqrt(), large.sqrt())


SCALES = {
    "one": lambda m, k, n: ((), ()),
    "rows": lambda m, k, n: ((m, 1), (1, n)),
}


def scaled(a, b, sa, sb):
    return (a.double() * sa.double()) @ (b.double() * sb.double())


def test_products_beyond_the_largest_float8(device):
    """They are the largest number, as in cuBLAS."""
    signs, one = torch.tensor([1.0, -1.0]).repeat(8), torch.ones((), device=device)
    a, b = (t.to(torch.float8_e4m3fn) for t in (torch.eye(16) * 300, torch.diag(signs * 300)))
    product = torch._scaled_mm(*to_device((a, b.t())), one, one, out_dtype=torch.float8_e4m3fn)
    assert torch.equal(product.cpu().float(), torch.diag(signs * 448))


@pytest.mark.parametrize("kinds", itertools.product(FLOAT8[:2], FLOAT8[:2]), ids=str)
@pytest.mark.parametrize("m, k, n", [(16, 32, 48), (15, 16, 32), (1, 272, 16), (33, 64, 80)])
def test_scaled_products(device, kinds, m, k, n):
    a, b = torch.randn(m, k).to(kinds[0]), torch.randn(n, k).to(kinds[1]).t()
    bias = torch.randn(n).bfloat16()
    for name, shapes in SCALES.items():
        sa, sb = (torch.rand(shape) + 0.1 for shape in shapes(m, k, n))
        exact = scaled(a, b, sa, sb)
        ours = [to_device(t) for t in (a, b, sa, sb)]
        for dtype, limit in ((torch.float32, 2e-6), (torch.bfloat16, 8e-3), (torch.float16, 1e-3)):
            result = torch._scaled_mm(*ours, out_dtype=dtype)
            assert result.dtype == dtype and result.device.type == "aule"
            assert (result.cpu().double() - exact).abs().max() <= limit * exact.abs().max()
        result = torch._scaled_mm(*ours, bias=bias.to(device), out_dtype=torch.bfloat16)
        wanted = exact + bias.double()
        assert (result.cpu().double() - wanted).abs().max() <= 8e-3 * wanted.abs().max()
        out = torch.full((m, n), torch.nan, dtype=torch.bfloat16, device=device)
        torch._scaled_mm(*ours, out_dtype=torch.bfloat16, out=out)
        assert (out.cpu().double() - exact).abs().max() <= 8e-3 * exact.abs().max()
        if hasattr(torch, "_scaled_mm_v2"):
            recipe = [0 if name == "one" else 1]
            result = torch._scaled_mm_v2(*ours[:2], [ours[2]], recipe, [0], [ours[3]], recipe, [0], None, torch.float32)
            assert (result.cpu().double() - exact).abs().max() <= 2e-6 * exact.abs().max()


def test_scaled_products_beside_the_cpu(device):
    """Results in float8, and a scale that only they could have."""
    a, b = torch.randn(16, 32).to(torch.float8_e4m3fn), torch.randn(48, 32).to(torch.float8_e4m3fn).t()
    one, two = torch.tensor(0.5), torch.tensor(2.0)
    for options in ({}, {"out_dtype": torch.float8_e5m2}):
        expected = torch._scaled_mm(a, b, one, two, **options)
        actual = torch._scaled_mm(*(to_device(t) for t in (a, b, one, two)), **to_device(options))
        assert actual.dtype == expected.dtype
        # Sums in another order may round to the neighbouring number of 8 bits.
        torch.testing.assert_close(actual.cpu().float(), expected.float(), rtol=0.26, atol=2**-9)
        assert (actual.cpu().float() != expected.float()).float().mean() < 0.02

    three = {"scale_result": torch.tensor(3.0), "out_dtype": torch.float32}
    expected = torch._scaled_mm(a, b, one, two, **three)
    assert_close(torch._scaled_mm(*(to_device(t) for t in (a, b, one, two)), **to_device(three)), expected, atol=1e-4)
    with pytest.raises(NotImplementedError, match="scale_result"):
        torch._scaled_mm(*(to_device(t) for t in (a, b, one, two)), scale_result=one.to(device))


def test_blocks_of_scales(device):
    m, k, n = 33, 320, 48
    a, b = torch.randn(m, k).to(torch.float8_e4m3fn), torch.randn(n, k).to(torch.float8_e4m3fn).t()
    sa, sb = torch.rand(m, 3) + 0.1, torch.rand(3, 1) + 0.1
    exact = scaled(a, b, sa.repeat_interleave(128, 1)[:, :k], sb.repeat_interleave(128, 0)[:k])
    actual = torch._scaled_mm(*(to_device(t) for t in (a, b, sa, sb)), out_dtype=torch.float32)
    assert (actual.cpu().double() - exact).abs().max() <= 2e-6 * exact.abs().max()


def test_refusals(device):
    a = torch.ones(16, 16, device=device).to(torch.float8_e4m3fn)
    one = torch.ones((), device=device)
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        torch._scaled_mm(a, a[:8], one, one)
    with pytest.raises(RuntimeError, match="expected scales"):
        torch._scaled_mm(a, a, torch.ones(5, 1, device=device), one)
    with pytest.raises(RuntimeError):
        torch._scaled_mm(a.float(), a.float(), one, one)
    with pytest.raises((RuntimeError, NotImplementedError)):
        F.relu(a)


@pytest.mark.parametrize("dtype", UNSIGNED, ids=str)
def test_order_of_unsigned_integers(device, dtype):
    """Numbers on both sides of the signed integers' largest."""
    bits = torch.randint(torch.iinfo(torch.int64).min, torch.iinfo(torch.int64).max, (5, 67))
    x = (bits | 1).to(UNSIGNED[dtype]).view(dtype)
    for t, dim, descending in ((x, 1, False), (x.t(), 0, True), (x[1:, ::3], 1, True)):
        expected = torch.sort(t, dim=dim, descending=descending)
        actual = torch.sort(to_device(t), dim=dim, descending=descending)
        is_same(actual.values, expected.values)
        is_same(to_device(t).gather(dim, actual.indices), expected.values)
    few = (bits % 7 - 3).to(UNSIGNED[dtype]).view(dtype)
    for t in (few, few.t(), few[:0]):
        expected = torch.unique(t, return_inverse=True, return_counts=True)
        for a, e in zip(torch.unique(to_device(t), return_inverse=True, return_counts=True), expected, strict=True):
            is_same(a, e)
