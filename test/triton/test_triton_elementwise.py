"""Kernels of Triton, element by element: loads, stores, arithmetic, casts, functions, loops, branches."""

import math

import pytest
import torch

triton = pytest.importorskip("triton", reason="triton is not installed")
import triton.language as tl  # noqa: E402
from triton.language.extra import libdevice  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*TRITON_DEFAULT_FP_FUSION")
FLOATS = [torch.float32, torch.float16, torch.bfloat16]
EPS = {torch.float32: 2.0**-23, torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7, torch.float64: 2.0**-52}


@triton.jit
def binary_kernel(o, x, y, n, OP: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    a = tl.load(x + at, mask=mask)
    b = tl.load(y + at, mask=mask, other=1)
    if OP == "add":
        c = a + b
    elif OP == "sub":
        c = a - b
    elif OP == "mul":
        c = a * b
    elif OP == "div":
        c = a / b
    elif OP == "floordiv":
        c = a // b
    elif OP == "mod":
        c = a % b
    elif OP == "max":
        c = tl.maximum(a, b)
    elif OP == "min":
        c = tl.minimum(a, b)
    elif OP == "and":
        c = a & b
    elif OP == "or":
        c = a | b
    elif OP == "xor":
        c = a ^ b
    elif OP == "shl":
        c = a << (b & 7)
    elif OP == "shr":
        c = a >> (b & 7)
    elif OP == "where":
        c = tl.where(a > b, a, b * 2)
    elif OP == "lt":
        c = (a < b).to(o.dtype.element_ty)
    elif OP == "ne":
        c = (a != b).to(o.dtype.element_ty)
    tl.store(o + at, c.to(o.dtype.element_ty), mask=mask)


REFERENCES = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "max": torch.maximum, "min": torch.minimum,
    "where": lambda a, b: torch.where(a > b, a, b * 2), "lt": lambda a, b: (a < b).to(a.dtype),
    "ne": lambda a, b: (a != b).to(a.dtype),
    "floordiv": lambda a, b: torch.div(a, b, rounding_mode="trunc"), "mod": torch.fmod,
    "and": torch.bitwise_and, "or": torch.bitwise_or, "xor": torch.bitwise_xor,
    "shl": lambda a, b: a << (b & 7), "shr": lambda a, b: a >> (b & 7),
}  # fmt: skip


def launch_binary(device, op, x, y, block=128):
    out = torch.full((len(x) + 9,), 77, dtype=x.dtype, device=device)
    binary_kernel[(triton.cdiv(len(x), block),)](out, x.to(device), y.to(device), len(x), OP=op, BLOCK=block)
    assert (out[len(x) :].cpu() == 77).all()  # neighbours
    return out[: len(x)].cpu()


@pytest.mark.parametrize("op", ["add", "sub", "mul", "div", "max", "min", "where", "lt", "ne"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_binary_floats(device, op, dtype):
    x, y = torch.randn(2, 1003).to(dtype)
    y = torch.where(y.abs() < 0.1, 0.5, y).to(dtype)
    expected = REFERENCES[op](x.double(), y.double())
    actual = launch_binary(device, op, x, y).double()
    # One rounding; a quotient in float32 has 2.5 units in the last place (Vulkan), and then the rounding of its dtype.
    bound = expected.abs() * EPS[dtype] * (0.5 if op != "div" else 1) + (op == "div") * 2.5 * 2.0**-23 * expected.abs()
    assert ((actual - expected).abs() <= bound + (dtype == torch.float16) * 2.0**-25).all()


@pytest.mark.parametrize(
    "op", ["add", "sub", "mul", "floordiv", "mod", "max", "min", "and", "or", "xor", "shl", "shr", "where", "lt"]
)
@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8])
def test_binary_integers(device, op, dtype):
    info = torch.iinfo(dtype)
    x = torch.randint(info.min, info.max, (517,), dtype=dtype)
    y = torch.randint(max(-50, info.min), 50, (517,), dtype=dtype)
    y = torch.where(y == 0, torch.ones_like(y), y)
    if op == "shl":
        x = x >> 1
    assert torch.equal(launch_binary(device, op, x, y, 64), REFERENCES[op](x, y))


@triton.jit
def cast_kernel(o, x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + at, tl.load(x + at, mask=at < n).to(o.dtype.element_ty), mask=at < n)


CASTS = [torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8,
         torch.bool, torch.float64, torch.float8_e4m3fn, torch.float8_e5m2]  # fmt: skip


@pytest.mark.parametrize("to", CASTS)
@pytest.mark.parametrize(
    "source", [torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int8, torch.bool, torch.float64]
)
def test_casts(device, source, to):
    x = (torch.randn(300) * 40).to(source)
    if to == torch.uint8 and source != torch.bool:
        x = x.abs()
    if "float8" in str(to) and (not source.is_floating_point or source == torch.float64):
        pytest.skip("Triton casts neither integers nor float64 to float8")
    out = torch.empty(300, dtype=to, device=device)
    cast_kernel[(3,)](out, x.to(device), 300, BLOCK=128)
    assert torch.equal(out.cpu().view(torch.uint8), x.to(to).view(torch.uint8))


@triton.jit
def unary_kernel(o, x, n, OP: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + at, mask=at < n, other=1.0)
    if OP == "exp":
        c = tl.exp(a)
    elif OP == "exp2":
        c = tl.exp2(a)
    elif OP == "log":
        c = tl.log(a * a)
    elif OP == "log2":
        c = tl.log2(a * a)
    elif OP == "sin":
        c = tl.sin(a)
    elif OP == "cos":
        c = tl.cos(a)
    elif OP == "sqrt":
        c = tl.sqrt(a * a)
    elif OP == "rsqrt":
        c = tl.rsqrt(a * a)
    elif OP == "erf":
        c = tl.erf(a)
    elif OP == "sigmoid":
        c = tl.sigmoid(a)
    elif OP == "floor":
        c = tl.floor(a)
    elif OP == "ceil":
        c = tl.ceil(a)
    elif OP == "abs":
        c = tl.abs(a)
    elif OP == "neg":
        c = -a
    elif OP == "fma":
        c = tl.fma(a, a, a)
    elif OP == "tanh":
        c = libdevice.tanh(a)
    elif OP == "log1p":
        c = libdevice.log1p(a * a)
    elif OP == "rint":
        c = libdevice.rint(a)
    elif OP == "isnan":
        c = libdevice.isnan(a).to(tl.float32)
    elif OP == "clamp":
        c = tl.clamp(a, -0.5, 0.5)
    tl.store(o + at, c, mask=at < n)


UNARY = {
    "exp": torch.exp, "exp2": torch.exp2, "log": lambda x: (x * x).log(), "log2": lambda x: (x * x).log2(),
    "sin": torch.sin, "cos": torch.cos, "sqrt": lambda x: (x * x).sqrt(), "rsqrt": lambda x: (x * x).rsqrt(),
    "erf": torch.erf, "sigmoid": torch.sigmoid, "floor": torch.floor, "ceil": torch.ceil, "abs": torch.abs,
    "neg": torch.neg, "fma": lambda x: x * x + x, "tanh": torch.tanh, "log1p": lambda x: (x * x).log1p(),
    "rint": torch.round, "isnan": lambda x: x.isnan().double(), "clamp": lambda x: x.clamp(-0.5, 0.5),
}  # fmt: skip


@pytest.mark.parametrize("op", UNARY)
def test_functions(device, op):
    x = torch.randn(600) * 3
    x = torch.where(x.abs() < 1e-2, 0.1, x)
    out = torch.empty(600, device=device)
    unary_kernel[(5,)](out, x.to(device), 600, OP=op, BLOCK=128)
    expected = UNARY[op](x.double())
    error = (out.cpu().double() - expected).abs()
    # exp in Vulkan: 3 + 2 |x| units in the last place. What squares x has the square's rounding besides, which log
    # turns into an absolute error. 16 units are more than any of the other functions has.
    bound = (16 + 2 * x.abs()) * EPS[torch.float32] * (expected.abs() + (op in ("log", "log2", "fma", "sin", "cos")))
    assert (error <= bound).all(), f"{(error / bound).max():.2f}"


@triton.jit
def control_kernel(o, x, n, m, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    if pid >= m:
        return
    at = pid * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n, other=0)
    before, now = v * 0, v * 0 + 1
    for i in range(0, pid + 2):
        before, now = now, before + now + i  # both change at once
    k = 0
    while k < pid:
        k += 1
        if k % 2 == 0:
            now += k
        else:
            now -= 2 * k
    if pid == 1:
        now = now * 2
    tl.store(o + at, now + before * 1000 + v, mask=at < n)


def test_loops_and_branches(device):
    n, block, m = 700, 128, 5
    x = torch.randint(-100, 100, (n,), dtype=torch.int32)
    out = torch.full((n,), -7, dtype=torch.int32, device=device)
    control_kernel[(6,)](out, x.to(device), n, m, BLOCK=block)
    expected = torch.full((n,), -7, dtype=torch.int32)
    for pid in range(m):
        before, now = 0, 1
        for i in range(pid + 2):
            before, now = now, before + now + i
        for k in range(1, pid + 1):
            now += k if k % 2 == 0 else -2 * k
        now *= 2 if pid == 1 else 1
        part = slice(pid * block, min(n, (pid + 1) * block))
        expected[part] = now + before * 1000 + x[part]
    assert torch.equal(out.cpu(), expected)


@triton.jit
def random_kernel(o, seed, n, KIND: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if KIND == 0:
        r = tl.rand(seed, at)
    elif KIND == 1:
        r = tl.randn(seed, at)
    else:
        r = tl.randint(seed, at)
    tl.store(o + at, r, mask=at < n)


def philox(seed, offsets):
    """The first of the four numbers of Philox 4x32-10 (Salmon et al., 2011) with the counter (offset, 0, 0, 0)."""
    c = [offsets.clone(), *(torch.zeros_like(offsets) for _ in range(3))]
    k0, k1, mask = seed & 0xFFFFFFFF, seed >> 32, 0xFFFFFFFF
    for _ in range(10):
        a, b = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57  # below 2^64: the sign bit is the product's
        high_a, high_b = [(p >> 32) & mask for p in (a, b)]
        c = [high_b ^ c[1] ^ k0, b & mask, high_a ^ c[3] ^ k1, a & mask]
        k0, k1 = (k0 + 0x9E3779B9) & mask, (k1 + 0xBB67AE85) & mask
    return c[0]


def test_random_numbers_are_philox(device):
    n = 1000
    integers = torch.empty(n, dtype=torch.int32, device=device)
    uniform, normal = torch.empty(2, n, device=device)
    seed = int(torch.randint(0, 2**31, ()))
    for kind, out in enumerate((uniform, normal, integers)):
        random_kernel[(8,)](out, seed, n, KIND=kind, BLOCK=128)
    expected = philox(seed, torch.arange(n)).to(torch.int32)
    assert torch.equal(integers.cpu(), expected)
    x = expected.long()
    x = torch.where(x < 0, -x - 1, x).float() * 4.6566126e-10
    assert (uniform.cpu() - x).abs().max() <= 2.0**-24
    assert normal.isfinite().all() and abs(normal.mean().item()) < 6 / math.sqrt(n)


@triton.jit
def pitched_kernel(o, x, rows, columns, so, sx0, sx1, BM: tl.constexpr, BN: tl.constexpr):
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    c = tl.program_id(1) * BN + tl.arange(0, BN)
    mask = (r[:, None] < rows) & (c[None, :] < columns)
    v = tl.load(x + r[:, None] * sx0 + c[None, :] * sx1, mask=mask, other=0)
    tl.store(o + r[:, None] * so + c[None, :], v * 2, mask=mask)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.int64, torch.bool])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("offset", [0, 1])
def test_strided_rows(device, dtype, transposed, offset):
    """Wide accesses where strides and addresses allow them, and single ones elsewhere."""
    rows, columns = (64, 96) if not offset else (37, 53)
    whole = (torch.randn(rows * columns + offset) * 30).to(dtype).to(device)
    x = whole[offset:].view(columns, rows).t() if transposed else whole[offset:].view(rows, columns)
    kind = torch.int32 if dtype == torch.bool else dtype
    out = torch.full((rows, columns + 16), 7, dtype=kind, device=device)
    pitched_kernel[(triton.cdiv(rows, 32), triton.cdiv(columns, 64))](
        out, x, rows, columns, out.stride(0), *x.stride(), BM=32, BN=64
    )
    expected = x.cpu().to(kind) * 2
    assert torch.equal(out[:, :columns].cpu(), expected) and (out[:, columns:].cpu() == 7).all()


def test_no_programs(device):
    out = torch.ones(4, device=device)
    cast_kernel[(0,)](out, out, 4, BLOCK=128)
    assert (out.cpu() == 1).all()


def test_more_programs_than_an_axis_of_the_device_has(device):
    n = 70_001
    x = torch.randint(0, 100, (n,), dtype=torch.int8)
    out = torch.zeros(n, dtype=torch.int32, device=device)
    cast_kernel[(n,)](out, x.to(device), n, BLOCK=1, num_warps=1)
    assert torch.equal(out.cpu(), x.int())


@triton.jit
def wide_order_kernel(o, x, C: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = (tl.load(x + at)).to(tl.int64)
    bound = tl.full((BLOCK,), C, tl.int64)
    r = (v < bound).to(tl.int32) + 2 * (v <= bound) + 4 * (v > bound) + 8 * (bound <= v)
    r += 16 * (tl.maximum(v, bound) == v) + 32 * (tl.minimum(bound, v) == v)
    tl.store(o + at, r)


@pytest.mark.parametrize("bound", [0, 16, -3, 2**31 - 1, 2**40, -(2**40)])
def test_sign_extended_numbers_beside_wide_constants(device, bound):
    x = torch.cat([torch.randint(-40, 40, (60,)), torch.randint(-(2**31), 2**31, (66,)), torch.tensor([16, -3])]).int()
    out = torch.full((128,), 99, dtype=torch.int32, device=device)
    wide_order_kernel[(1,)](out, x.to(device), C=bound, BLOCK=128)
    v = x.long()
    expected = (v < bound).int() + 2 * (v <= bound) + 4 * (v > bound) + 8 * (v >= bound)
    expected += 16 * (v >= bound) + 32 * (v <= bound)
    assert torch.equal(out.cpu(), expected.int())
