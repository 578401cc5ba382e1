"""Launches of Triton's kernels inside functions that torch.compile compiles whole."""

import random

import pytest
import torch
from torch._dynamo.utils import counters

triton = pytest.importorskip("triton", reason="triton is not installed")
import triton.language as L  # noqa: E402
import triton.language as tl  # noqa: E402
from torch._inductor.utils import run_and_get_code  # noqa: E402
from triton.language.extra import libdevice  # noqa: E402
from triton.tools.tensor_descriptor import TensorDescriptor  # noqa: E402

from helpers import check_program  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*TRITON_DEFAULT_FP_FUSION")

BACKENDS = ["eager", "aot_eager", "inductor"]
SHIFT: tl.constexpr = tl.constexpr(3)


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()


@triton.jit
def squared_ones(v):
    return v * v + SHIFT


@triton.jit
def scaled(o, x, n, scale, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + at, tl.load(x + at, mask=at < n) * scale, mask=at < n)


@triton.jit
def add_in_place(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)


@triton.jit
def many_kinds(o, x, y, n, KIND: tl.constexpr, dtype: tl.constexpr, twice: tl.constexpr, BLOCK: tl.constexpr = 128):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n).to(dtype)
    if y is not None:
        v += tl.load(y + at, mask=at < n).to(dtype)
    if KIND == "squared":
        v = squared_ones(v)
    if twice:
        v *= 2
    tl.store(o + at, v, mask=at < n)


@triton.jit(do_not_specialize=["n"])
def rounded(o, x, n, BLOCK: L.constexpr):
    at = L.program_id(0) * BLOCK + L.arange(0, BLOCK)
    L.store(o + at, libdevice.floor(L.load(x + at, mask=at < n)), mask=at < n)


def launch(kernel, *arguments, **constants):
    """A launch over the elements of the first argument."""
    n = arguments[0].numel()
    kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](*arguments, **constants)


def integers(n):
    return torch.randint(-50, 50, (n,)).float()


@pytest.mark.parametrize("grid", ["tuple", "function", "rank 2"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_one_graph(device, backend, grid):
    def doubled(x):
        o = torch.empty_like(x)
        n = x.numel()
        count = triton.cdiv(n, 128)
        grids = {"tuple": (count,), "function": lambda meta: (triton.cdiv(n, meta["BLOCK"]),), "rank 2": (count, 1)}
        scaled[grids[grid]](o, x.abs(), n, 2, BLOCK=128)
        return o + 1

    compiled = torch.compile(doubled, fullgraph=True, backend=backend)
    for n in (random.randrange(1, 100), random.randrange(100, 2000)):
        x = integers(n)
        assert torch.equal(compiled(x.to(device)).cpu(), 2 * x.abs() + 1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_inputs_views_and_order(device, backend):
    """What a launch writes in an input and in a view is there for the next, and for what comes after."""

    def work(x, y):
        launch(add_in_place, x, y, x.numel(), BLOCK=128)
        part = x[3:]
        launch(add_in_place, part, x[:-3].clone(), part.numel(), BLOCK=128)
        before = x.sum()
        launch(scaled, y, x, x.numel(), 3, BLOCK=64)
        launch(add_in_place, y, x, x.numel(), BLOCK=64)
        return before, y * 2

    n = random.randrange(10, 700)
    x, y = integers(n), integers(n)
    own_x, own_y = x.to(device), y.to(device)
    before, result = torch.compile(work, fullgraph=True, backend=backend)(own_x, own_y)
    x += y
    x[3:] += x[:-3].clone()
    assert torch.equal(own_x.cpu(), x) and before == x.sum()
    assert torch.equal(own_y.cpu(), 4 * x) and torch.equal(result.cpu(), 8 * x)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
def test_arguments(device, backend, dynamic):
    def work(x, y, kind, dtype, twice):
        first, second = (torch.empty(x.shape, dtype=torch.float32, device=x.device) for _ in range(2))
        launch(many_kinds, first, x, y, x.numel(), kind, dtype, twice=twice, BLOCK=64, num_warps=2)
        many_kinds[(triton.cdiv(x.numel(), 128),)](second, x, None, x.numel(), KIND="", dtype=dtype, twice=False)
        return first, second

    compiled = torch.compile(work, fullgraph=True, backend=backend, dynamic=dynamic)
    for kind, dtype, twice in (("squared", tl.float32, True), ("", tl.int32, False), ("squared", tl.int32, False)):
        n = random.randrange(2, 700)
        x, y = integers(n) / 2, integers(n) / 4
        first, second = compiled(x.to(device), y.to(device), kind, dtype, twice)
        if dtype == tl.int32:
            x, y = x.int(), y.int()
        expected = x + y
        expected = expected**2 + 3 if kind else expected
        assert torch.equal(first.cpu(), (2 * expected if twice else expected).float())
        assert torch.equal(second.cpu(), x.float())


def test_shapes_that_change_make_one_graph(device):
    from torch._dynamo.testing import CompileCounterWithBackend

    counted = CompileCounterWithBackend("inductor")

    def work(x):
        o = torch.empty_like(x)
        launch(scaled, o, x, x.numel(), x.shape[0] + 0.5, BLOCK=64)
        return o + x.shape[0]

    compiled = torch.compile(work, fullgraph=True, dynamic=True, backend=counted)
    for n in random.sample(range(2, 2000), 5):
        x = integers(n)
        assert torch.equal(compiled(x.to(device)).cpu(), x * (n + 0.5) + n)
    assert counted.frame_count == 1


def test_launches_without_work(device):
    def work(x):
        o = torch.zeros_like(x)
        scaled[(0,)](o, x, x.numel(), 2, BLOCK=64)
        return o + 1

    x = torch.ones(random.randrange(1, 300), device=device)
    assert (torch.compile(work, fullgraph=True)(x) == 1).all()


def test_two_kernels_of_one_source(device):
    """Their sources are the same; variables around them are not."""

    def made(value):
        ADDED = tl.constexpr(value)

        @triton.jit
        def added(o, x, n, BLOCK: tl.constexpr):
            at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            tl.store(o + at, tl.load(x + at, mask=at < n) + ADDED, mask=at < n)

        return added

    def work_of(kernel):
        def work(x):
            o = torch.empty_like(x)
            launch(kernel, o, x, x.numel(), BLOCK=64)
            return o * 2

        return work

    x = integers(random.randrange(10, 300))
    for value in (1, 5):
        result = torch.compile(work_of(made(value)), fullgraph=True)(x.to(device))
        assert torch.equal(result.cpu(), (x + value) * 2)


def test_a_kernel_from_its_source(device, monkeypatch):
    """As in a process whose Dynamo has not seen it."""
    from torch_aule.compile.doors import user_launch

    made = []
    monkeypatch.setattr(user_launch, "_live", lambda name, wanted: None)
    original = user_launch._from_source
    monkeypatch.setattr(user_launch, "_from_source", lambda *told: made.append(original(*told)) or made[-1])

    def work(x, y):
        o = torch.empty_like(x)
        launch(many_kinds, o, x, y, x.numel(), "squared", tl.float32, twice=False, BLOCK=64)
        launch(rounded, o, o, x.numel(), BLOCK=64)
        return o

    x, y = integers(random.randrange(2, 300)), integers(1) + 0.25
    y = y.expand(x.shape).contiguous()
    with torch._inductor.config.patch(force_disable_caches=True):
        result = torch.compile(work, fullgraph=True)(x.to(device), y.to(device))
    assert torch.equal(result.cpu(), torch.floor((x + y) ** 2 + 3))
    assert [kernel.fn.__name__ for kernel in made] == ["many_kinds", "rounded"]
    assert all(kernel not in (many_kinds, rounded) for kernel in made)


CONFIGS = [triton.Config({"BLOCK": 64}, num_warps=2), triton.Config({"BLOCK": 256}, num_warps=4)]


@triton.autotune(configs=CONFIGS, key=["n"], restore_value=["x"])
@triton.jit
def tuned_in_place(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)


@pytest.mark.parametrize(
    "setting", ["triton.autotune_at_compile_time", "epilogue_fusion_user_defined_triton_kernel", "combo_kernels"]
)
def test_settings_of_inductor(device, setting):
    if not hasattr(torch._inductor.config, setting.split(".")[0]):
        pytest.skip(f"this PyTorch has no {setting}")

    def work(x):
        o = torch.empty_like(x)
        scaled[(triton.cdiv(x.numel(), 64),)](o, x.abs(), x.numel(), 2, BLOCK=64)
        return o.sin().abs() * 0 + o + 1

    x = integers(random.randrange(2, 300))
    compiled = torch.compile(work, fullgraph=True, options={setting: True})
    assert torch.equal(compiled(x.to(device)).cpu(), 2 * x.abs() + 1)


@triton.jit
def copied_blocks(to, source, R: tl.constexpr, C: tl.constexpr):
    row, column = tl.program_id(0) * R, tl.program_id(1) * C
    to.store([row, column], source.load([row, column]) * 2)


@triton.jit
def copied_by_the_kernel(o, x, rows, columns, R: tl.constexpr, C: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [rows, columns], [columns, 1], [R, C])
    to = tl.make_tensor_descriptor(o, [rows, columns], [columns, 1], [R, C])
    row, column = tl.program_id(0) * R, tl.program_id(1) * C
    to.store([row, column], source.load([row, column]) * 2)


@pytest.mark.parametrize("backend", BACKENDS)
def test_descriptors(device, backend):
    def by_host(x):
        o = torch.empty_like(x)
        to, source = (TensorDescriptor.from_tensor(t, [8, 16]) for t in (o, x))
        copied_blocks[(triton.cdiv(x.shape[0], 8), triton.cdiv(x.shape[1], 16))](to, source, R=8, C=16)
        return o + 1

    def by_kernel(x):
        o = torch.empty_like(x)
        grid = (triton.cdiv(x.shape[0], 8), triton.cdiv(x.shape[1], 16))
        copied_by_the_kernel[grid](o, x, x.shape[0], x.shape[1], R=8, C=16)
        return o + 1

    x = integers(random.randrange(1, 30) * 4 * 20).reshape(20, -1)
    for work in (by_host, by_kernel):
        result = torch.compile(work, fullgraph=True, backend=backend)(x.to(device))
        assert torch.equal(result.cpu(), 2 * x + 1)


@torch.library.triton_op("aule_test::scaled_by", mutates_args={})
def scaled_by(x: torch.Tensor, scale: float) -> torch.Tensor:
    o = torch.empty_like(x)
    torch.library.wrap_triton(scaled)[(triton.cdiv(x.numel(), 64),)](o, x, x.numel(), scale, BLOCK=64)
    return o


scaled_by.register_autograd(
    lambda ctx, g: (scaled_by(g, ctx.scale), None),
    setup_context=lambda ctx, inputs, output: setattr(ctx, "scale", inputs[1]),
)


@pytest.mark.parametrize("backend", [None, *BACKENDS])
def test_an_operator_with_a_gradient(device, backend):
    def work(x):
        return (scaled_by(x * 2, 3.0).sin() * 5).sum()

    x = torch.randn(random.randrange(2, 500))
    own = x.to(device).requires_grad_()
    (torch.compile(work, fullgraph=True, backend=backend) if backend else work)(own).backward()
    torch.testing.assert_close(own.grad.cpu(), 30 * torch.cos(6 * x), atol=2e-5, rtol=1e-5)


def test_inductor_sees_into_an_operator(device):
    """It is a launch of its kernel, not a call of the operator; what is around it is fused around it."""
    x = integers(random.randrange(100, 900))
    compiled = torch.compile(lambda t: (scaled_by(t + 1, 3.0) - 1) * 2, fullgraph=True)
    result, (code,) = run_and_get_code(compiled, x.to(device))
    assert torch.equal(result.cpu(), 6 * (x + 1) - 2)
    assert code.count("scaled_0.run(") == 1 and code.count("user_kernel(") == 1 and "ops.aule_test" not in code


def test_a_kernel_is_defined_once(device):
    def work(x):
        for scale in (2, 3, 4):
            o = torch.empty_like(x)
            launch(scaled, o, x, x.numel(), scale, BLOCK=64)
            x = o
        return x

    x = integers(random.randrange(100, 900))
    result, (code,) = run_and_get_code(torch.compile(work, fullgraph=True), x.to(device))
    assert torch.equal(result.cpu(), 24 * x)
    assert code.count("= user_kernel(") == 1


def test_assertions_in_compiled_functions(device):
    @triton.jit
    def positive(o, x, n, BLOCK: tl.constexpr):
        at = tl.arange(0, BLOCK)
        v = tl.load(x + at, mask=at < n, other=1)
        tl.device_assert(v > 0, "positive ones")
        tl.store(o + at, v, mask=at < n)

    def work(x):
        o = torch.empty_like(x)
        positive[(1,)](o, x, x.numel(), BLOCK=64, debug=True)
        return o

    n = random.randrange(2, 64)
    x = torch.ones(n, device=device)
    compiled = torch.compile(work, fullgraph=True)
    assert torch.equal(compiled(x), x)
    x[random.randrange(n)] = -1
    compiled(x)
    with pytest.raises(RuntimeError, match="positive.*assertion"):
        torch.aule.synchronize()


def test_recorded_graphs(device):
    from torch_aule.compile import replay

    made = []
    original = replay.cudagraphify

    def cudagraphify(*args, **kwargs):
        made.append(original(*args, **kwargs))
        return made[-1]

    def work(x, y):
        o = torch.empty_like(x)
        launch(scaled, o, x + 1, x.numel(), 2, BLOCK=64)
        launch(tuned_in_place, o, y, o.numel())
        return o * 2

    replay.cudagraphify = cudagraphify
    try:
        compiled = torch.compile(work, fullgraph=True, mode="reduce-overhead")
        n = random.randrange(70, 900)
        results = []
        for _ in range(6):
            x, y = integers(n), integers(n)
            results.append((compiled(x.to(device), y.to(device)), 2 * (2 * (x + 1) + y)))
        assert all(torch.equal(own.cpu(), expected) for own, expected in results)
    finally:
        replay.cudagraphify = original
    assert made and all(f.refused is None for f in made) and made[0].calls


def test_gradients_through_a_function_of_autograd(device):
    class Tripled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            o = torch.empty_like(x)
            launch(scaled, o, x, x.numel(), 3, BLOCK=64)
            return o

        @staticmethod
        def backward(ctx, g):
            o = torch.empty_like(g)
            g = g.contiguous()
            launch(scaled, o, g, g.numel(), 3, BLOCK=64)
            return o

    x = integers(random.randrange(2, 300))
    own = x.to(device).requires_grad_()
    torch.compile(lambda t: (Tripled.apply(t * 2) * t).sum(), fullgraph=True)(own).backward()
    assert torch.equal(own.grad.cpu(), 12 * x)


def test_what_cannot_be_captured_is_launched_as_it_is(device):
    """A hook of a configuration is Python that runs at each launch: PyTorch captures none."""
    seen = []

    @triton.autotune(configs=[triton.Config({"BLOCK": 64}, pre_hook=lambda given: seen.append(given["n"]))], key=[])
    @triton.jit
    def hooked(o, x, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(o + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)

    def work(x):
        o = torch.empty_like(x)
        launch(hooked, o, x, x.numel())
        return o + 1

    x = integers(random.randrange(2, 300))
    assert torch.equal(torch.compile(work)(x.to(device)).cpu(), 2 * x + 1)
    assert seen == [x.numel()]
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported, match="pre_hook"):
        torch.compile(work, fullgraph=True)(x.to(device))


def test_caches_of_graphs_in_fresh_interpreters(tmp_path):
    """The second interpreter finds the graph. The third does not: a helper in another module is another one."""
    names = ("TRITON_CACHE_DIR", "TORCH_AULE_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")
    caches = {name: str(tmp_path / name) for name in names} | {"TORCHINDUCTOR_FORCE_DISABLE_CACHES": "0"}
    n = str(random.randrange(100, 900))
    for factor, found in ((3, 0), (3, 1), (4, 0)):
        text = check_program("triton_compiled", n, str(factor), str(tmp_path), **caches)
        assert f"well, {found} of 1 found" in text


def test_functions_are_compiled_without_triton():
    assert "well" in check_program("triton_absent")
