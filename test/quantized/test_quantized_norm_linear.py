"""aule::quantized_norm_linear_act: norm_linear_act (test/decoding/test_norm_linear.py) with a packed weight."""

import random

import pytest
import torch
from test_quantized import check, generator

from helpers import FLOATS
from norm_linear_reference import expected
from quantized_reference import FORMATS, decoded, magnitudes, random_blocks
from torch_aule import quantized

pytestmark = pytest.mark.validated
OP = torch.ops.aule.quantized_norm_linear_act
APART = ("int4", "int8", "nf4", "float8_e4m3fn")


def packed_weight(format, rows, k):
    """What the operator takes, the numbers in float64, and what each is the sum of."""
    if format in FORMATS:
        blocks = random_blocks(generator(), format, rows, k)
        packed = quantized.pack(torch.from_numpy(blocks), format).to("aule")
        return packed, (), (), torch.from_numpy(decoded(blocks, format)).double(), magnitudes(blocks, format)
    packed, scales, group = quantized.random_weight(format, rows, k)
    scales = [scale * torch.rand_like(scale) for scale in scales]
    numbers = quantized.dequantize(packed, format, k, torch.float32, scales, group).cpu().double()
    return packed, scales, group, numbers, numbers.abs()


@pytest.mark.parametrize("format", [*FORMATS, *APART])
def test_quantized_norm_linear_act(format):
    for m in (1, 2, 5, 16, 17):
        activation, dtype = random.choice(("none", "silu", "gelu_tanh")), random.choice(FLOATS)
        gated = activation != "none"
        n, k = random.randint(1, 50), quantized.FORMATS[format].values * random.randint(1, 4)
        rows = 2 * n if gated else n
        packed, scales, group, numbers, sizes = packed_weight(format, rows, k)
        scale = 1 / (numbers.abs().max().item() * k**0.5)  # gates that are neither shut nor open
        x = (torch.randn(m, k) * scale).to(dtype)
        bias = torch.randn(rows).to(dtype) if random.random() < 0.5 else None
        norm = torch.randn(k) * scale if random.random() < 0.7 else None
        residual = torch.randn(m, n).to(dtype) if random.random() < 0.5 else None
        eps = 1e-5 * scale * scale
        on_device = [None if t is None else t.to("aule") for t in (x, bias, norm, residual)]
        out = OP(on_device[0], packed, format, on_device[1], scales, group, on_device[2], eps, activation, on_device[3])
        assert out.dtype == dtype and out.is_contiguous()
        check(out, *expected(x, numbers, bias, norm, eps, activation, residual, sizes))


def test_strided_rows():
    """Some rows of a packed weight whose rows lie apart, and x between numbers that are not its own."""
    packed, _, _, numbers, sizes = packed_weight("q8_0", 12, 64)
    wide = torch.full((12, packed.size(1) + 32), 255, dtype=torch.uint8, device="aule")
    wide[:, : packed.size(1)] = packed
    x = torch.full((3, 128), torch.nan)
    x[:, 64:] = torch.randn(3, 64)
    norm = torch.randn(64)
    out = OP(x.to("aule")[:, 64:], wide[2:10, : packed.size(1)], "q8_0", None, (), (), norm.to("aule"), 1e-5, "silu")
    check(out, *expected(x[:, 64:], numbers[2:10], None, norm, 1e-5, "silu", None, sizes[2:10]))


def test_empty_and_errors():
    packed, *_ = packed_weight("q8_0", 4, 64)
    x, norm = torch.zeros(2, 64, device="aule"), torch.ones(64, device="aule")
    assert OP(x[:0], packed, "q8_0", None, (), (), norm, 1e-5, "silu").shape == (0, 2)
    assert OP(x, packed[:0], "q8_0", None, (), (), norm, 1e-5, "silu").shape == (2, 0)
    for kind, message, call in (
        (ValueError, "'none', 'silu' or 'gelu_tanh'", lambda: OP(x, packed, "q8_0", None, (), (), activation="relu")),
        (RuntimeError, "rows of a gate", lambda: OP(x, packed[:3], "q8_0", None, (), (), activation="silu")),
        (RuntimeError, "norm to have sizes", lambda: OP(x, packed, "q8_0", None, (), (), norm[:4])),
        (RuntimeError, "packed rows", lambda: OP(x[:, :32], packed, "q8_0", None, (), ())),
        (RuntimeError, "2-D of Byte", lambda: OP(x, packed[None], "q8_0", None, (), ())),
    ):
        with pytest.raises(kind, match=message):
            call()


def test_fake_kernel():
    packed, *_ = packed_weight("q8_0", 4, 64)
    x, norm = torch.randn(2, 64, device="aule"), torch.ones(64, device="aule")
    torch.library.opcheck(OP, (x, packed, "q8_0", None, [], [], norm, 1e-5, "silu"), test_utils="test_faketensor")


@pytest.mark.parametrize("format", quantized.FORMATS)
def test_random_weights_are_as_large_as_a_models(format):
    packed, scales, group = quantized.random_weight(format, 32, 512)
    assert packed.shape == (32, quantized.FORMATS[format].packed_row_bytes(512))
    numbers = quantized.dequantize(packed, format, 512, torch.float32, scales, group).cpu()
    assert 0.005 < numbers.std() < 0.06 and numbers.abs().max() < 0.2


def test_random_weight_errors():
    with pytest.raises(ValueError, match="multiple of 256 for q4_k, but got 100"):
        quantized.random_weight("q4_k", 4, 100)
