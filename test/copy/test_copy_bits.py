"""Copies of tensors with the conjugate or negative bit, of complex dtypes, and of dtypes without arithmetic."""

import warnings

import pytest
import torch

from helpers import like_strided

pytestmark = pytest.mark.validated

COMPLEX = [torch.complex64, torch.complex128, torch.complex32]
REALS = [torch.float32, torch.float16, torch.bfloat16, torch.float64]


def made(dtype, *size, zero=True):
    z = torch.randn(*size, dtype=torch.complex64 if dtype.is_complex else torch.float32)
    if zero:
        z.view(-1)[0] = 0.0  # its sign counts
    return z.to(dtype)


def same_bits(actual, expected):
    """Equal values, and equal signs of zeros."""
    actual, expected = actual.cpu().resolve_conj().resolve_neg(), expected.resolve_conj().resolve_neg()
    assert actual.dtype == expected.dtype and actual.shape == expected.shape
    assert torch.equal(actual.contiguous().view(torch.uint8), expected.contiguous().view(torch.uint8))


VIEWS = {
    "conj": lambda z: z.conj(),
    "mH": lambda z: z.mH,
    "step": lambda z: z.conj()[:, ::2],
    "offset": lambda z: z[1:].conj().t(),
    "expand": lambda z: z[:1].conj().expand(4, z.shape[1]),
    "imag": lambda z: z.conj().imag,
    "real": lambda z: z.conj().real,
    "neg": lambda z: z._neg_view(),
    "both": lambda z: z.conj()._neg_view().t(),
}
# The CPU negates complex numbers as 0 - z, which loses the sign of zeros, and complex32 not at all.
COMPLEX_NEGATION = ("neg", "both")


def no_reference(dtype, view):
    return dtype == torch.complex32 and view in COMPLEX_NEGATION


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
@pytest.mark.parametrize("view", VIEWS)
def test_views_with_bits(device, dtype, view):
    if no_reference(dtype, view):
        return
    z = made(dtype, 5, 7, zero=view not in COMPLEX_NEGATION)
    d = z.to(device)
    e, a = VIEWS[view](z), VIEWS[view](d)
    assert a.is_conj() == e.is_conj() and a.is_neg() == e.is_neg()
    same_bits(a.cpu(), e)
    same_bits(a.clone(), e)
    same_bits(a.contiguous(), e)
    same_bits(a.resolve_conj().resolve_neg(), e)
    cloned = a.clone()
    assert not cloned.is_conj() and not cloned.is_neg()
    host = torch.empty(e.shape, dtype=e.dtype)
    host.copy_(a)
    same_bits(host, e)
    assert e.flatten()[-1].item() == a.flatten()[-1].item()


@pytest.mark.sampled(24)
@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
@pytest.mark.parametrize("view", [v for v in VIEWS if v != "expand"])
@pytest.mark.parametrize("source", ["host", "device", "device with bits"])
def test_copies_into_views_with_bits(device, dtype, view, source):
    if no_reference(dtype, view):
        return
    zero = view not in COMPLEX_NEGATION
    z = made(dtype, 5, 7, zero=zero)
    d = z.to(device)
    to, to_device = VIEWS[view](z), VIEWS[view](d)
    x = made(to.dtype, *to.shape, zero=zero)
    y = x if source == "host" else x.to(device)
    if source == "device with bits":
        x, y = (x.conj(), y.conj()) if x.is_complex() else (x._neg_view(), y._neg_view())
    to.copy_(x)
    to_device.copy_(y)
    same_bits(d, z)


@pytest.mark.parametrize("dtype", [*REALS, torch.int32, torch.int64, torch.int8], ids=str)
def test_negative_bit_of_reals(device, dtype):
    x = torch.arange(-6, 6).reshape(3, 4).to(dtype)
    d = x.to(device)
    same_bits(d._neg_view().cpu(), -x)
    same_bits(d._neg_view().t().clone(), -x.t())
    x._neg_view().copy_(x.flip(0))
    d._neg_view().copy_(d.flip(0))
    same_bits(d, x)
    same_bits(d._neg_view().to(torch.float32), (-x).to(torch.float32))


@pytest.mark.sampled(24)
@pytest.mark.parametrize("to", [*COMPLEX, *REALS, torch.int64, torch.int32, torch.uint8, torch.bool], ids=str)
@pytest.mark.parametrize("dtype", [*COMPLEX, torch.float32, torch.float64, torch.int64, torch.bool], ids=str)
def test_conversions_of_complex(device, dtype, to):
    if not (dtype.is_complex or to.is_complex):
        return
    x = (torch.randn(4, 6, dtype=torch.complex64) * 3).to(dtype) if dtype.is_complex else torch.randn(4, 6).to(dtype)
    x[0, :3] = 0
    if dtype.is_complex:
        x[0, 0] = 2j  # true, though its real part is not
        if to == torch.uint8:
            x = torch.complex(x.to(torch.complex64).real.abs(), x.to(torch.complex64).imag).to(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the imaginary part is discarded
        for a, e in ((x.to(device), x), (x.to(device).t(), x.t()), (x.to(device)[:, 1::2], x[:, 1::2])):
            same_bits(a.to(to), e.to(to))
            if dtype.is_complex:
                same_bits(a.conj().to(to), e.conj().to(to))


@pytest.mark.parametrize("to", [*COMPLEX, torch.float32, torch.float16, torch.int64, torch.bool], ids=str)
@pytest.mark.parametrize("dtype", [*COMPLEX, torch.float32, torch.bfloat16, torch.int32], ids=str)
def test_many_conversions_of_complex(device, dtype, to):
    if not (dtype.is_complex or to.is_complex):
        return
    x = (torch.randn(3, 1037, dtype=torch.complex64) * 30).to(dtype) if dtype.is_complex else torch.randn(3, 1037)
    x = x.to(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the imaginary part is discarded
        for a, e in ((x.to(device), x), (x.to(device)[:, 1:], x[:, 1:]), (x.to(device).t(), x.t())):
            poison = torch.full(e.shape[::-1], 7, dtype=to, device=device).t()
            same_bits(poison.copy_(a), e.to(to))
            same_bits(a.to(to), e.to(to))


def test_overlapping_conjugation(device):
    z = made(torch.complex64, 300)
    d = z.to(device)
    d.copy_(d.conj())
    same_bits(d, z.conj())


def test_repeat_interleave_and_gather_of_conjugates(device):
    z = made(torch.complex64, 4, 3)
    d = z.to(device)
    same_bits(d.conj().repeat_interleave(2, dim=0), z.conj().repeat_interleave(2, dim=0))
    same_bits(d.conj()[[2, 0]], z.conj()[[2, 0]])
    same_bits(torch.cat([d.conj(), d]), torch.cat([z.conj(), z]))


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn, torch.float8_e5m2])
@pytest.mark.parametrize("other", [torch.float32, torch.int64, torch.bool, torch.complex64], ids=str)
def test_dtypes_without_arithmetic_convert_on_the_device(device, dtype, other):
    x = torch.arange(6).to(dtype)
    d = x.to(device)
    for a, e, to in ((d, x, other), (torch.arange(6).to(other).to(device), torch.arange(6).to(other), dtype)):
        same_bits(a.to(to), e.to(to))
    same_bits(d.clone(), x)
    same_bits(like_strided(x[::2]), x[::2])


def test_unsigned_integers_keep_their_bits(device):
    for wide, other in ((torch.uint16, torch.int16), (torch.uint32, torch.int32), (torch.uint64, torch.int64)):
        x = torch.tensor([-1, 0, 5, -7], dtype=other)
        same_bits(x.to(device).to(wide), x.to(wide))
        same_bits(x.to(wide).to(device).to(other), x)
