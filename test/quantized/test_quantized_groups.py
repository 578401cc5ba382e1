"""Integers of 4 and 8 bits and float8 whose scales belong to groups, rows or blocks, against float64."""

import pytest
import torch

from helpers import FLOATS
from quantized_reference import EPS
from torch_aule import quantized

pytestmark = pytest.mark.validated
FLOAT8 = {"float8_e4m3fn": torch.float8_e4m3fn, "float8_e5m2": torch.float8_e5m2}


def stored(format, n, k):
    """Random packed rows, and the numbers that they hold, as float32."""
    if format.startswith("int4"):
        q = torch.randint(16, (n, k), dtype=torch.uint8)
        return q[:, 0::2] | q[:, 1::2] << 4, q.float() - (8 if format == "int4_offset" else 0)
    if format == "int8":
        q = torch.randint(-128, 128, (n, k), dtype=torch.int8)
        return q.view(torch.uint8), q.float()
    q = torch.randn(n, k).to(FLOAT8[format])
    return q.view(torch.uint8), q.float()


def spread(t, rows, columns, n, k):
    """A number for each block of rows and columns -> one for each weight."""
    return t.float().repeat_interleave(rows, 0)[:n].repeat_interleave(columns, 1)[:, :k]


# A scale for groups within rows, for whole rows, for blocks that do not divide, for all.
CASES = [(12, 256, 32, None), (5, 320, 320, None), (130, 200, 128, 128), (9, 72, 72, 16)]


@pytest.mark.parametrize("n, k, columns, rows", CASES)
@pytest.mark.parametrize("format", ["int4", "int4_offset", "int8", *FLOAT8])
def test_weights_and_products(format, n, k, columns, rows):
    packed, q = stored(format, n, k)
    grid = (-(-n // (rows or 1)), -(-k // columns))
    zeros_of = {"int4": (torch.int8, torch.float32), "int4_offset": (torch.bfloat16,), "int8": (torch.float16,)}
    for zero_dtype in (None, *zeros_of.get(format, ())):
        scale_dtype = torch.bfloat16 if zero_dtype is None else torch.float32
        scales = (torch.rand(grid) + 0.1).to(scale_dtype)
        tensors, zero = [scales], torch.zeros(grid)
        if zero_dtype is not None:
            zero = torch.randint(0, 16, grid).to(zero_dtype) if zero_dtype == torch.int8 else torch.randn(grid)
            zero = zero.to(zero_dtype)
            tensors.append(zero)
        s, z = spread(scales, rows or 1, columns, n, k), spread(zero, rows or 1, columns, n, k)
        w = s * q + z if format == "int4_offset" else s * (q - z)
        sizes = (s * q).abs() + z.abs() if format == "int4_offset" else w.abs()
        group = columns if rows is None else (rows, columns)
        there = [t.to("aule") for t in tensors]
        for dtype in FLOATS:
            numbers = quantized.dequantize(packed.to("aule"), format, k, dtype, there, group)
            assert torch.equal(numbers.cpu(), w.to(dtype))
        for m, dtype in ((1, torch.float32), (5, torch.bfloat16), (20, torch.float16)):
            x = torch.randn(m, k).to(dtype)
            expected, terms = x.double() @ w.double().mT, x.double().abs() @ sizes.double().mT
            out = quantized.linear(x.to("aule"), packed.to("aule"), format, None, there, group).cpu().double()
            # At most k + 32 roundings of float32; of weights to the dtype for many rows; of the result.
            rounded = EPS[dtype] * (x.double().abs() @ w.double().abs().mT) if m > 16 else 0
            tolerance = ((k + 32) * 2.0**-23 * terms + rounded) * (1 + EPS[dtype]) + EPS[dtype] * expected.abs()
            assert bool(((out - expected).abs() <= tolerance + 2.0**-25).all())


def test_what_does_not_fit_is_refused():
    packed, _ = stored("int4", 4, 64)
    packed, x = packed.to("aule"), torch.ones(1, 64, device="aule")
    scales = torch.ones(4, 2, device="aule")
    with pytest.raises(RuntimeError, match="one number or two, but got 3"):
        quantized.linear(x, packed, "int4", None, [scales], (1, 1, 32))
    with pytest.raises(RuntimeError, match="at least 8 values in a group"):
        quantized.linear(x, packed, "int4", None, [scales], 4)
    with pytest.raises(RuntimeError, match="expected zeros to be 8 numbers"):
        quantized.linear(x, packed, "int4", None, [scales, scales[:2]], 32)
    with pytest.raises(RuntimeError, match="two or four for int4, but got 3"):
        quantized.linear(x, packed, "int4", None, [scales, scales, scales], 32)


@pytest.mark.parametrize("m", [1, 7, 40])
def test_weight_int8pack_mm(m):
    w, scales = torch.randint(-128, 128, (24, 96), dtype=torch.int8), torch.rand(24) + 0.1
    for dtype in FLOATS:
        x, s = torch.randn(m, 96).to(dtype), scales.to(dtype)
        numbers = w.double() * s.double()[:, None]
        expected, terms = x.double() @ numbers.mT, x.double().abs() @ numbers.abs().mT
        out = torch._weight_int8pack_mm(x.to("aule"), w.to("aule"), s.to("aule")).cpu()
        assert out.dtype == dtype
        # 128 roundings of float32; of the weight to the dtype; of the result.
        tolerance = (128 * 2.0**-23 + EPS[dtype]) * terms * 1.01 + EPS[dtype] * expected.abs() + 2.0**-25
        assert bool(((out.double() - expected).abs() <= tolerance).all())


@pytest.mark.parametrize("group", [32, 192])
def test_weight_int4pack_mm_with_scales_and_zeros(group):
    n, k, m = 20, 192, 3
    q = torch.randint(16, (n, k))
    words = (q.view(n, k // 8, 8) << 4 * torch.arange(8)).sum(-1)
    scales = torch.rand(k // group, n).bfloat16() + 0.1
    zeros = torch.randint(16, (k // group, n), dtype=torch.int8)
    w = spread(scales.t(), 1, group, n, k) * (q - spread(zeros.t(), 1, group, n, k))
    x = torch.randn(m, k).bfloat16()
    out = torch.ops.aten._weight_int4pack_mm_with_scales_and_zeros(
        x.to("aule"), words.to(torch.int32).to("aule"), group, scales.to("aule"), zeros.to("aule")
    )
    expected, terms = x.double() @ w.double().mT, x.double().abs() @ w.double().abs().mT
    tolerance = (k + 32) * 2.0**-23 * terms * 1.01 + 2.0**-8 * expected.abs()
    assert bool(((out.cpu().double() - expected).abs() <= tolerance).all())


def int4_tiles(numbers, inner):
    """The layout of CUDA's kernel, number by number: eight of a row in each word, lane 4 r + j of a tile of 8 rows."""
    n, k = numbers.shape
    words = torch.zeros(n // 8, k // (16 * inner), 32, inner // 2, dtype=torch.int64)
    for row in range(n):
        for column in range(k):
            outer, rest = divmod(column, 16 * inner)
            word, rest = divmod(rest, 32)
            g, rest = divmod(rest, 8)
            j, half = divmod(rest, 2)
            words[row // 8, outer, row % 8 * 4 + j, word] |= int(numbers[row, column]) << 4 * (4 * half + g)
    return torch.where(words >= 2**31, words - 2**32, words).to(torch.int32)


@pytest.mark.parametrize("inner", [2, 4, 8])
def test_int4_in_the_order_of_tiles(inner):
    n, k, m, group = 16, 256, 3, 64
    q = torch.randint(16, (n, k))
    packed = torch._convert_weight_to_int4pack((q[:, ::2] << 4 | q[:, 1::2]).byte().to("aule"), inner)
    assert torch.equal(packed.cpu(), int4_tiles(q, inner))
    scales, zeros = torch.rand(k // group, n).bfloat16() + 0.1, torch.randn(k // group, n).bfloat16()
    scaled = spread(scales.t(), 1, group, n, k) * (q - 8)
    w, sizes = scaled + spread(zeros.t(), 1, group, n, k), scaled.abs() + spread(zeros.t(), 1, group, n, k).abs()
    x = torch.randn(m, k).bfloat16()
    out = torch._weight_int4pack_mm(x.to("aule"), packed, group, torch.stack((scales, zeros), -1).to("aule"))
    expected, terms = x.double() @ w.double().mT, x.double().abs() @ sizes.double().mT
    tolerance = (k + 32) * 2.0**-23 * terms * 1.01 + 2.0**-8 * expected.abs()
    assert bool(((out.cpu().double() - expected).abs() <= tolerance).all())
    with pytest.raises(RuntimeError, match="expected innerKTiles to be 2, 4 or 8, but got 3"):
        torch._convert_weight_to_int4pack(packed.view(torch.uint8).view(16, -1), 3)
    with pytest.raises(RuntimeError, match="expected groups of 32, 64, 128 or 256, but got 16"):
        torch._weight_int4pack_mm(x.to("aule"), packed, 16, torch.zeros(16, n, 2).bfloat16().to("aule"))
