"""Graph patterns of torch.compile: epilogues of products, hand-written attention, softmax in one pass, lists."""

import functools
import re

import pytest
import torch
import torch.nn.functional as F

from helpers import assert_close, needs_shader_compiler

pytest.importorskip("torch._inductor.codegen.simd")
needs_shader_compiler()

from torch._dynamo.utils import counters  # noqa: E402
from torch._inductor import metrics  # noqa: E402
from torch._inductor.utils import run_and_get_code  # noqa: E402

from torch_aule.compile import config  # noqa: E402
from torch_aule.compile.codegen import facts  # noqa: E402

HALF = [torch.float16, torch.bfloat16]
FLOATS = [torch.float32, *HALF]
EPS = {torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
ACTIVATIONS = {
    "none": lambda x: x,
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": functools.partial(F.gelu, approximate="tanh"),
    "silu": F.silu,
}


@pytest.fixture(autouse=True)
def fresh(fresh_compiler):
    counters.clear()


def as_double(x):
    """Real numbers in float64 on the CPU; indices stay what they are."""

    def convert(t):
        if not isinstance(t, torch.Tensor):
            return t
        t = t.detach().cpu()
        return t.double() if t.is_floating_point() else t

    return torch.utils._pytree.tree_map(convert, x)


def compiled(f, *args, kernels=None, dynamic=None):
    """The result of the compiled function and its module's text; counts generated kernels."""
    metrics.reset()
    result, texts = run_and_get_code(torch.compile(f, fullgraph=True, dynamic=dynamic), *args)
    if kernels is not None:
        assert metrics.generated_kernel_count == kernels
    return result, "\n".join(texts)


def calls(text: str) -> int:
    return text.count("torch.ops.aule.linear_bias_act.default(")


def close_to_float64(actual, f, *args, steps=4.0, scale=1.0):
    """`steps` roundings to the dtype away from what float64 gives, at most."""
    expected = f(*as_double(args))
    flat, wanted = (torch.utils._pytree.tree_leaves(x) for x in (actual, expected))
    for a, e in zip(flat, wanted, strict=True):
        tolerance = max(steps * EPS[a.dtype], 2e-6) * scale
        assert_close(a.double() if a.device.type == "cpu" else a.cpu().double(), e, rtol=tolerance, atol=tolerance)


def operands(dtype, rows, k, n, device):
    x = torch.randn(*rows, k, dtype=torch.float64)
    w = torch.randn(n, k, dtype=torch.float64) / k**0.5
    b, r = torch.randn(n, dtype=torch.float64), torch.randn(*rows, n, dtype=torch.float64)
    return [t.to(dtype).to(device) for t in (x, w, b, r)]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("activation", [name for name in ACTIVATIONS if name != "none"])
def test_linear_and_activation_are_one_call(device, as_gpu, dtype, activation):
    def f(x, w, b):
        return ACTIVATIONS[activation](F.linear(x, w, b))

    args = operands(dtype, (3, 7), 24, 40, device)[:3]
    result, text = compiled(f, *args, kernels=0)
    assert calls(text) == 1
    assert result.shape == (3, 7, 40) and result.dtype == dtype and result.is_contiguous()
    close_to_float64(result, f, *args)


@pytest.mark.sampled(7)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_residual_is_part_of_the_call(device, as_gpu, dtype, activation):
    def f(x, w, b, r):
        return r + ACTIVATIONS[activation](F.linear(x, w, b))

    args = operands(dtype, (2, 9), 16, 24, device)
    result, text = compiled(f, *args, kernels=0)
    assert calls(text) == 1
    close_to_float64(result, f, *args)


def test_forms_of_the_same_product(device, as_gpu):
    x, w, b, r = operands(torch.float32, (5,), 8, 16, device)
    wt = w.t().contiguous()
    forms = {
        "addmm": lambda: F.relu(torch.addmm(b, x, wt)),
        "mm and bias": lambda: F.gelu(b + x @ wt),
        "no bias": lambda: F.silu(x @ wt),
        "residual of three axes": lambda: F.linear(x.view(1, 5, 8), w) + r.view(1, 5, 16),
        "bias and residual": lambda: F.linear(x, w, b) + r,
        "view after the activation": lambda: F.relu(F.linear(x, w, b)).view(1, 5, 16) + r.view(1, 5, 16),
    }
    for name, f in forms.items():
        torch._dynamo.reset()
        result, text = compiled(f, kernels=0)
        assert calls(text) == 1, name
        assert_close(result, f().cpu(), rtol=1e-5, atol=1e-5)


def test_what_stays_apart(device, as_gpu):
    x, w, b, r = operands(torch.float32, (5,), 8, 16, device)
    forms = {
        "the sum is used again": lambda: (lambda y: (F.gelu(y), y * 2))(F.linear(x, w, b)),
        "the sum is a result": lambda: (lambda y: (F.gelu(y), y))(F.linear(x, w, b)),
        "alpha": lambda: F.relu(torch.addmm(b, x, w.t(), alpha=2)),
        "bias for each row": lambda: F.relu(torch.addmm(r[:, :1], x, w.t())),
        "another dtype": lambda: F.relu(F.linear(x, w).half()),
        "other activations": lambda: F.elu(F.linear(x, w, b)),
        "part of another kernel": lambda: F.silu(F.linear(x, w, b)) * r + 1,
        "float64": lambda: F.relu(x.double() @ w.double().t()),
    }
    for name, f in forms.items():
        torch._dynamo.reset()
        result, text = compiled(f)
        assert calls(text) == 0, name
        for a, e in zip(*(torch.utils._pytree.tree_leaves(t) for t in (result, f())), strict=True):
            assert_close(a, e.cpu(), rtol=1e-5, atol=1e-5)


def test_software_devices_keep_generated_kernels(device):
    if not facts.is_software(torch.device("aule", 0)):
        pytest.skip("its products have epilogues")
    x, w, b, _ = operands(torch.float32, (5,), 8, 16, device)
    assert calls(compiled(lambda: F.gelu(F.linear(x, w, b)), kernels=1)[1]) == 0


def test_epilogues_can_be_turned_off(device, as_gpu):
    x, w, b, _ = operands(torch.float32, (5,), 8, 16, device)
    with config.patch(epilogues=False):
        assert calls(compiled(lambda: F.gelu(F.linear(x, w, b)), kernels=1)[1]) == 0


def test_epilogues_of_dynamic_shapes(device, as_gpu):
    def f(x, w, b, r):
        return r + F.gelu(F.linear(x, w, b))

    g = torch.compile(f, dynamic=True, fullgraph=True)
    for rows in ((2, 9), (3, 5), (1, 30)):
        args = operands(torch.float32, rows, 16, 24, device)
        close_to_float64(g(*args), f, *args)
    assert counters["inductor"]["aule_epilogues"] >= 1


class Mlp(torch.nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(x)))


def test_inference_of_an_mlp_is_two_calls(device, as_gpu):
    model = Mlp()
    double = Mlp().double()
    double.load_state_dict(model.state_dict())
    x = torch.randn(2, 5, 16)
    model.to(device)
    with torch.no_grad():
        result, text = compiled(model, x.to(device), kernels=0)
    assert calls(text) == 2
    assert_close(result.cpu().double(), double(x.double()), rtol=1e-5, atol=1e-5)


def test_training_keeps_what_the_backward_needs(device, as_gpu):
    """The sums before the activation are saved: they cannot stay inside of the product. Gradients are the CPU's."""
    model = Mlp()
    double = Mlp().double()
    double.load_state_dict(model.state_dict())
    x = torch.randn(2, 5, 16)
    double(x.double()).square().sum().backward()
    model.to(device)
    result, text = compiled(model, x.to(device))
    result.square().sum().backward()
    assert calls(text) == 1  # down and the residual
    for a, e in zip(model.parameters(), double.parameters(), strict=True):
        assert_close(a.grad.cpu().double(), e.grad, rtol=1e-4, atol=1e-4)


def test_epilogues_under_autocast(device, as_gpu):
    model = Mlp().to(device)
    x = torch.randn(2, 5, 16, device=device)
    with torch.no_grad(), torch.autocast("aule", dtype=torch.bfloat16):
        result, text = compiled(model, x)
        assert calls(text) == 1  # the residual is float32
        assert_close(result, model(x).cpu(), rtol=3e-2, atol=3e-2)


def test_epilogue_is_not_computed_past_a_write(device, as_gpu):
    x, w, b, r = operands(torch.float32, (5,), 8, 16, device)

    def f(x, w, b, r):
        y = F.linear(x, w, b)
        x.add_(1)
        b.mul_(2)
        z = F.gelu(y) + r
        r.zero_()
        return z

    first, second = ([t.clone() for t in (x, w, b, r)] for _ in range(2))
    expected = f(*first)
    result, text = compiled(f, *second)
    assert_close(result, expected.cpu(), rtol=1e-5, atol=1e-5)
    for a, e in zip(second, first, strict=True):
        assert_close(a, e.cpu())


@pytest.fixture
def unsplit():
    """A workgroup or a subgroup for each row, few as they are."""
    with torch._inductor.config.patch(split_reductions=False):
        yield


def loads(text: str) -> int:
    return len(re.findall(r"load_words\(p\.", text))


def stores(text: str) -> int:
    return len(re.findall(r"store_words\(p\.", text))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("n", [8200, 8201, 12345])
def test_softmax_of_long_rows_reads_them_twice(device, as_gpu, unsplit, dtype, n):
    x = (torch.randn(5, n, dtype=torch.float64) * 5).to(dtype).to(device)
    for f in (lambda x: torch.softmax(x, -1), lambda x: torch.log_softmax(x.abs(), -1)):
        torch._dynamo.reset()
        result, text = compiled(f, x, kernels=1)
        assert (loads(text), stores(text)) == (2, 1)
        close_to_float64(result, f, x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_cross_entropy_reads_logits_once_each_way(device, as_gpu, unsplit, dtype):
    n = 9001
    x = torch.randn(16, n, dtype=torch.float64).to(dtype).to(device).requires_grad_()
    t = torch.randint(0, n, (16,), device=device)
    t[3] = -100

    def step(x, t):
        loss = torch.compile(F.cross_entropy, fullgraph=True)(x, t, reduction="sum")
        loss.backward()
        return loss

    loss, texts = run_and_get_code(step, x, t)
    forward, backward = (text.split("async_compile.wait")[0] for text in texts)
    assert forward.count("load_words(p.in_ptr0 + uint64_t(r0_1_base + 9001*x0)") == 1
    assert backward.count("_base + 9001*x0)") == 2 and stores(backward) == 1
    double = x.detach().cpu().double().requires_grad_()
    expected = F.cross_entropy(double, t.cpu(), reduction="sum")
    expected.backward()
    assert_close(loss.cpu().double(), expected, rtol=4 * EPS[dtype] + 1e-5, atol=0)
    assert_close(x.grad.cpu().double(), double.grad, rtol=8 * EPS[dtype] + 1e-5, atol=1e-6)


@pytest.mark.parametrize("form", ["whole", "split", "columns"])
def test_softmax_of_special_values(device, as_gpu, form):
    """-inf that comes first, rows of it alone, infinity, NaN, and numbers whose e^x overflows."""
    n = 9001 if form != "columns" else 300
    inf, nan = float("inf"), float("nan")
    x = torch.randn(8, n)
    x[0, : n // 2] = -inf
    x[1] = -inf
    x[2, 7] = inf
    x[3, n - 1] = nan
    x[4] = 1e38
    x[5] = -3.4e38
    x[6, 1::2] = 300
    x[7, 0] = -inf
    dim = -1
    if form == "columns":
        x, dim = x.t().contiguous(), 0

    def f(x):
        # The maximum is a result, too: that of the row, whatever comes first.
        top = x.amax(dim, keepdim=True)
        e = (x - top).exp()
        return e / e.sum(dim, keepdim=True), top

    with torch._inductor.config.patch(split_reductions=form == "split"):
        result, text = compiled(f, x.to(device))
    assert "prepare_softmax_online" in text
    for a, e in zip(result, f(x.double()), strict=True):
        assert_close(a.cpu().double(), e, rtol=1e-5, atol=1e-6)


def test_softmax_of_rows_whose_length_changes(device, as_gpu):
    def f(x):
        return torch.softmax(x, -1)

    g = torch.compile(f, dynamic=True, fullgraph=True)
    for n in (9001, 17, 300, 3):
        x = torch.randn(5, n, device=device)
        close_to_float64(g(x), f, x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("dynamic", [None, True])
def test_long_rows_that_begin_anywhere(device, as_gpu, unsplit, dtype, dynamic):
    base = torch.randn(7, 9003, dtype=torch.float64).to(dtype).to(device)
    x, y, z = base[:, :9001], torch.randn(7, 9001, device=device).to(dtype), torch.randn(9001, device=device)

    def f(x, y, z):
        w = x * 2 + y  # rows of x and y begin differently
        s = w.to(z.dtype).sum(-1, keepdim=True)
        y.add_(1)
        return (w / 4 - s / 9001 * z), s, y.amax(-1)

    a = y.clone()
    doubles = as_double((x, y, z))
    expected = f(*doubles)
    result, text = compiled(f, x, a, z, dynamic=dynamic)
    assert loads(text) > 0
    for got, want in zip((*result, a), (*expected, doubles[1]), strict=True):
        tolerance = 4 * EPS[got.dtype] + 2e-6
        assert_close(got.cpu().double(), want, rtol=tolerance, atol=tolerance + (1e-3 if got.dim() == 2 else 0))


def launches(text: str) -> int:
    return len(re.findall(r"^ +aule_\w+\(", text, re.MULTILINE))


SIZES = [(5,), (64,), (64,), (16, 24), (7, 9), (1,), (3000,), (2, 3, 4)]


def test_lists_of_tensors_are_one_launch(device):
    def f(xs, ys):
        a = torch._foreach_add(xs, ys, alpha=2.0)
        torch._foreach_mul_(a, 0.5)
        return torch._foreach_sqrt(torch._foreach_abs(a)), torch._foreach_maximum(xs, ys)

    args = [[torch.randn(size, device=device) for size in SIZES] for _ in range(2)]
    result, text = compiled(f, *args)
    assert launches(text) <= 2
    close_to_float64(result, f, *args)


def test_lists_of_several_dtypes_and_layouts(device, as_gpu):
    """Vectors of 8 and of 4 do not share a launch; a transposed tensor does."""
    xs = [torch.randn(32, 8, device=device).to(dtype) for dtype in (*FLOATS, torch.bfloat16, torch.float32)]
    xs += [torch.randn(8, 33, device=device).t(), torch.randn(0, 4, device=device), torch.randn((), device=device)]

    def f(xs):
        return torch._foreach_add(torch._foreach_mul(xs, 3.0), 1.0)

    result, text = compiled(f, xs)
    assert launches(text) <= 3
    assert [a.stride() for a in result] == [e.stride() for e in f(xs)]
    close_to_float64(result, f, xs)


def test_many_arguments_are_several_launches(device):
    xs = [torch.randn(i % 7 + 1, device=device) for i in range(150)]
    result, text = compiled(lambda xs: torch._foreach_mul(xs, 2.0), xs)
    assert launches(text) == 2
    for a, x in zip(result, xs, strict=True):
        assert_close(a, (x * 2).cpu())


def test_lists_whose_sizes_change(device):
    f = torch.compile(lambda xs: torch._foreach_add(torch._foreach_neg(xs), 1.0), dynamic=True)
    for n in (5, 8, 300):
        xs = [torch.randn(n, device=device), torch.randn(n + 1, 3, device=device), torch.randn(16, device=device)]
        for a, x in zip(f(xs), xs, strict=True):
            assert_close(a, (1 - x).cpu())


def test_lists_and_reductions(device):
    def f(xs):
        norms = torch._foreach_norm(xs)
        return torch._foreach_div(xs, torch.stack(norms).norm() + 1e-6)

    xs = [torch.randn(size, device=device) for size in SIZES]
    result, _ = compiled(f, xs)
    close_to_float64(result, f, xs)


@pytest.mark.parametrize(
    "optimizer, most",
    [
        (functools.partial(torch.optim.SGD, lr=0.1, momentum=0.9, weight_decay=0.01, foreach=True), 1),
        (functools.partial(torch.optim.AdamW, lr=0.1, foreach=True, capturable=True), 3),
    ],
)
def test_compiled_optimizers(device, optimizer, most):
    start = [torch.randn(size) for size in SIZES]
    gradients = [torch.randn(size) for size in SIZES]

    def trained(where, how):
        parameters = [torch.nn.Parameter(x.to(where, copy=True)) for x in start]
        o = optimizer(parameters)
        step = how(o.step)
        for scale in (1, -2, 3):
            for p, g in zip(parameters, gradients, strict=True):
                p.grad = (g * scale).to(where)
            (o.step if scale == 1 else step)()  # the first one makes the states
        return [p.detach().cpu() for p in parameters]

    texts = []

    def how(step):
        function = torch.compile(step)

        def run():
            texts.append(run_and_get_code(function)[1])

        return run

    expected = trained(device, lambda step: step)
    for a, e in zip(trained(device, how), expected, strict=True):
        assert_close(a, e, rtol=1e-5, atol=1e-5)
    counts = [launches(text) for step in texts for text in step]
    assert counts and 0 < max(counts) <= most, counts


def test_deterministic_algorithms_take_no_atomics(device):
    """Additions by index become calls that have a fixed order; turning the mode on compiles anew."""

    def f(x, i, v, w):
        y = x.index_add(0, i, v)
        z = x.scatter_add(0, i[:, None].expand_as(v), v * 2)
        (g,) = torch.autograd.grad(F.embedding(i, w).sin().sum(), w)
        return y, z, x.index_put((i,), v, accumulate=True), g

    x, v, i = torch.randn(20, 30), torch.randn(640, 30), torch.randint(0, 20, (640,))
    args = [x.to(device), i.to(device), v.to(device), torch.randn(20, 30, device=device, requires_grad=True)]
    function = torch.compile(f)
    _, texts = run_and_get_code(function, *args)
    assert any("AULE_ATOMIC_ADD" in text for text in texts)
    torch.use_deterministic_algorithms(True)
    try:
        first, texts = run_and_get_code(function, *args)
        assert texts and not any("AULE_ATOMIC_ADD" in text for text in texts)
        for _ in range(3):
            for a, b in zip(function(*args), first, strict=True):
                assert torch.equal(a, b)
    finally:
        torch.use_deterministic_algorithms(False)
    doubles = as_double(args)
    doubles[3].requires_grad_()
    for a, e in zip(first, f(*doubles), strict=True):
        assert_close(a.cpu().double(), e, rtol=1e-4, atol=1e-4)
