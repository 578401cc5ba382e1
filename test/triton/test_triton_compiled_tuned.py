"""Autotuned kernels, and those with heuristics, inside functions that torch.compile compiles whole."""

import random

import pytest
import torch

triton = pytest.importorskip("triton", reason="triton is not installed")
import triton.language as tl  # noqa: E402
from test_triton_compiled import BACKENDS, CONFIGS, fresh, integers, launch, tuned_in_place  # noqa: E402, F401

pytestmark = pytest.mark.filterwarnings("ignore:.*TRITON_DEFAULT_FP_FUSION")


@triton.autotune(configs=CONFIGS, key=["n"], reset_to_zero=["total"])
@triton.jit
def tuned_sum(total, x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(total, tl.sum(tl.load(x + at, mask=at < n, other=0)))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
def test_autotuned(device, backend, dynamic):
    """Measuring runs a kernel several times; its results are those of one run."""

    def work(x, y):
        n = x.numel()
        launch(tuned_in_place, x, y, n)
        return x * 2

    compiled = torch.compile(work, fullgraph=True, backend=backend, dynamic=dynamic)
    for n in (random.randrange(65, 500), random.randrange(500, 900)):
        x, y = integers(n), integers(n)
        own = x.to(device)
        assert torch.equal(compiled(own, y.to(device)).cpu(), 2 * (x + y))
        assert torch.equal(own.cpu(), x + y)


def test_parameters_behind_one_that_is_tuned(device):
    @triton.autotune(configs=CONFIGS, key=[])
    @triton.jit
    def tuned_in_between(x, n, BLOCK: tl.constexpr, o, scale):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(o + at, tl.load(x + at, mask=at < n) * scale, mask=at < n)

    def work(x, scale):
        o = torch.empty_like(x)
        n = x.numel()
        tuned_in_between[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, n, o=o, scale=scale)
        return o + 1

    compiled = torch.compile(work, fullgraph=True)
    x = integers(random.randrange(70, 300))
    for scale in (1, 2, 7):
        assert torch.equal(compiled(x.to(device), scale).cpu(), scale * x + 1)


def test_an_option_that_is_a_parameter(device):
    @triton.autotune(configs=[triton.Config({"BLOCK": 64}, num_warps=2)], key=[])
    @triton.jit
    def tells_its_warps(o, x, n, BLOCK: tl.constexpr, num_warps: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(o + at, tl.load(x + at, mask=at < n) + num_warps, mask=at < n)

    def work(x):
        o = torch.empty_like(x)
        launch(tells_its_warps, o, x, x.numel())
        return o

    x = integers(random.randrange(2, 300))
    assert torch.equal(torch.compile(work, fullgraph=True)(x.to(device)).cpu(), x + 2)


@pytest.mark.parametrize("pruned", ["early_config_prune", "perf_model"])
def test_configurations_that_are_pruned(device, pruned):
    prunes = {
        "early_config_prune": {"early_config_prune": lambda configs, given, **more: configs[1:]},
        "perf_model": {"perf_model": lambda *given, **more: -more["BLOCK"], "top_k": 1},
    }

    @triton.autotune(configs=CONFIGS, key=[], prune_configs_by=prunes[pruned])
    @triton.jit
    def tells_its_block(o, x, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(o + at, tl.load(x + at, mask=at < n) + BLOCK, mask=at < n)

    def work(x):
        o = torch.empty_like(x)
        launch(tells_its_block, o, x, x.numel())
        return o

    x = integers(random.randrange(2, 300))
    assert torch.equal(torch.compile(work, fullgraph=True)(x.to(device)).cpu(), x + 256)


def test_what_is_summed_while_measuring_is_not_kept(device):
    def work(x):
        total = torch.zeros((), device=x.device)
        n = x.numel()
        tuned_sum[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](total, x, n)
        return total + 1

    compiled = torch.compile(work, fullgraph=True)
    for _ in range(2):
        x = integers(random.randrange(70, 90))
        assert compiled(x.to(device)).item() == x.sum() + 1


@pytest.mark.parametrize("tuned", [False, True])
def test_heuristics(device, tuned):
    @triton.heuristics({"DOUBLE": lambda given: given["n"] > 100, "EVEN": lambda given: given["n"] % 2 == 0})
    @triton.jit
    def told(o, x, n, DOUBLE: tl.constexpr, EVEN: tl.constexpr, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        v = tl.load(x + at, mask=at < n)
        tl.store(o + at, v * (2 if DOUBLE else 1) + (1 if EVEN else 0), mask=at < n)

    kernel = triton.autotune(configs=CONFIGS[:1], key=[])(told) if tuned else told

    def work(x):
        o = torch.empty_like(x)
        launch(kernel, o, x, x.numel(), **({} if tuned else {"BLOCK": 64}))
        return o

    compiled = torch.compile(work, fullgraph=True, dynamic=False)
    for n in (random.randrange(2, 100), random.randrange(101, 300)):
        x = integers(n)
        assert torch.equal(compiled(x.to(device)).cpu(), x * (1 + (n > 100)) + (n % 2 == 0))
