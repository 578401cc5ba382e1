"""Every row of shaders/pointwise/*.def against the CPU, and the rules that all pointwise ops share."""

import math
import re

import pytest
import torch
import torch.nn.functional as F

from helpers import ALL_DTYPES, FLOATS, INTS, ROOT, assert_close, assert_close_to_cpu, layouts, random_tensor, to_device

pytestmark = pytest.mark.smoke

ROW = re.compile(r"^(?:UNARY|BINARY|TERNARY)_(\w+)\((\d+), (\w+), (\w+),", re.MULTILINE)


def rows(arity):
    """(kind, name, overloads) of a table."""
    text = (ROOT / "shaders" / "pointwise" / f"{arity}_ops.def").read_text()
    return [(kind, name, forms) for kind, _, name, forms in ROW.findall(text)]


def op(name):
    return getattr(torch.ops.aten, name)


# Where a function is defined, and where both sides are far from a pole.
DOMAIN = {
    "sqrt": (0.01, 9), "rsqrt": (0.01, 9), "log": (0.01, 9), "log2": (0.01, 9), "log10": (0.01, 9), "log1p": (-0.9, 9),
    "asin": (-1, 1), "acos": (-1, 1), "atanh": (-0.95, 0.95), "erfinv": (-0.95, 0.95), "acosh": (1.01, 9),
    "logit": (0.05, 0.95),
    "reciprocal": (0.2, 9), "lgamma": (0.1, 9), "digamma": (0.2, 9), "trigamma": (0.2, 9), "tan": (-1.4, 1.4),
    "special_entr": (0, 5),
}  # fmt: skip
UNARY = [(k, n, f) for k, n, f in rows("unary") if f != "HAND" and n != "conj_physical"]
OTHERWISE = ("trigamma", "digamma", "special_log_ndtr", "special_airy_ai")  # than the CPU's: test_special_functions.py
BINARY = [(k, n, f) for k, n, f in rows("binary") if f != "HAND"]


def test_table_size():
    names = [n for arity in ("unary", "binary", "ternary") for _, n, _ in rows(arity)]
    assert len(names) >= 150
    for arity in ("unary", "binary", "ternary"):
        ids = [i for _, i, _, _ in ROW.findall((ROOT / "shaders" / "pointwise" / f"{arity}_ops.def").read_text())]
        assert len(ids) == len(set(ids))


@pytest.mark.sampled(35)
@pytest.mark.parametrize("kind,name,forms", UNARY, ids=[n for _, n, _ in UNARY])
def test_unary_row(device, kind, name, forms):
    low, high = DOMAIN.get(name, (-5, 5))
    f = op(name)
    if kind == "INT":
        inputs = [random_tensor(3, 37, dtype=torch.int32), random_tensor(19, dtype=torch.int64)]
    else:
        inputs = [
            random_tensor(3, 37, low=low, high=high),
            random_tensor(1037, low=low, high=high, dtype=torch.bfloat16),
        ]
        if kind in ("ANY", "TEST"):
            inputs += [random_tensor(1030, dtype=torch.int32), random_tensor(19, dtype=torch.int64)]
    for x in inputs:
        if x.dtype == torch.bfloat16 and name in ("sinc",):
            continue
        assert_close_to_cpu(f, x)
    x = inputs[0]
    if "I" in forms:
        y, z = x.to(device), x.clone()
        getattr(torch.ops.aten, name + "_")(y)
        getattr(torch.ops.aten, name + "_")(z)
        assert_close(y, z)
    if "O" in forms:
        expected = f(x)
        out = torch.empty(0, dtype=expected.dtype, device=device)
        f.out(x.to(device), out=out)
        assert_close(out, expected)


SPECIAL = [
    math.inf,
    -math.inf,
    math.nan,
    0.0,
    -0.0,
    1.0,
    -1.0,
    1e30,
    -1e30,
    3e-5,
    2.0,
    -2.0,
    0.5,
    88.0,
    -88.0,
    1e5,
    -3e4,
    200.5,
]


@pytest.mark.parametrize("name", [n for k, n, f in UNARY if k != "INT" and n not in OTHERWISE])
def test_unary_special_values(device, name):
    assert_close_to_cpu(op(name), torch.tensor(SPECIAL), rtol=3e-5)


def binary_inputs(kind, name, dtype):
    if name in ("atan2", "hypot", "copysign", "xlogy"):
        return random_tensor(5, 33, low=0.1, high=4, dtype=dtype), random_tensor(5, 33, low=0.1, high=4, dtype=dtype)
    x, y = random_tensor(5, 33, dtype=dtype), random_tensor(5, 33, dtype=dtype)
    if name in ("remainder", "fmod", "div_floor"):
        y = torch.where(y == 0, torch.ones_like(y), y)
    if "shift" in name:
        y = y.abs()
    return x, y


@pytest.mark.sampled(24)
@pytest.mark.parametrize("kind,name,forms", BINARY, ids=[n for _, n, _ in BINARY])
def test_binary_row(device, kind, name, forms):
    f = op(name)
    dtypes = [torch.int32, torch.int64] if kind == "INT" else [torch.float32, torch.float16]
    if kind in ("ANY", "TEST") and not name.endswith("backward"):
        dtypes += [torch.int32, torch.int64]
    for dtype in dtypes:
        x, y = binary_inputs(kind, name, dtype)
        assert_close_to_cpu(f, x, y)
    x, y = binary_inputs(kind, name, dtypes[0])
    if name not in ("hardswish_backward", "mish_backward") and not name.endswith("backward"):
        assert_close_to_cpu(f, x.t(), y[:1].t())  # broadcast, transposed
        if "I" in forms:
            a, b = x.to(device), x.clone()
            in_place = getattr(torch.ops.aten, name + "_")
            in_place(a, y.to(device))
            in_place(b, y)
            assert_close(a, b)


@pytest.mark.sampled(15)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "maximum", "lt", "eq", "pow", "remainder"])
@pytest.mark.parametrize("a", [torch.float32, torch.float16, torch.int64, torch.uint8, torch.bool])
def test_promotion(device, name, a):
    f = getattr(torch, name)
    for b in [torch.float32, torch.bfloat16, torch.int32, torch.bool]:
        x, y = random_tensor(2, 17, dtype=a), random_tensor(17, dtype=b)
        if name == "remainder":
            y = torch.ones_like(y)
        if name == "pow":
            x, y = x.abs() if x.dtype != torch.bool else x, y.abs() if y.dtype != torch.bool else y
        try:
            expected = f(x, y)
        except RuntimeError:
            if name == "remainder":
                continue  # of bools: a CPU kernel is missing, the result here is fine
            with pytest.raises(RuntimeError):
                f(x.to(device), y.to(device))
            continue
        result = f(x.to(device), y.to(device))
        assert result.dtype == expected.dtype
        torch.testing.assert_close(result.cpu().float(), expected.float(), rtol=2e-2, atol=1e-2, equal_nan=True)


@pytest.mark.validated
@pytest.mark.parametrize("dtype", ALL_DTYPES)
def test_layouts(device, dtype):
    x, y = random_tensor(3, 4, 5, 6, dtype=dtype), random_tensor(3, 4, 5, 6, dtype=dtype)
    for _, a in layouts(x):
        for _, b in layouts(y):
            assert_close_to_cpu(torch.maximum, a, b)
    a = random_tensor(6, 5, 7, dtype=dtype)
    assert_close_to_cpu(lambda t: torch.logical_not(t.permute(2, 0, 1)[1::2]), a)


def test_many_dimensions(device):
    x = random_tensor(*[2] * 12).permute(11, 3, 5, 1, 0, 2, 4, 7, 6, 8, 10, 9)
    y = random_tensor(*[2] * 12)
    assert_close_to_cpu(torch.add, x, y)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (1023,), (1, 1, 5)])
def test_shapes(device, shape):
    x = random_tensor(*shape)
    assert_close_to_cpu(torch.exp, x)
    assert_close_to_cpu(torch.add, x, x)
    assert_close_to_cpu(lambda t: t * 2 + 1, x)


def test_scalars(device):
    x, i = random_tensor(7, 9), random_tensor(7, 9, dtype=torch.int32)
    for f in [
        lambda t: t + 1.5, lambda t: 2 - t, lambda t: t / 3, lambda t: 3 / (t + 20), lambda t: t**2, lambda t: 2**t,
        lambda t: t > 0, lambda t: t == 1, lambda t: t % 3, lambda t: t // 2, lambda t: -7 // (t + 20), lambda t: t - 1,
        lambda t: torch.add(t, t, alpha=2), lambda t: torch.sub(t, t, alpha=-3),
        lambda t: t * torch.tensor(2.0, dtype=torch.float64).to(t.device),
        lambda t: t + torch.tensor(3), lambda t: torch.tensor(3) - t,
    ]:  # fmt: skip
        assert_close_to_cpu(f, x)
        assert_close_to_cpu(f, i.abs())
    u = random_tensor(50, dtype=torch.uint8)
    assert_close_to_cpu(lambda t: t - 20, u)
    assert_close_to_cpu(lambda t: t > -1, u)


@pytest.mark.parametrize("mode", [None, "floor", "trunc"])
def test_division(device, mode):
    for dtype in [torch.float32, torch.int64, torch.int32, torch.int8, torch.uint8]:
        x, y = random_tensor(400, dtype=dtype), random_tensor(400, dtype=dtype)
        y = torch.where(y == 0, torch.ones_like(y), y)
        assert_close_to_cpu(lambda a, b: torch.div(a, b, rounding_mode=mode), x, y)
        assert_close_to_cpu(torch.remainder, x, y)
        assert_close_to_cpu(torch.fmod, x, y)
        assert_close_to_cpu(torch.floor_divide, x, y)
    x = torch.tensor([5.0, -5, 0, 0, math.inf, 7e30, -3.5, 1e20])
    y = torch.tensor([0.0, 0, 0, -2, 2, 3, 2, 3e-3])
    assert_close_to_cpu(lambda a, b: torch.div(a, b, rounding_mode=mode), x, y)
    assert_close_to_cpu(torch.fmod, x, y)


def test_division_by_the_largest_and_smallest(device):
    """Beyond 2^126 and below 2^-126 a device's own division need not be right."""
    ends = [2.0**126, 1.7e38, 3.4028235e38, 2.0**-126, 2.0**-127, 1e-38, 1e-40, 3e-45, 1e-45, math.inf, 0.0, math.nan]
    x, y = torch.meshgrid(torch.tensor([*ends, -1.7e38, -1e-40, 1.0, -2.5, 1e30]), torch.tensor(ends), indexing="ij")
    for function in (torch.div, torch.compile(torch.div, dynamic=False)):
        quotient = function(x.to(device), y.to(device)).cpu()
        expected = (x.double() / y.double()).float()
        if function is not torch.div:  # compiled code may flush a subnormal numerator above a usual divisor
            expected[(x.abs() < 2.0**-126) & (y >= 2.0**-126) & (quotient == 0)] = 0
        torch.testing.assert_close(quotient, expected, rtol=4e-7, atol=2.0**-126, equal_nan=True)
    inverse = y.to(device).reciprocal().cpu()
    torch.testing.assert_close(inverse, (1 / y.double()).float(), rtol=4e-7, atol=2.0**-126, equal_nan=True)


def test_power(device):
    x = random_tensor(3, 50, low=0.01, high=4)
    for e in [2, 3, 0.5, -0.5, -1, -2, 0, 1, 1.7, -3.3, 4]:
        assert_close_to_cpu(lambda t: t**e, x)
    assert_close_to_cpu(torch.pow, x, random_tensor(3, 50) * 4)
    assert_close_to_cpu(lambda t: torch.pow(2.5, t), x)
    a, b = torch.meshgrid(torch.tensor(SPECIAL + [3.0, -3.0]), torch.tensor(SPECIAL + [3.0, -3.0]), indexing="ij")
    assert_close_to_cpu(torch.pow, a.contiguous(), b.contiguous(), rtol=1e-4)
    i = random_tensor(60, dtype=torch.int32)
    assert_close_to_cpu(torch.pow, i, i.abs())
    assert_close_to_cpu(lambda t: t**3, i)
    with pytest.raises(RuntimeError, match="negative integer powers"):
        i.to(device) ** -1


def test_nan_propagates(device):
    x = torch.tensor([math.nan, 1.0, math.nan, -1.0, 0.0])
    y = torch.tensor([1.0, math.nan, math.nan, 2.0, -0.0])
    for f in [torch.maximum, torch.minimum, torch.fmax, torch.fmin]:
        assert_close_to_cpu(f, x, y)
    for f in [
        F.relu,
        F.relu6,
        lambda t: t.clamp(-1, 1),
        lambda t: t.clamp_min(0),
        lambda t: t.clamp(max=0),
        F.hardtanh,
        torch.sign,
    ]:
        assert_close_to_cpu(f, x)


def test_clamp(device):
    x, low, high = random_tensor(40), random_tensor(40) - 1, random_tensor(40) + 1
    assert_close_to_cpu(lambda t: t.clamp(-0.5, 0.5), x)
    assert_close_to_cpu(lambda t: t.clamp(min=0.1), x)
    assert_close_to_cpu(torch.clamp, x, low, high)
    assert_close_to_cpu(lambda t, m: t.clamp(min=m), x, low)
    assert_close_to_cpu(lambda t, m: t.clamp(max=m), x, high)
    assert_close_to_cpu(lambda t: t.clamp(-math.inf, 0.2), x)
    i = random_tensor(40, dtype=torch.int64)
    assert_close_to_cpu(lambda t: t.clamp(-3, 4), i)
    assert_close_to_cpu(lambda t: t.clamp(-3.5, 4.5), i)
    y = x.to(device)
    y.clamp_(-0.1, 0.1)
    assert_close(y, x.clamp(-0.1, 0.1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.bool])
def test_where_and_masked_fill(device, dtype):
    x, y, mask = (
        random_tensor(9, 11, dtype=dtype),
        random_tensor(11, dtype=dtype),
        random_tensor(9, 1, dtype=torch.bool),
    )
    assert_close_to_cpu(torch.where, mask, x, y)
    assert_close_to_cpu(lambda m, a: torch.where(m, a, 1), mask, x)
    assert_close_to_cpu(lambda m, a: a.masked_fill(m, 1), mask, x)
    a, b = x.to(device), x.clone()
    a.t().masked_fill_(mask.to(device).t(), 0)
    b.t().masked_fill_(mask.t(), 0)
    assert_close(a, b)
    a.masked_fill_(mask.to(device), torch.ones((), dtype=dtype, device=device))
    assert_close(a, b.masked_fill_(mask, torch.ones((), dtype=dtype)))


ACTIVATIONS = {
    "relu": F.relu, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu,
    "sigmoid": torch.sigmoid, "tanh": torch.tanh,
    "hardtanh": F.hardtanh, "relu6": F.relu6, "hardswish": F.hardswish, "hardsigmoid": F.hardsigmoid,
    "leaky_relu": F.leaky_relu, "elu": F.elu,
    "celu": lambda x: F.celu(x, 0.7), "selu": F.selu, "softplus": lambda x: F.softplus(x, 1.5, 3), "mish": F.mish,
    "logsigmoid": F.logsigmoid,
    "hardshrink": F.hardshrink, "softshrink": F.softshrink, "threshold": lambda x: F.threshold(x, 0.1, 20),
    "tanhshrink": F.tanhshrink, "softsign": F.softsign,
    "glu": lambda x: F.glu(x, 0), "logit": lambda x: torch.logit(torch.sigmoid(x), 0.1), "rrelu": F.rrelu,
    "sqrt": lambda x: (x * x + 1).sqrt(),
    "prelu": lambda x: F.prelu(x, torch.full((1,), 0.2, device=x.device, dtype=x.dtype)), "square": torch.square,
    "lerp": lambda x: torch.lerp(x, 2 * x, 0.3),
    "addcmul": lambda x: torch.addcmul(x, x, x, value=0.5),
    "addcdiv": lambda x: torch.addcdiv(x, x, x * x + 1, value=0.5),
}  # fmt: skip


@pytest.mark.sampled(24)
@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_activation_and_gradient(device, name, dtype):
    f = ACTIVATIONS[name]
    x = random_tensor(6, 21, dtype=dtype) * 2
    g = random_tensor(3 if name == "glu" else 6, 21, dtype=dtype)
    a = x.to(device).requires_grad_()
    b = x.float().requires_grad_()
    y, z = f(a), f(b)
    assert_close(y, z.to(dtype))
    y.backward(g.to(device))
    z.backward(g.float())
    tight = {} if dtype == torch.float32 else {"rtol": 4e-2, "atol": 4e-2}
    assert_close(a.grad, b.grad.to(dtype), **tight)


LOSSES = {
    "mse": F.mse_loss, "smooth_l1": lambda x, y, reduction: F.smooth_l1_loss(x, y, reduction=reduction, beta=0.7),
    "huber": lambda x, y, reduction: F.huber_loss(x, y, reduction=reduction, delta=0.6), "l1": F.l1_loss,
    "bce": lambda x, y, reduction: F.binary_cross_entropy(torch.sigmoid(x), torch.sigmoid(y), reduction=reduction),
    "bce_logits": lambda x, y, reduction: F.binary_cross_entropy_with_logits(x, torch.sigmoid(y), reduction=reduction),
    "soft_margin": lambda x, y, reduction: F.soft_margin_loss(x, torch.sign(y), reduction=reduction),
    "kl": lambda x, y, reduction: F.kl_div(F.logsigmoid(x), torch.sigmoid(y), reduction=reduction),
}  # fmt: skip


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_loss(device, name, reduction):
    x, y = random_tensor(5, 13), random_tensor(5, 13)
    a, b = x.to(device).requires_grad_(), x.clone().requires_grad_()
    u, v = LOSSES[name](a, y.to(device), reduction=reduction), LOSSES[name](b, y, reduction=reduction)
    assert_close(u, v)
    u.sum().backward()
    v.sum().backward()
    assert_close(a.grad, b.grad)


def test_integers(device):
    for dtype in INTS:
        x, y = random_tensor(300, dtype=dtype), random_tensor(300, dtype=dtype)
        for f in [torch.gcd, torch.lcm, torch.bitwise_and, torch.bitwise_or, torch.bitwise_xor]:
            assert_close_to_cpu(f, x, y)
        assert_close_to_cpu(torch.bitwise_not, x)
        assert_close_to_cpu(lambda t: t << 2, x)
        assert_close_to_cpu(lambda t: t >> 1, x)
    big = torch.tensor([2**62, -(2**62), 2**53 + 1, -1, 0, 7])
    assert_close_to_cpu(lambda t: t + 1, big)
    assert_close_to_cpu(lambda t: t // 3, big)
    assert_close_to_cpu(lambda t: t * 3, big)
    assert_close_to_cpu(torch.bitwise_not, random_tensor(9, dtype=torch.bool))


@pytest.mark.validated
def test_other_arguments(device):
    x = random_tensor(4, 31)
    s = torch.tensor(SPECIAL)
    assert_close_to_cpu(lambda t: torch.nan_to_num(t), s)
    assert_close_to_cpu(lambda t: torch.nan_to_num(t, 1.0, 2.0, -3.0), s)
    assert_close_to_cpu(lambda t: torch.round(t, decimals=2), x)
    assert_close_to_cpu(lambda t: torch.round(t * 1e3, decimals=-2), x)
    assert_close_to_cpu(torch.angle, x)
    assert_close_to_cpu(torch.isclose, x, x + 1e-9)
    assert_close_to_cpu(torch.isfinite, s)
    assert_close_to_cpu(lambda t: torch.polygamma(1, t), x.abs() + 0.3)
    assert_close_to_cpu(torch.xlogy, x.abs(), x.abs())
    assert_close_to_cpu(lambda t: torch.rsub(t, 2), x)
    assert_close_to_cpu(torch.lerp, x, x.flip(0), x.abs())
    assert_close_to_cpu(lambda t: torch.special.ndtr(t), x)
    y = x.to(device)
    y[1:].add_(1).mul_(2)
    assert_close(y[1:], (x[1:] + 1) * 2)


@pytest.mark.float64
def test_float64(device):
    x, y = random_tensor(5, 40, dtype=torch.float64), random_tensor(5, 40, dtype=torch.float64)
    for f in [torch.add, torch.sub, torch.mul, torch.div, torch.maximum, torch.lt, torch.remainder]:
        assert_close_to_cpu(f, x, y)
    for f in [
        torch.neg,
        torch.abs,
        torch.reciprocal,
        torch.floor,
        torch.relu,
        lambda t: t.abs().sqrt(),
        lambda t: t.float() + 1,
        lambda t: t + 1,
    ]:
        assert_close_to_cpu(f, x)
    # float64 that does not win the promotion
    assert_close_to_cpu(lambda a, b: a * b, x.float(), torch.tensor(3.0, dtype=torch.float64))


def test_errors(device):
    x = torch.ones(3, device=device)
    with pytest.raises(RuntimeError):
        x + torch.ones(4, device=device)
    with pytest.raises(RuntimeError):
        x + torch.ones(3)
    with pytest.raises(RuntimeError):
        torch.ones(3, dtype=torch.int32, device=device).add_(1.5)
    with pytest.raises((RuntimeError, NotImplementedError)):
        x & x
    with pytest.raises(RuntimeError):
        torch.ones(3, dtype=torch.bool, device=device) - torch.ones(3, dtype=torch.bool, device=device)
    with pytest.raises(RuntimeError):
        torch.ones(1, 3, device=device).expand(4, 3).add_(1)
    assert_close(x + 1, torch.full((3,), 2.0))


def test_float_rows_in_half(device):
    for dtype in FLOATS:
        x = random_tensor(500, dtype=dtype)
        assert_close_to_cpu(lambda t: torch.exp(t) + torch.sigmoid(t) * 2, x)
        tiny = torch.tensor([6e-8, 1e-7, 3e-5, 65504.0, 65519.0, -1e5, math.nan]).to(dtype)
        assert_close_to_cpu(lambda t: t * 1.0, tiny)
    x = torch.cat(
        [
            torch.randn(2000) * 10.0 ** torch.randint(-9, 6, (2000,)).float(),
            torch.tensor([65519.9, 65520.0, 2.0**-25, 2.0**-25 * 1.01]),
        ]
    )
    assert torch.equal(x.to(device).half().cpu().view(torch.int16), x.half().view(torch.int16))
    assert torch.equal(x.to(device).bfloat16().cpu().view(torch.int16), x.bfloat16().view(torch.int16))
    assert torch.equal(
        (x.to(device) * torch.ones(2, 1, device=device)).half()[1].cpu().view(torch.int16), x.half().view(torch.int16)
    )


def test_large_trigonometric_arguments(device):
    x = torch.cat([torch.randn(500) * 1e5, torch.randn(500) * 1e30, torch.tensor([3e38, 1e22])])
    a = to_device(x)
    for f in [torch.sin, torch.cos]:
        torch.testing.assert_close(f(a).cpu(), f(x.double()).float(), rtol=1e-5, atol=1e-6)


# Values that dtypes cannot hold: an operand is cast to the common dtype before it is computed with.
MIXED = {
    torch.uint8: [0, 1, 200, 255], torch.int8: [-128, -1, 3, 127], torch.int16: [-300, -1, 5, 2049],
    torch.int32: [-70000, -2, 7, 2049], torch.int64: [-(2**33) - 2, -1, 300, 4097],
    torch.bool: [True, False, True, True], torch.float16: [0.1, -2.5, 2048.0, 3.0],
    torch.bfloat16: [0.1, -2.5, 256.0, 3.0], torch.float32: [0.1, -2.5, 2049.0, 3.0],
}  # fmt: skip
# (dtype of the tensor, dtype of the other operand): one of them does not hold all values of the other.
MIXED_PAIRS = [
    (torch.uint8, torch.int32), (torch.uint8, torch.int8), (torch.int8, torch.uint8), (torch.int16, torch.int64),
    (torch.int32, torch.int64), (torch.float16, torch.int32), (torch.bfloat16, torch.int16), (torch.bool, torch.int64),
    (torch.float16, torch.float32), (torch.bfloat16, torch.float32), (torch.int32, torch.float16),
]  # fmt: skip
MIXED_OPS = [torch.sub, torch.maximum, torch.lt, torch.eq]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dtype, other", MIXED_PAIRS, ids=str)
def test_operands_are_cast_to_the_common_dtype(device, dtype, other):
    a, b = torch.tensor(MIXED[dtype], dtype=dtype), torch.tensor(MIXED[other], dtype=other)
    for op in MIXED_OPS:
        for y in (b, *b.unbind(), *([] if op is torch.maximum else b.tolist())):
            if op is torch.sub and torch.bool in (dtype, other):
                continue
            if op is torch.sub and dtype.itemsize == 2 and not isinstance(y, torch.Tensor):
                continue  # scalars keep float32's precision in 16-bit arithmetic, as on torch.cuda; the CPU rounds them
            expected = op(a, y)
            actual = op(a.to(device), y.clone().to(device) if isinstance(y, torch.Tensor) else y)
            assert actual.dtype == expected.dtype, (op.__name__, dtype, y)
            rtol = {torch.float16: 1e-3, torch.bfloat16: 8e-3, torch.float32: 1e-6}.get(expected.dtype, 0)
            assert torch.allclose(actual.cpu(), expected, rtol=rtol, atol=0), f"{op.__name__}({a}, {y}): {actual}"


def test_a_wider_out_gets_results_of_the_common_dtype(device):
    a, b = torch.tensor([200, 100, 7], dtype=torch.uint8), torch.tensor([100, 200, 250], dtype=torch.uint8)
    for function in (
        lambda x, y, out: torch.add(x, y, out=out),
        lambda x, y, out: torch.mul(x, y, out=out),
    ):
        expected = function(a, b, torch.empty(3, dtype=torch.int32))
        actual = function(a.to(device), b.to(device), torch.empty(3, dtype=torch.int32, device=device))
        assert torch.equal(actual.cpu(), expected)
