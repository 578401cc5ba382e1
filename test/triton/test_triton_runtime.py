"""Launches of Triton's kernels in graphs, on streams, in threads, under torch.compile, the profiler and timers."""

import random

import pytest
import torch

triton = pytest.importorskip("triton", reason="triton is not installed")
import triton.language as tl  # noqa: E402

from helpers import check_program, in_threads  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*TRITON_DEFAULT_FP_FUSION")


@triton.jit
def scaled_sum(x, y, o, n, scale, BLOCK: tl.constexpr, CASE: tl.constexpr):
    tl.static_assert(CASE >= 0)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(o + at, tl.load(x + at, mask=inside) * scale + tl.load(y + at, mask=inside), mask=inside)


@triton.jit
def positive(x, o, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n, other=1)
    tl.device_assert(v > 0, "positive ones")
    tl.store(o + at, v, mask=at < n)


def summed(x, y, scale=2, case=0):
    """scale * x + y, of small integers without a rounding."""
    o = torch.empty_like(x)
    scaled_sum[(triton.cdiv(x.numel(), 256),)](x, y, o, x.numel(), scale, BLOCK=256, CASE=case)
    return o


def integers(n):
    return torch.randint(-50, 50, (n,)).float()


@pytest.mark.parametrize("warm", [True, False])
def test_capture_and_replay(device, warm):
    n = random.randrange(300, 3000)
    x, y = torch.zeros(n, device=device), integers(n)
    own = y.to(device)
    case = random.randrange(1000, 10**6)  # a kernel that nothing has compiled
    if warm:
        summed(x, own, case=case)
    graph = torch.aule.Graph()
    with torch.aule.graph(graph):
        first = summed(x, own, case=case)
        second = summed(first, own, 3, case=case)
    for _ in range(3):
        new = integers(n)
        x.copy_(new)
        graph.replay()
        torch.aule.synchronize()
        assert torch.equal(first.cpu(), 2 * new + y)
        assert torch.equal(second.cpu(), 3 * (2 * new + y) + y)


def test_an_assertion_in_a_graph_names_the_kernel(device):
    n = random.randrange(20, 60)
    x, out = torch.ones(n, device=device), torch.zeros(n, device=device)
    graph = torch.aule.Graph()
    with torch.aule.graph(graph):
        positive[(1,)](x, out, n, BLOCK=64, debug=True)
    graph.replay()
    torch.aule.synchronize()
    assert torch.equal(out, x)
    x[random.randrange(n)] = -1
    graph.replay()
    with pytest.raises(RuntimeError, match="positive.*assertion failed on the device"):
        torch.aule.synchronize()


def test_streams_wait_for_each_other(device):
    n = random.randrange(3000, 9000)
    x, y = integers(n), integers(n)
    own_x, own_y = x.to(device), y.to(device)
    one, two = torch.aule.Stream(), torch.aule.Stream()
    one.wait_stream(torch.aule.current_stream())
    with torch.aule.stream(one):
        a = summed(own_x, own_y)
        for _ in range(5):
            a = summed(a, own_y, 1)
    two.wait_stream(one)
    with torch.aule.stream(two):
        b = summed(a, a, 1)
    torch.aule.current_stream().wait_stream(two)
    assert torch.equal(b.cpu(), 2 * (2 * x + 6 * y))


def test_launches_in_threads(device):
    n = random.randrange(1000, 3000)
    case = random.randrange(10**6, 10**7)
    x, y = integers(n), integers(n)
    own_x, own_y = x.to(device), y.to(device)

    def work(i):
        return [summed(own_x, own_y, i + 2, case=case + which).cpu() for which in (0, i % 2, 0)]

    for i, outs in enumerate(in_threads(work)):
        for out in outs:
            assert torch.equal(out, (i + 2) * x + y)


def test_the_profiler_shows_the_kernel(device):
    x = torch.zeros(1000, device=device)
    summed(x, x)
    with torch.aule.profiler.profile() as profile:
        for _ in range(3):
            summed(x, x)
        torch.aule.synchronize()
    (event,) = [event for event in profile.key_averages() if "scaled_sum" in event.key]
    assert event.count == 3 and event.device_time_total > 0


class TimesTwoPlus(torch.autograd.Function):
    """2 x + y."""

    @staticmethod
    def forward(ctx, x, y):
        return summed(x, y)

    @staticmethod
    def backward(ctx, g):
        return summed(g, torch.zeros_like(g)), g


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_a_compiled_function_calls_the_kernel(device, backend):
    from torch._dynamo.testing import CompileCounterWithBackend

    torch._dynamo.reset()
    counted = CompileCounterWithBackend(backend)

    @torch.compile(backend=counted)
    def compiled(x, y):
        return summed(x.abs() + 1, y) * 3 + 1

    n = random.randrange(300, 3000)
    for _ in range(2):
        x, y = integers(n), integers(n)
        assert torch.equal(compiled(x.to(device), y.to(device)).cpu(), (2 * (x.abs() + 1) + y) * 3 + 1)
    assert counted.frame_count <= 2  # the second is for any size
    torch._dynamo.reset()


def test_gradients_around_a_kernel_in_a_compiled_function(device):
    torch._dynamo.reset()
    x, y = integers(500), integers(500)
    own_x, own_y = x.to(device).requires_grad_(), y.to(device).requires_grad_()
    compiled = torch.compile(lambda a, b: (TimesTwoPlus.apply(a * 3, b) * 5).sum())
    compiled(own_x, own_y).backward()
    assert (own_x.grad == 30).all() and (own_y.grad == 5).all()
    torch._dynamo.reset()


def test_two_processes_share_a_cold_cache(tmp_path):
    caches = {"TRITON_CACHE_DIR": str(tmp_path / "triton"), "TORCH_AULE_CACHE_DIR": str(tmp_path / "aule")}
    n = str(random.randrange(200, 900))
    assert all("well" in text for text in in_threads(lambda i: check_program("triton_cold", n, **caches), 2))
    assert len(list((tmp_path / "triton").glob("*/powers.glsl"))) == 4
    assert "well" in check_program("triton_cold", n, **caches)  # with what they have left


def test_beside_the_driver_of_another_gpu():
    assert "well" in check_program("triton_beside")


def test_timers(device):
    x = torch.zeros(1000, device=device)
    times = triton.testing.do_bench(lambda: summed(x, x), warmup=1, rep=4, quantiles=[0.5, 0.2, 0.8])
    assert 0 < times[1] <= times[0] <= times[2] < 1000
    assert 0 < triton.testing.do_bench(lambda: summed(x, x), warmup=1, rep=2, return_mode="min") < 1000
    if not torch.cuda.is_available():
        with pytest.raises(NotImplementedError, match="do_bench_cudagraph .* take do_bench"):
            triton.testing.do_bench_cudagraph(lambda: summed(x, x), rep=2)


def test_values_are_compared(device):
    x = integers(300).to(device)
    triton.testing.assert_close(summed(x, x), 3 * x)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        triton.testing.assert_close(summed(x, x), 3 * x + 1)


def test_hooks_see_launches(device):
    seen = []
    x = torch.zeros(100, device=device)
    hook = triton.knobs.runtime.launch_enter_hook
    hook.add(lambda data: seen.append(data.get()["name"]))
    try:
        summed(x, x)
    finally:
        hook.calls.clear()
    assert seen == ["scaled_sum"]
