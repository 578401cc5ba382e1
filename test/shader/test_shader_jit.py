"""torch_aule.jit: kernels whose body is a docstring."""

import pytest
import torch

import torch_aule
from helpers import needs_shader_compiler
from torch_aule import ShaderCompileError

needs_shader_compiler()


def close(actual, reference, tolerance=2e-6):
    torch.testing.assert_close(actual.cpu().double(), reference, rtol=tolerance, atol=tolerance)


@torch_aule.jit
def axpy(y: torch.float32, x: torch.float32, a: float, k: int = 1):
    """if (i < threads)
    y[i] += a * x[i] * float(k);"""


def test_jit(device):
    x, y = torch.randn(1000), torch.randn(1000)
    mine = y.to(device)
    axpy(mine, x.to(device), 0.5, 3)
    close(mine, y.double() + x.double() * 1.5)
    axpy(mine, x.to(device), a=0.5, k=-3)
    close(mine, y.double(), 1e-5)
    axpy(mine, x.to(device), 1.0, 1, threads=10)
    close(mine[:10], (y + x)[:10].double(), 1e-5)
    close(mine[10:], y[10:].double(), 1e-5)
    assert axpy.__name__ == "axpy" and "y[i]" in axpy.__doc__
    with pytest.raises(TypeError, match="axpy: x must be of dtype Float, but is Half"):
        axpy(mine, x.to(device).half(), 1.0, 1)


def test_jit_with_options(device):
    header = "layout(constant_id = 0) const float CONST = 0.0;\nfloat grown(float v) { return v * FACTOR + CONST; }"

    @torch_aule.jit(header=header, defines={"FACTOR": "2.0"}, group_size=16, constants={"CONST": 0.25})
    def grows(y: torch.float16, x: torch.int8):
        """if (i < threads) y[i] = float16_t(grown(float(int(x[i]))));"""

    x = torch.arange(-50, 50, dtype=torch.int8)
    y = torch.empty(100, dtype=torch.float16, device=device)
    grows(y, x.to(device))
    assert torch.equal(y.cpu(), (x.float() * 2 + 0.25).half())


@pytest.mark.parametrize(
    "annotations, body, text",
    [
        ({"x": "float32"}, None, "made: no docstring"),
        ({}, "x[i] = 1;", "made: x has no annotation"),
        ({"x": 3}, "x[i] = 1;", "made: x has no annotation"),
        ({"x": "looks"}, "x[i] = 1;", "made: x is annotated with 'looks', which is none of"),
        ({"x": torch.complex64}, "x[i] = 1;", "made: x is annotated with 'complex64', which is none of"),
        ({"x": torch.float32}, "\nif (i < threads)\n  z[i] = 1;", "made:2: error: 'z'"),
        ({"x": "float"}, "if (i < threads) return;", "made: it takes no tensor"),
    ],
)
def test_jit_refuses(device, annotations, body, text):
    def made(x):
        pass

    made.__annotations__, made.__doc__ = annotations, body
    with pytest.raises(ShaderCompileError, match=text):
        torch_aule.jit(made)(torch.zeros(4, device=device))
