"""float8 in generated kernels: conversions as those of the eager kernel float8, moved values, operands."""

import pytest
import torch

from helpers import needs_shader_compiler

pytest.importorskip("torch._inductor.codegen.simd")
needs_shader_compiler()

FORMATS = [
    torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu,
]  # fmt: skip


@pytest.fixture(params=FORMATS, ids=str)
def dtype(request):
    return request.param


def bits(x):
    return x.view(torch.uint8) if x.element_size() == 1 else x


def check(function, *args):
    """The same bits as eager, from one generated kernel without a call of an operator."""
    from torch._inductor.utils import run_and_get_code

    result, code = run_and_get_code(torch.compile(function, fullgraph=True), *args)
    expected = function(*args)
    assert result.dtype == expected.dtype
    assert "extern_kernels." not in code[0] and "torch.ops.aten._to_copy" not in code[0]
    if result.element_size() == 1:
        assert torch.equal(bits(result), bits(expected))
    else:
        assert torch.equal(result.nan_to_num(nan=12345.0), expected.nan_to_num(nan=12345.0))


def test_every_code_to_float32(fresh_compiler, device, dtype):
    codes = torch.arange(256, dtype=torch.uint8, device=device).view(dtype)
    check(lambda x: x.float(), codes)


def test_numbers_to_float8(fresh_compiler, device, dtype):
    """Ties, subnormal numbers, those beyond the largest, infinities and NaN."""
    decoded = torch.arange(256, dtype=torch.uint8).view(dtype).float()
    between = (decoded[:-1] + decoded[1:]) / 2
    x = torch.cat([decoded, between, torch.randn(300) * 100, torch.tensor([1e30, -1e30, torch.inf, -torch.inf, 0.0])])
    x = x.abs() if dtype == torch.float8_e8m0fnu else x
    check(lambda x: x.to(dtype), x.to(device))
    check(lambda x: (x.half().float() * 0.5).to(dtype), x.clamp(-6e4, 6e4).half().float().to(device))


def test_a_conversion_rounds_within_a_kernel(fresh_compiler, device, dtype):
    x = torch.rand(1000, device=device) + 0.5
    check(lambda x: x.to(dtype).float() + 1, x)


def test_values_are_moved(fresh_compiler, device, dtype):
    x = torch.randint(256, (33, 20), dtype=torch.uint8, device=device).view(dtype)
    check(lambda x: x.t().contiguous().float(), x)


def test_a_scaled_product(fresh_compiler, device):
    """Scales from the data, as float8 training has them."""
    dtype = torch.float8_e4m3fn

    def layer(x, w):
        scale = (x.abs().amax() / 448).float()
        quantized = (x / scale).clamp(-448, 448).to(dtype)
        return torch._scaled_mm(quantized, w.t(), scale_a=scale, scale_b=torch.ones((), device=x.device))

    x, w = torch.randn(32, 48, device=device), torch.randn(16, 48, device=device).to(dtype)
    result = torch.compile(layer, fullgraph=True)(x, w)
    expected = x.double().cpu() @ w.double().cpu().t()
    assert (
        (result.double().cpu() - expected).abs() <= 0.07 * (x.double().cpu().abs() @ w.double().cpu().abs().t())
    ).all()
