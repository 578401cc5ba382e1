"""aule::linear_bias_act and _addmm_activation: products with their epilogue, against float64."""

import math

import pytest
import torch
import torch.nn.functional as F

import torch_aule
from helpers import FLOATS, check_program, does_without, random_tensor, without

linear_bias_act = torch.ops.aule.linear_bias_act
ACTIVATIONS = {
    "none": lambda x: x,
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
}
# One rounding to the dtype.
EPS = {torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
# Software devices apply the epilogue by kernels of its own, so that what they pass on is rounded too.
ON_CPU = torch_aule._C.device_properties(0)["kind"] == "cpu"
FUSED = does_without("subgroup_shuffle") or not ON_CPU
# m, k, n: square tiles, odd ones, few rows with and without aligned loads, k that is cut, one sum.
SIZES = [(64, 64, 64), (37, 19, 45), (1, 64, 128), (3, 7, 5), (32, 2048, 40), (6, 128, 72), (1, 1, 1), (130, 72, 136)]
CASES = [(dtype, activation) for dtype in FLOATS for activation in ACTIVATIONS]
if FUSED and ON_CPU:  # which compiles each kernel with each activation anew, for seconds
    SIZES = SIZES[:5]
    CASES = [(torch.float32, "gelu"), (torch.float16, "gelu_tanh")]


def expected(x, weight, bias, activation, residual):
    """The result in float64, and how far a correct one may lie from it."""
    dtype = x.dtype
    x, weight, bias, residual = (t if t is None else t.double() for t in (x, weight, bias, residual))
    sums, sizes = x @ weight.mT, x.abs() @ weight.abs().mT
    if bias is not None:
        sums, sizes = sums + bias, sizes + bias.abs()
    active = ACTIVATIONS[activation](sums)
    result = active if residual is None else active + residual
    # Sums are float32; no activation is steeper than 1.13, and float32's exp is good to some 3e-7.
    tolerance = 1.2 * 2e-6 * sizes + 2e-6 * sums.abs() + 1.01 * EPS[dtype] * result.abs() + 1e-7
    if not FUSED:
        tolerance = tolerance + 1.2 * EPS[dtype] * (sums.abs() + active.abs())
    return result, tolerance


def check(x, weight, bias, activation, residual, function=linear_bias_act):
    """Runs `function` on the device with operands that lie there as they do here."""
    result, tolerance = expected(x, weight, bias, activation, residual)
    on = [t if t is None else torch.empty_strided(t.size(), t.stride(), dtype=t.dtype, device="aule").copy_(t)
          for t in (x, weight, bias, residual)]  # fmt: skip
    actual = function(on[0], on[1], on[2], activation, on[3])
    assert actual.dtype == x.dtype and actual.shape == result.shape and actual.is_contiguous()
    error = (actual.cpu().double() - result).abs()
    assert (error <= tolerance).all(), ((error - tolerance).max(), activation)


@pytest.mark.parametrize("dtype, activation", CASES)
def test_against_float64(dtype, activation):
    for i, (m, k, n) in enumerate(SIZES):
        x, w = random_tensor(m, k, dtype=dtype), random_tensor(n, k, dtype=dtype) / max(1, k) ** 0.5
        bias, residual = random_tensor(n, dtype=dtype), random_tensor(m, n, dtype=dtype)
        check(x, w, bias, activation, residual)
        if i < 1 or not FUSED:
            check(x, w, None if i % 2 else bias, activation, residual if i % 2 else None)


@pytest.mark.parametrize("dtype", sorted({dtype for dtype, _ in CASES}, key=str))
def test_layouts(dtype):
    x, w = random_tensor(3, 5, 24, dtype=dtype), random_tensor(24, 40, dtype=dtype).t()
    bias, residual = random_tensor(80, dtype=dtype)[::2], random_tensor(5, 3, 40, dtype=dtype).transpose(0, 1)
    check(x, w, bias, "gelu", residual)
    check(x.transpose(0, 1), w, bias, "silu", residual.transpose(0, 1))
    check(x[0, 0], w, bias, "relu", residual[0, 0])
    # Neither operands nor residual start at multiples of 16 bytes.
    one_off = random_tensor(64 * 64 + 1, dtype=dtype)[1:].view(64, 64)
    check(one_off, random_tensor(64, 64, dtype=dtype), None, "gelu_tanh", one_off)


def test_large_tiles():
    """Where a GPU takes 128 x 128 tiles of float32, whole and ragged."""
    for m, n in ((1280, 1284), (1283, 1277))[FUSED and ON_CPU :]:
        x, w = random_tensor(m, 8), random_tensor(n, 8)
        check(x, w, random_tensor(n), "gelu", random_tensor(m, n))


def test_special_values():
    # Written out in float64: PyTorch 2.11 on a CPU with AVX-512 has NaN for an activation of infinity.
    limits = {
        "none": lambda x: x,
        "relu": lambda x: torch.where(x < 0, 0.0, x),
        "gelu": lambda x: 0.5 * x * torch.erfc(-x * 0.5**0.5),
        "gelu_tanh": lambda x: x * torch.sigmoid((8 / math.pi) ** 0.5 * (x + 0.044715 * x**3)),
        "silu": lambda x: x * torch.sigmoid(x),
    }
    x = torch.tensor([[float("nan")], [float("inf")], [-float("inf")], [-100.0], [100.0], [-0.0], [1e30], [-1e30]])
    assert limits.keys() == ACTIVATIONS.keys()
    for activation, function in limits.items():  # few rows: gemv.comp where it is fused
        actual = linear_bias_act(x.to("aule"), torch.ones(1, 1, device="aule"), None, activation).cpu()
        torch.testing.assert_close(actual, function(x.double()).float(), equal_nan=True, rtol=1e-6, atol=1e-30)


def test_nothing():
    w, bias = torch.randn(5, 3, device="aule"), torch.randn(5, device="aule")
    for shape in ((0, 3), (2, 0, 3)):
        out = linear_bias_act(torch.empty(shape, device="aule"), w, bias, "gelu")
        assert out.shape == (*shape[:-1], 5)
    # Sums over nothing: bias, activation and residual remain.
    check(torch.empty(4, 0), torch.empty(5, 0), torch.randn(5), "gelu", torch.randn(4, 5))
    check(torch.empty(4, 0), torch.empty(5, 0), None, "silu", None)
    assert linear_bias_act(torch.empty(4, 3, device="aule"), torch.empty(0, 3, device="aule"), None).shape == (4, 0)


def test_refused():
    x, w = torch.randn(4, 3, device="aule"), torch.randn(5, 3, device="aule")
    with pytest.raises(ValueError, match="expected activation to be one of"):
        linear_bias_act(x, w, None, "tanh")
    with pytest.raises(RuntimeError, match=r"residual to have the result's sizes \[4, 5\]"):
        linear_bias_act(x, w, None, "none", torch.randn(5, device="aule"))
    with pytest.raises(RuntimeError, match=r"weight to have sizes \[n, 3\]"):
        linear_bias_act(x, w.t(), None)
    with pytest.raises(RuntimeError, match=r"bias to have sizes \[5\]"):
        linear_bias_act(x, w, x[0])
    with pytest.raises(RuntimeError, match="weight to have x's dtype"):
        linear_bias_act(x, w.half(), None)
    with pytest.raises(RuntimeError, match="floating point"):
        linear_bias_act(x.int(), w.int(), None)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_gradients(activation):
    tensors = [torch.randn(s, dtype=torch.double) for s in ((2, 7, 9), (11, 9), (11,), (2, 7, 11))]
    grad = torch.randn(2, 7, 11, dtype=torch.double)
    wide = [t.clone().requires_grad_() for t in tensors]
    y = ACTIVATIONS[activation](F.linear(*wide[:3])) + wide[3]
    want = torch.autograd.grad(y, wide, grad, create_graph=True)
    want_second = torch.autograd.grad(want[0].sum(), wide[1])[0]
    ours = [t.float().to("aule").requires_grad_() for t in tensors]
    y = linear_bias_act(*ours[:3], activation, ours[3])
    got = torch.autograd.grad(y, ours, grad.float().to("aule"), create_graph=True)
    got_second = torch.autograd.grad(got[0].sum(), ours[1])[0]
    for a, e in zip((*got, got_second), (*want, want_second)):
        torch.testing.assert_close(a.cpu().double(), e, rtol=2e-5, atol=2e-5)
    with torch.no_grad():
        assert not linear_bias_act(*ours[:3], activation, ours[3]).requires_grad


def test_autocast_and_cpu():
    x, w, bias = torch.randn(8, 16), torch.randn(24, 16), torch.randn(24)
    on = [t.to("aule") for t in (x, w, bias)]
    with torch.autocast("aule", dtype=torch.bfloat16):
        y = linear_bias_act(*on, "gelu")
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(torch_aule.linear_bias_act(x, w, bias, "gelu"), F.gelu(F.linear(x, w, bias)))
    torch.testing.assert_close(y.cpu().float(), F.gelu(F.linear(x, w, bias)), rtol=3e-2, atol=6e-2)


def test_is_an_operator():
    """Schema, fake tensors, autograd and compilation, as torch.library checks them."""
    arguments = [torch.randn(s, device="aule") for s in ((4, 8), (6, 8), (6,))]
    torch.library.opcheck(linear_bias_act.default, (*arguments, "gelu", torch.randn(4, 6, device="aule")))
    for t in arguments:
        t.requires_grad_()
    # torch's own test_autograd_registration knows CPU, CUDA and XPU only.
    tests = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
    torch.library.opcheck(linear_bias_act.default, (*arguments, "silu"), test_utils=tests)


@pytest.mark.parametrize("dtype", FLOATS)
def test_addmm_activation(dtype):
    for m, k, n in SIZES[1:3]:
        x, w, c = random_tensor(m, k, dtype=dtype), random_tensor(n, k, dtype=dtype), random_tensor(n, dtype=dtype)
        for gelu in (False, True):

            def function(x, w, c, activation, residual, gelu=gelu):
                return torch._addmm_activation(c, x, w.t(), use_gelu=gelu)

            check(x, w, c, "gelu" if gelu else "relu", None, function)
    a, b, c = (torch.randn(8, 8) for _ in range(3))
    out = torch._addmm_activation(c.to("aule"), a.to("aule"), b.to("aule"), beta=0.5, alpha=2)
    torch.testing.assert_close(out.cpu(), F.relu(0.5 * c + 2 * a @ b), rtol=1e-5, atol=1e-5)


@pytest.mark.validated
def test_kernels_of_gpus():
    """All of this again with the kernels of GPUs, whose epilogue is in the product: one kernel and one rounding."""
    if FUSED:
        pytest.skip("this device takes them anyway")
    check_program(
        "matmul_linear_of_gpus",
        __file__,
        timeout=600,
        TORCH_AULE_STRICT="1",
        **without("subgroup_shuffle"),
    )
