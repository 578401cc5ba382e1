"""Kernels of compiled code whose lanes load neighbours together, on lavapipe (compile/codegen/forms/lanes.py)."""

import pytest
import torch
import torch.nn.functional as F
from torch._inductor.utils import run_and_get_code

import torch_aule  # noqa: F401


@pytest.fixture(autouse=True)
def software(device):
    properties = torch.aule.get_device_properties()
    if properties.kind != "cpu" or properties.min_subgroup_size != 8 or not properties.subgroup_shuffle:
        pytest.skip("a form for software devices with subgroups of 8")
    torch._dynamo.reset()


def check(function, *inputs, lanes: bool = True, tolerance: float = 1e-5) -> str:
    """Compiled like float64 on the CPU, and with or without lanes; the code."""
    got, code = run_and_get_code(torch.compile(function), *(x.to("aule") for x in inputs))
    code = "\n".join(code)
    assert ("inductor/lanes.glsl" in code) == lanes
    wide = [x.double() if x.is_floating_point() else x for x in inputs]
    expected = function(*wide)
    pairs = zip(*(y if isinstance(y, tuple) else (y,) for y in (got, expected)), strict=True)
    for a, e in pairs:
        if e.is_floating_point():
            torch.testing.assert_close(a.cpu().double(), e, rtol=tolerance, atol=tolerance, equal_nan=True)
        else:
            assert torch.equal(a.cpu(), e)
    return code


@pytest.mark.parametrize("elements", [2**14, 2**14 + 64, 3 * 2**14, 2**18])
def test_dense_elements(elements):
    x, y = torch.randn(elements), torch.randn(elements)
    code = check(lambda x, y: (F.gelu(x) * y + 1, x - y), x, y)
    assert "load_block(p.in_ptr0, first, 4, true)" in code


def test_elements_of_several_sizes():
    x, y, z = torch.randn(2**14), torch.randn(2**14).half(), torch.rand(2**14) < 0.5
    code = check(lambda x, y, z: (x * y, torch.where(z, x, 2.0), y > x, x.double() if x.is_cpu else x), x, y, z)
    assert "load_block(p.in_ptr0, first, 4, false)" in code


def test_in_place_and_offsets():
    x = torch.randn(4, 2**14)
    check(lambda x: x[0] + x[1] * x[2] - x[3], x)
    own, reference = x.to("aule"), x.clone()

    def step(t):
        t.mul_(2).add_(1)

    torch.compile(step)(own)
    step(reference)
    torch.testing.assert_close(own.cpu(), reference)


def test_infinities_and_nan():
    x = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e30, -1e-30, 2.0]).repeat(2**11)
    check(lambda x: (x * 2, x.abs(), x.exp(), x > 0), x)


@pytest.mark.parametrize("shape", [(512, 512), (64, 256), (512, 128), (32, 1024)])
def test_columns(shape):
    x, y = torch.randn(shape), torch.randn(shape)
    check(lambda x, y: ((x * y).sum(0), x.sum(0), y.amax(0)), x, y)
    check(lambda x, y: (x.view(4, -1, shape[1]) * y[:1]).mean(1), x, y)


@pytest.mark.parametrize("shape", [(512, 128), (2048, 16), (300, 64), (1031, 48)])
def test_rows(shape):
    x, y, w = torch.randn(shape), torch.randn(shape), torch.randn(shape[1])
    check(lambda x, y, w: (F.layer_norm(x + y, shape[1:], w, w), (x * w).sum(1)), x, y, w)
    check(lambda x, y: torch.softmax(x * y, 1), x, y)
    check(lambda x, y: (x.argmax(1), (x - y).var(1), y.amin(1)), x, y)
    mask = torch.rand(shape) < 0.9
    check(lambda x, y, m: x * m - (x * y * m).sum(1, keepdim=True), x, y, mask)


def test_gradients_of_layer_norm():
    x, w = torch.randn(512, 128), torch.randn(128)

    def run(x, w, function):
        x, w = x.clone().requires_grad_(), w.clone().requires_grad_()
        return torch.autograd.grad(function(x, w).square().sum(), (x, w))

    def norm(x, w):
        return F.layer_norm(x, (128,), w) * 1.5

    got = run(x.to("aule"), w.to("aule"), torch.compile(norm))
    for a, e in zip(got, run(x.double(), w.double(), norm), strict=True):
        torch.testing.assert_close(a.cpu().double(), e, rtol=1e-4, atol=1e-4)


def test_what_has_no_lanes():
    x = torch.randn(2**14)
    check(lambda x: x * 2, x[:100], lanes=False)  # too few
    check(lambda x: x * 2, torch.randn(2**14 + 8), lanes=False)  # not whole blocks
    check(lambda x: x * 2, torch.randn(2**14 + 1), lanes=False)
    check(lambda x: x[1:8193].view(64, 128) * 2, x, lanes=False)  # begins between vectors
    check(lambda x: x.view(128, 128).t() + x.view(128, 128), x, lanes=False)
    check(lambda x: x.view(128, 128)[:, :60].sum(1), x, lanes=False)
