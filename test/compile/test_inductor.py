"""torch.compile with generated kernels: graphs against eager, each form of kernel, dtypes, shapes, checks, caches."""

import copy

import pytest
import sympy
import torch
import torch.nn.functional as F

import random_graphs
from helpers import assert_close, check_python, needs_shader_compiler

pytest.importorskip("torch._inductor.codegen.simd")
needs_shader_compiler()

from torch._inductor import metrics  # noqa: E402

from torch_aule.compile.codegen import facts  # noqa: E402

pytestmark = pytest.mark.usefixtures("fresh_compiler")
FLOATS = [torch.float32, torch.float16, torch.bfloat16, torch.float64]
TOLERANCE = {torch.float32: 2e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2, torch.float64: 1e-10}


@pytest.fixture(params=["own", "gpu"])
def forms(request):
    """The forms of this device and, if it is a software device, those of GPUs: rows by subgroups, tiles, registers."""
    if request.param == "gpu":
        if not facts.is_software(torch.device("aule", 0)):
            pytest.skip("its own forms are those of GPUs")
        request.getfixturevalue("as_gpu")
    return request.param


def compiled_like_eager(f, *args, tolerance=2e-5, dynamic=None, kernels=None):
    """Compiles `f`, compares it with eager, and counts the generated kernels: that they ran at all is part of it."""
    expected = f(*args)
    metrics.reset()
    actual = torch.compile(f, dynamic=dynamic, fullgraph=True)(*args)
    if kernels is not None:
        assert metrics.generated_kernel_count == kernels
    else:
        assert metrics.generated_kernel_count > 0
    flat, wanted = (torch.utils._pytree.tree_leaves(x) for x in (actual, expected))
    for a, e in zip(flat, wanted, strict=True):
        assert a.dtype == e.dtype and a.shape == e.shape and a.device == e.device and a.stride() == e.stride()
        assert_close(a, e.cpu(), rtol=tolerance, atol=tolerance)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(64, 256), (7, 33), (1,), (3, 0, 5)])
def test_chain_of_pointwise_operators(device, dtype, shape):
    x, y = (torch.randn(shape, dtype=torch.float64).to(dtype).to(device) for _ in range(2))
    f = lambda x, y: F.gelu(x * 2 + y) - torch.tanh(y).abs() * 0.5  # noqa: E731
    if 0 in shape:
        assert torch.compile(f)(x, y).shape == shape
        return
    compiled_like_eager(f, x, y, tolerance=TOLERANCE[dtype], kernels=1)


@pytest.mark.sampled(14)
@pytest.mark.parametrize("n", [1, 31, 32, 33, 256, 1023, 1024, 4097, 70000])
@pytest.mark.parametrize("rows", [1, 7])
def test_rows(device, forms, n, rows):
    x = torch.randn(rows, n, device=device)

    def f(x):
        return x.sum(-1), x.amax(-1), torch.softmax(x, -1), x.var(-1, unbiased=False), x.argmin(-1)

    compiled_like_eager(f, x, tolerance=1e-4)


@pytest.mark.parametrize("shape", [(33, 5), (5, 33), (1024, 7), (300, 257), (2, 64, 9), (70001, 3)])
def test_columns(device, forms, shape):
    x = torch.randn(shape, device=device)
    compiled_like_eager(lambda x: (x.sum(0), x.amax(0), x.argmax(0), torch.softmax(x, 0)), x, tolerance=1e-4)


def test_many_rows(device, forms):
    x = torch.randn(70001, 3, device=device)
    compiled_like_eager(lambda x: (x + 1).sum(-1) * 2, x)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8])
def test_integers(device, dtype):
    low = 0 if dtype == torch.uint8 else -100
    x = torch.randint(low, 100, (513,), dtype=dtype, device=device)
    y = torch.randint(1, 50, (513,), dtype=dtype, device=device)

    def f(x, y):
        return x * y + x, x // y, x % y, x & y, x | y, x ^ y, ~x, x > y, (x << 2), x >> 1, torch.maximum(x, y), -x

    compiled_like_eager(f, x, y, tolerance=0)
    compiled_like_eager(lambda x: (x.sum(), x.prod(), x.amax(), x.argmax()), x, tolerance=0)


def test_bool(device, forms):
    x, y = (torch.rand(1000, device=device) > 0.5 for _ in range(2))
    compiled_like_eager(lambda x, y: (x & y, x | ~y, x ^ y, x.any(), x.all(), x.sum(), torch.where(x, 1.0, 2.0)), x, y)


def test_nan_and_infinity(device, forms):
    values = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.5], device=device)
    x, y = torch.meshgrid(values, values, indexing="ij")

    def f(x, y):
        return (
            torch.maximum(x, y), torch.minimum(x, y), F.relu(x), x == y, x != y, x < y, x.isnan(), x.isinf(),
            torch.exp(x), torch.log(x), x.sign(), x.bool(), torch.clamp(x, -1, 1), x.amax(0), x.amin(1), x.sum(0),
            x.argmax(0), x.argmin(1), torch.floor_divide(x, y), torch.remainder(x, y), torch.fmod(x, y),
        )  # fmt: skip

    compiled_like_eager(f, x.contiguous(), y.contiguous())


@pytest.mark.parametrize("shape", [(33, 100), (64, 64), (3, 40, 50)])
def test_transposes(device, forms, shape):
    x = torch.randn(shape, device=device)
    y = torch.randn(*shape[:-2], shape[-1], shape[-2], device=device)
    compiled_like_eager(lambda x, y: (x.mT + y, (y * 2).mT.contiguous(), x * 3), x, y)


def test_views_slices_and_broadcasts(device, forms):
    x = torch.randn(40, 50, device=device)

    def f(x):
        return (
            x.t() + 1,
            x[3:, 1::2] * 2,
            x[:, :1] + x[:1],
            torch.cat([x, x.flip(1)], 1),
            F.pad(x, (1, 2, 3, 4)),
            x[::3],
        )

    compiled_like_eager(f, x)
    compiled_like_eager(lambda x: x * 2 + x.roll(1, 0), x[1:, 3:])  # begins at an unaligned address


def test_gathers_and_scatters(device):
    x = torch.randn(20, 30, device=device)
    i = torch.randint(-20, 20, (50,), device=device)
    compiled_like_eager(lambda x, i: x[i] * 2 + x[i, 3:4], x, i)
    j = torch.randint(0, 20, (64,), device=device)
    compiled_like_eager(lambda x, j: x.index_add(0, j, torch.ones(64, 30, device=x.device)), x, j, tolerance=1e-4)


def test_bad_index_is_reported(device):
    x = torch.randn(7, 4, device=device)
    f = torch.compile(lambda x, i: x[i] * 2)
    f(x, torch.tensor([1, 2], device=device))
    with pytest.raises(IndexError, match="index 9 is out of bounds for dimension with size 7"):
        f(x, torch.tensor([1, 9], device=device))
        torch.aule.synchronize()


def test_assertions_of_the_program(device):
    def f(x):
        torch._assert_async((x < 2).all(), "too big")
        return x * 2

    x = torch.rand(10, device=device)
    assert_close(torch.compile(f, fullgraph=True)(x), (x * 2).cpu())
    torch.aule.synchronize()
    with pytest.raises(RuntimeError, match="aule_.*assert"):
        torch.compile(f)(torch.full((10,), 3.0, device=device))
        torch.aule.synchronize()


def test_float64_between_float32(device):
    """No buffer has float64, the arithmetic does."""
    x, y = torch.randn(2, 100, device=device)
    compiled_like_eager(lambda x, y: torch.maximum(x.double() * 2, y.double()).tanh().float(), x, y, kernels=1)
    compiled_like_eager(lambda x, y: (x.double() * y).amax().float(), x, y)


def test_bits(device):
    x = torch.randn(100, device=device)
    f = lambda x: (x.view(torch.int32) + 1, x.half().view(torch.int16) * 2)  # noqa: E731
    compiled_like_eager(f, x, tolerance=0)
    if torch.torch_version.TorchVersion(torch.__version__) >= (2, 12):  # before, Inductor asks iinfo of bool
        compiled_like_eager(lambda x: (x > 0).view(torch.uint8) + 1, x, tolerance=0)


@pytest.mark.parametrize("shape", [(31, 1, 64), (64, 1, 128)])
def test_what_a_loop_stores_it_may_load_again(device, shape):
    def f(x, y):
        positive, largest = x.relu(), y.amax(2, keepdim=True)
        return positive, largest, y.mean(0, keepdim=True), largest - positive

    compiled_like_eager(f, torch.randn(shape, device=device), torch.randn(shape, device=device))


def test_mutation(device):
    def f(x, y):
        x.add_(y)
        y[2:4] = 7
        return x * 2

    x, y = torch.randn(10, 8, device=device), torch.randn(10, 8, device=device)
    a, b = x.clone(), y.clone()
    expected = f(a, b)
    actual = torch.compile(f)(x, y)
    for got, want in ((actual, expected), (x, a), (y, b)):
        assert_close(got, want.cpu())


def test_dynamic_shapes(device):
    def f(x):
        return torch.softmax(x * 2, -1).sum(0) + x[0], F.layer_norm(x, x.shape[-1:]), x.sum()

    g = torch.compile(f, dynamic=True)
    for n in (5, 17, 64, 300):
        x = torch.randn(n, n + 7, device=device)
        for a, e in zip(g(x), f(x)):
            assert_close(a, e.cpu(), rtol=1e-4, atol=1e-4)


def test_quotients_of_sizes(device):
    """Values that no buffer holds: a count of elements as a float, and one over it."""
    norm = torch.nn.BatchNorm2d(8, device=device)
    expected = copy.deepcopy(norm).cpu().double()

    def f(x):
        return norm(x), x * (x.shape[0] / x.shape[2]), x + x.shape[0] ** 0.5, x + (x.shape[0] * 3 // 2)

    compiled = torch.compile(f, dynamic=True)
    for n in (3, 4, 9):
        x = torch.randn(n, 8, n + 2, 5)
        wide, sizes = x.double(), (n / (n + 2), n**0.5, n * 3 // 2)
        reference = (expected(wide), wide * sizes[0], wide + sizes[1], wide + sizes[2])
        for a, e in zip(compiled(x.to(device)), reference):
            assert_close(a, e.float(), rtol=1e-5, atol=1e-5)
        assert_close(norm.running_var, expected.running_var.float(), rtol=1e-5, atol=1e-5)


def test_greater_of_a_real_and_a_size(device):
    """Group norm after a convolution with a stride: the count of its elements is the greater of 0.0 and an integer."""
    from torch_aule.compile.codegen.printer import GlslPrinter, is_real

    n = sympy.Symbol("s0", integer=True, positive=True)
    assert is_real(sympy.Max(sympy.Float(0), n - 5)) and not is_real(sympy.Max(0, n)) and is_real(n / 2)
    assert "0.0" in GlslPrinter().doprint(sympy.Max(sympy.Float(0), n - 5))


def test_scalars_of_the_cpu(device):
    x, s = torch.randn(10, device=device), torch.tensor(3.5)
    compiled_like_eager(lambda x, s: x * s + 1, x, s, kernels=1)
    compiled_like_eager(lambda x, n: x * n, x, torch.tensor(3))


class Block(torch.nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, n, d))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


def test_transformer_block_forward_and_backward(device):
    torch.manual_seed(0)
    model = Block().to(device)
    x = torch.randn(2, 17, 32, device=device, requires_grad=True)

    def gradients(f):
        model.zero_grad()
        x.grad = None
        y = f(x)
        y.square().mean().backward()
        return [y.detach(), x.grad, *(p.grad for p in model.parameters())]

    expected = [t.cpu() for t in gradients(model)]
    metrics.reset()
    actual = gradients(torch.compile(model, fullgraph=True))
    assert 0 < metrics.generated_kernel_count <= 24
    for a, e in zip(actual, expected, strict=True):
        assert_close(a, e, rtol=1e-4, atol=1e-6)


def test_dropout_is_random_and_keeps_the_mean(device):
    f = torch.compile(lambda x: F.dropout(x, 0.25))
    x = torch.ones(20000, device=device)
    a, b = f(x), f(x)
    assert not torch.equal(a, b)
    for y in (a, b):
        assert abs((y == 0).float().mean().item() - 0.25) < 0.02
        assert y.unique().tolist() == pytest.approx([0.0, 1 / 0.75])


def test_index_over_several_dimensions_is_the_logical_one(device):
    x = torch.randn(3, 4, 5, device=device)
    compiled_like_eager(lambda x: ((x.permute(2, 0, 1) * 2).argmax(), x.argmin()), x)


def test_pool_with_indices(device):
    x = torch.randn(2, 3, 9, 9, device=device)
    compiled_like_eager(lambda x: [t + 1 for t in F.max_pool2d(x, 3, 2, 1, return_indices=True)], x)


def test_importing_torch_aule_imports_no_compiler():
    text = check_python(
        """
import sys, torch, torch_aule
print([m for m in ("torch._inductor", "torch._dynamo") if m in sys.modules])
""",
        fresh=True,
    )
    assert text.strip() == "[]"


def test_second_process_takes_kernels_from_the_caches(tmp_path):
    program = """
import torch, torch_aule
from torch._dynamo.utils import counters
f = torch.compile(lambda x: torch.softmax(x * 2, -1))
x = torch.randn(4, 100, device="aule")
torch.testing.assert_close(f(x), torch.softmax(x * 2, -1))
print(counters["inductor"]["fxgraph_cache_hit"], counters["inductor"]["fxgraph_cache_miss"])
"""
    environment = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path), "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "0"}
    assert check_python(program, **environment).strip() == "0 1"
    assert check_python(program, **environment).strip() == "1 0"


@pytest.mark.parametrize("seed", range(7000, 7006))
def test_random_graphs(device, seed):
    assert random_graphs.check(seed) == ""


def test_random_states_break_the_graph(device):
    def f(x):
        with torch.random.fork_rng(device_type="aule"):
            torch.manual_seed(3)
            y = x.clone().exponential_()
        return y * 2

    x = torch.ones(100, device=device)
    assert_close(torch.compile(f)(x), f(x).cpu())
    g = torch.compile(lambda x, state: (torch.aule.set_rng_state(state), torch.rand_like(x))[1], backend="aot_eager")
    state = torch.aule.get_rng_state()
    assert_close(g(x, state), g(x, state).cpu())
