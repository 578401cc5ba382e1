"""Copies, conversions and fills between tensors of the device."""

import pytest
import torch

from helpers import ALL_DTYPES, assert_close, check_program, layouts, random_tensor, to_device, without

pytestmark = pytest.mark.validated

DTYPES = [*ALL_DTYPES, torch.float64]


@pytest.mark.parametrize("source", DTYPES)
def test_conversion(device, source):
    x = random_tensor(1027, dtype=source) if source == torch.bool else random_tensor(1027, dtype=source) * 3
    a = x.to(device)
    matrix = x[:1020].view(30, 34)
    b = a[:1020].view(30, 34)
    for target in DTYPES:
        if target == torch.uint8 and source.is_floating_point:
            assert_close(
                a.abs().to(target) if source != torch.float64 else (a * a).to(target),
                x.abs().to(target) if source != torch.float64 else (x * x).to(target),
            )
            continue
        assert_close(a.to(target), x.to(target))
        assert_close(b.t().to(target, memory_format=torch.contiguous_format), matrix.t().to(target))
        assert_close(a[1:].to(target), x[1:].to(target))  # unaligned


@pytest.mark.parametrize("dtype", [*DTYPES, torch.complex64, torch.complex128])
def test_layouts(device, dtype):
    x = random_tensor(3, 5, 4, 6, dtype=dtype)
    for _, source in layouts(x):
        for _, target in layouts(torch.zeros_like(x)):
            destination = to_device(target)
            destination.copy_(to_device(source))
            assert_close(destination, x)


def test_broadcast_source(device):
    x = random_tensor(4, 1, 7)
    y = torch.zeros(3, 4, 5, 7, device=device)
    y.copy_(x.to(device))
    assert_close(y, x.expand(3, 4, 5, 7).contiguous())
    half = torch.zeros(5, 7, dtype=torch.float16, device=device)
    half.copy_(x[0].to(device))
    assert_close(half, x[0].half().expand(5, 7).contiguous())


def test_many_dimensions(device):
    x = random_tensor(*[2] * 13)
    order = (12, 3, 5, 1, 0, 2, 4, 7, 6, 8, 10, 9, 11)
    assert_close(x.to(device).permute(order).contiguous(), x.permute(order).contiguous())


@pytest.mark.parametrize("shape", [(1, 1), (33, 65), (200, 3), (3, 200), (128, 128), (2, 70, 50)])
def test_transpose(device, shape):
    for dtype in [torch.float32, torch.float16, torch.int64, torch.uint8]:
        x = random_tensor(*shape, dtype=dtype)
        assert_close(x.to(device).transpose(-1, -2).contiguous(), x.transpose(-1, -2).contiguous())


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.float32, torch.int64, torch.complex128])
def test_rows_in_wide_units(device, dtype):
    """Rows of whole units of 2 to 16 bytes, and strides, sizes and starts that allow only narrower ones."""
    x = random_tensor(5, 7, 3, 32, dtype=dtype)
    for start, length in ((0, 32), (8, 16), (4, 12), (2, 6), (1, 8), (0, 31), (31, 1)):
        part = x[..., start : start + length]
        here = x.to(device)[..., start : start + length]
        assert_close(here.contiguous(), part.contiguous())
        assert_close(here.transpose(1, 2).contiguous(), part.transpose(1, 2).contiguous())
        assert_close(here[:1].expand(4, 7, 3, length).contiguous(), part[:1].expand(4, 7, 3, length).contiguous())
        target = torch.zeros(3, 5, 7, 40, dtype=dtype)
        there = target.to(device)
        target[..., 4 : 4 + length].copy_(part.permute(2, 0, 1, 3))
        there[..., 4 : 4 + length].copy_(here.permute(2, 0, 1, 3))
        assert_close(there, target)


def test_empty(device):
    x = torch.zeros(0, 3, device=device)
    assert x.t().contiguous().shape == (3, 0)
    assert x.half().shape == (0, 3)
    assert x.fill_(3).shape == (0, 3)


@pytest.mark.parametrize("dtype", [*DTYPES, torch.complex64, torch.complex128, torch.float8_e4m3fn])
def test_fill(device, dtype):
    for n in [1, 3, 4, 1029]:
        x = torch.zeros(n, dtype=torch.float32).to(dtype)
        assert_close(x.to(device).fill_(1).to("cpu").to(torch.complex128), x.clone().fill_(1).to(torch.complex128))
    if dtype == torch.float8_e4m3fn:
        return
    value = 2 - 1j if dtype.is_complex else (7 if dtype != torch.bool else True)
    base = torch.zeros(11, 13, dtype=dtype)
    on_device = base.to(device)
    for view in [lambda t: t[1:, ::2], lambda t: t.t()[3], lambda t: t[2:5, 1:4], lambda t: t[1:2, 1:]]:
        view(on_device).fill_(value)
        view(base).fill_(value)
        assert_close(on_device, base)
    view = on_device[:, ::3]
    view.zero_()
    base[:, ::3] = 0
    assert_close(on_device, base)
    on_device.fill_(torch.ones((), dtype=dtype, device=device))
    assert_close(on_device, torch.ones_like(base))
    on_device.fill_(torch.zeros((), dtype=dtype))
    assert_close(on_device, torch.zeros_like(base))


def test_integers_keep_their_digits(device):
    x = torch.tensor([2**53 + 1, -(2**62) - 1, 2**31, -1, 255])
    assert_close(x.to(device).double(), x.double())
    assert_close(x.to(device).float(), x.float())
    assert_close(x.to(device).int(), x.int())
    assert_close(x.to(device).to(torch.uint8), x.to(torch.uint8))


def test_nan_bits_survive(device):
    x = torch.tensor([0x7F800001, -0x400000, 0x7FC12345], dtype=torch.int32)
    y = x.to(device).view(torch.float32)[::2].clone().view(torch.int32)
    assert_close(y, x[::2].contiguous())


def test_a_tensor_of_a_third_device_has_no_address_of_the_host(device):
    """It goes through the host, if it has values at all: its pointer is nothing to read from."""
    ours = torch.zeros(3, device=device)
    with pytest.raises(NotImplementedError, match="meta"):
        ours.copy_(torch.empty(3, device="meta"))
    assert ours.cpu().tolist() == [0, 0, 0]
    if torch.cuda.is_available():
        x = torch.randn(5, 7)
        assert torch.equal(x.cuda().to(device).cpu(), x)
        assert torch.equal(x.to(device).to("cuda").cpu(), x)
        assert torch.equal(x.t().to(device).to("cuda", torch.float64).cpu(), x.t().double())


@pytest.mark.parametrize("off", [[], ["cpu_kernels"]], ids=["sleeps", "polls"])
@pytest.mark.parametrize("mapped", [[], ["mapped_memory"]], ids=["mapped", "unmapped"])
def test_values_through_staging(off, mapped):
    check_program("staged_values", **without("unified_memory", *off, *mapped))
