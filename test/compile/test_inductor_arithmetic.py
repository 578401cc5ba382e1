"""Cheaper arithmetic of kernels whose results have 16 bits, as GPUs get it."""

import math

import pytest
import torch
import torch.nn.functional as F

from helpers import assert_close, needs_shader_compiler

pytest.importorskip("torch._inductor.codegen.simd")
needs_shader_compiler()

from torch._inductor.utils import run_and_get_code  # noqa: E402

from torch_aule.compile.codegen.arithmetic import simplified  # noqa: E402
from torch_aule.compile.codegen.statements import Access, Body, Statement  # noqa: E402

pytestmark = pytest.mark.usefixtures("as_gpu", "fresh_compiler")
# Half a step of the dtype, and a little for what the function loses.
TOLERANCE = {torch.float16: 2.0**-11 + 2e-4, torch.bfloat16: 2.0**-8 + 2e-4}


def compiled(function, *inputs):
    result, codes = run_and_get_code(torch.compile(function, fullgraph=True), *inputs)
    return result, "".join(codes)


def wide(x):
    return x.cpu().double()


@pytest.mark.sampled(6)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    "function, text",
    [
        (lambda x: torch.softmax(x, -1), "coarse_exp("),
        (lambda x: F.gelu(x), "coarse_one_plus_erf("),
        (lambda x: F.gelu(x, approximate="tanh"), "coarse_one_plus_tanh("),
        (lambda x: F.silu(x), "coarse_exp("),
        (lambda x: torch.sigmoid(x), "coarse_"),
        (lambda x: x / x.abs().amax(-1, keepdim=True), "divisor_inverse("),
    ],
    ids=["softmax", "gelu", "gelu_tanh", "silu", "sigmoid", "largest"],
)
def test_each_result_is_right_to_its_last_bit_or_so(device, dtype, function, text):
    """Relative to itself, not to the largest: down to -5, where 1 + erf(x / sqrt(2)) is 6e-7."""
    x = torch.cat([torch.linspace(-5, 5, 4000), torch.randn(96) * 1e-3]).view(4, 1024).to(dtype)
    result, code = compiled(function, x.to(device))
    assert text in code
    expected = function(wide(x))
    tiny = torch.finfo(dtype).tiny
    error = (wide(result) - expected).abs() / expected.abs().clamp(min=16 * tiny)
    assert error.max() < TOLERANCE[dtype]


def test_float32_results_keep_exact_forms(device):
    x = torch.randn(8, 256).bfloat16()

    def both(x):
        e = torch.exp(x.float())
        return e.bfloat16(), e, torch.softmax(x.float(), -1)

    (low, high, rows), code = compiled(both, x.to(device))
    assert "coarse_" not in code.replace("coarse_exp(float", "")
    assert "divisor_" not in code.replace("float divisor_", "")
    assert_close(high, torch.exp(wide(x)).float(), rtol=5e-7, atol=0)
    assert_close(rows, torch.softmax(wide(x), -1).float(), rtol=1e-6, atol=0)
    assert_close(low.float(), torch.exp(wide(x)).float(), rtol=2**-8, atol=0)


def test_divisors_of_all_sizes(device):
    """0, subnormal, small, large and infinite divisors, each the result of a row's reduction: it has one reciprocal."""
    divisors = torch.tensor([0.0, -0.0, 1e-40, -1e-39, 1e-38, 3.0, 1e38, -3e38, math.inf, -math.inf, math.nan])
    x = torch.tensor([0.0, 1.0, -2.5, 1e-39, 3e38, math.inf, -math.inf, math.nan] * 32).repeat(len(divisors), 1)
    y = divisors[:, None].expand_as(x).contiguous()
    result, code = compiled(lambda x, y: (x / y.amax(-1, keepdim=True)).bfloat16(), x.to(device), y.to(device))
    assert "divisor_inverse(" in code
    expected = x.double() / y.double()
    same = torch.isclose(wide(result), expected.bfloat16().double(), rtol=2**-7, atol=1.2e-38, equal_nan=True)
    flushed = (x.abs() == 1e-39) | ((y.abs() < 1.1e-38) & (y != 0))  # drivers may take subnormal numbers for 0
    assert (same | flushed).all()


@pytest.mark.parametrize("n", [64, 4096])
def test_rows_divided_by_their_own_extremes(device, n):
    """The divisor of a row is a reduction's result, so that it has one reciprocal."""
    scales = torch.tensor([1e-37, 1e-30, 1.0, 1e30, 2e38])
    x = (torch.rand(len(scales), n) + 0.5) * scales[:, None]
    x[1, 3] = math.nan
    result, code = compiled(lambda x: (x / x.amax(-1, keepdim=True)).bfloat16(), x.to(device))
    assert "divisor_inverse(" in code
    expected = x.double() / x.double().amax(-1, keepdim=True)
    assert_close(result.float(), expected.bfloat16().float(), rtol=2**-7, atol=0)


def test_nan_of_every_kind_is_stored(device):
    """NaN whose bits a rounding step would carry into infinity, 0 or the sign, beside numbers in one vector."""
    bits = torch.tensor([0x7FFFFFFF, -1, 0x7F800001, -0x7FFFFF, 0x7FC00000, 0x7F800000, 0x7F7FFFFF, 0x3F808000])
    x = bits.to(torch.int32).view(torch.float32).repeat(64)
    x[8:16] = torch.arange(8.0)
    result, _ = compiled(lambda x: x.bfloat16(), x.to(device))
    expected = x.bfloat16()
    assert torch.equal(result.cpu().isnan(), expected.isnan())
    assert torch.equal(result.cpu().nan_to_num(9.0), expected.nan_to_num(9.0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("n", [96, 4096, 20000])
def test_extremes_with_nan_and_infinities(device, dtype, n):
    x = torch.randn(8, n).to(dtype)
    x[1, 5] = math.nan
    x[2, :] = -math.inf
    x[3, n - 1] = math.nan
    x[4, 0], x[4, 1] = math.inf, -math.inf
    x[5, :] = math.inf
    x[6, 7], x[6, 8] = math.inf, math.nan
    result, _ = compiled(lambda x: (x.amax(-1), x.amin(-1), torch.maximum(x, -x)), x.to(device))
    for found, expected in zip(result, (x.amax(-1), x.amin(-1), torch.maximum(x, -x)), strict=True):
        assert_close(found.cpu(), expected, rtol=0, atol=0)


def test_scaled_softmax_is_one_maximum(device):
    """Inductor's own pattern would take the maximum of x and of scale x."""
    x = torch.randn(4, 512).bfloat16()
    result, code = compiled(lambda x: torch.softmax(x * 0.5, -1), x.to(device))
    assert code.count("acc0 = max_(acc0, acc0_other)") > 0
    assert "acc1 = max_" not in code
    assert_close(result.float(), torch.softmax(wide(x) * 0.5, -1).float(), rtol=2**-7, atol=1e-6)


def _store(text: str, dtype: torch.dtype, index: str = "r0_0") -> Statement:
    return Statement(text, store=Access("buf0", "out_ptr0", None, index, dtype))


def _texts(*statements: Statement) -> list[str]:
    body = Body()
    body.element_names.add("r0_0")
    for s in statements:
        body.add(s)
    return [s.text for s in simplified(body.statements)]


def test_what_else_uses_a_value_keeps_it_exact():
    load = Statement("load(r0_0)", "tmp0", torch.float32)
    exp = Statement("quick_exp(tmp0)", "tmp1", torch.float32)
    assert _texts(load, exp, _store("tmp1", torch.bfloat16))[1] == "coarse_exp(tmp0)"
    assert _texts(load, exp, _store("tmp1", torch.bfloat16), _store("tmp1", torch.float32))[1] == "quick_exp(tmp0)"
    position = Statement("int(tmp1)", "tmp2", torch.int32)
    assert _texts(load, exp, position, _store("tmp0", torch.bfloat16, "tmp2"))[1] == "quick_exp(tmp0)"
    guarded = Statement("5.0", "tmp3", torch.float32, mask="tmp2", other="0.0")
    assert _texts(load, exp, position, guarded, _store("tmp3", torch.bfloat16))[1] == "quick_exp(tmp0)"
