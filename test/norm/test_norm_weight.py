"""_weight_norm and _weight_norm_interface, with their gradients, against float64."""

import pytest
import torch

from helpers import FLOATS, assert_close, assert_close_to_float64, layouts, like_strided, relative_error

pytestmark = pytest.mark.validated

interface = torch.ops.aten._weight_norm_interface
backward = torch.ops.aten._weight_norm_interface_backward


def problem(dim, shape=(5, 7, 3)):
    return torch.randn(shape), torch.rand([n if d == dim else 1 for d, n in enumerate(shape)]) + 0.5


@pytest.mark.parametrize("dtype", [*FLOATS, torch.float64], ids=str)
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_weight_norm(dim, dtype):
    v, g = problem(dim)
    assert_close_to_float64(lambda a, b: torch._weight_norm(a, b, dim), v, g, dtype=dtype, gradients=True)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.float64], ids=str)
@pytest.mark.parametrize("dim", [0, 2])
def test_interface(dim, dtype):
    """The norms of 16-bit weights are float32."""
    v, g = (t.to(dtype) for t in problem(dim))
    w, norms = interface(v.to("aule"), g.to("aule"), dim)
    wide = interface(v.double(), g.double(), dim)
    assert w.dtype == dtype and norms.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    tolerance = {torch.float16: 1e-3, torch.bfloat16: 8e-3}.get(dtype, 1e-6)
    assert relative_error(w, wide[0]) < tolerance and relative_error(norms, wide[1]) < 1e-6
    grad = torch.randn(v.shape).to(dtype)
    actual = backward(grad.to("aule"), v.to("aule"), g.to("aule"), norms, dim)
    expected = backward(grad.double(), v.double(), g.double(), wide[1], dim)
    for a, e in zip(actual, expected):
        assert a.dtype == dtype and relative_error(a, e) < 4 * tolerance


@pytest.mark.parametrize("dim", [0, 3])
def test_strides(dim):
    v, g = problem(dim, (5, 3, 4, 6))
    expected = interface(v.double(), g.double(), dim)
    for _, view in layouts(v):
        actual = interface(like_strided(view), g.to("aule"), dim)
        assert all(relative_error(a, e) < 1e-6 for a, e in zip(actual, expected))
        assert actual[0].is_contiguous()


def test_modules():
    """The parametrization that programs use, trained for a step."""
    results = []
    torch.manual_seed(7)
    layer, x = torch.nn.Conv1d(3, 4, 3).double(), torch.randn(2, 3, 9).double()
    for device, dtype in (("cpu", torch.float64), ("aule", torch.float32)):
        module = torch.nn.Conv1d(3, 4, 3)
        module.load_state_dict(layer.state_dict())
        module = torch.nn.utils.parametrizations.weight_norm(module.to(device, dtype))
        module(x.to(device, dtype)).square().sum().backward()
        results.append([p.grad for p in module.parameters()])
    for actual, expected in zip(results[1], results[0], strict=True):
        assert relative_error(actual, expected) < 1e-4


def test_no_elements():
    """The CPU divides by zero."""
    for shape, dim in (((0, 3), 0), ((3, 0), 0), ((3, 0), 1)):
        v, g = problem(dim, shape)
        w, norms = interface(v.to("aule"), g.to("aule"), dim)
        assert_close([w, norms], [v, torch.zeros_like(g)])
        gradients = backward(w, v.to("aule"), g.to("aule"), norms + 1, dim)
        assert_close(list(gradients), [v, torch.zeros_like(g)])


def test_refused():
    v, g = problem(1)
    with pytest.raises(RuntimeError, match="first or the last"):
        interface(v.to("aule"), g.to("aule"), 1)
