"""softmax and log_softmax, forward and backward, against the CPU."""

import pytest
import torch
import torch.nn.functional as F

from helpers import FLOATS, assert_close, assert_close_to_cpu, layouts, random_tensor

pytestmark = [pytest.mark.current_lavapipe, pytest.mark.validated]

SHAPES = [((5, 64), 1), ((3, 7, 13), 1), ((3, 7, 13), 0), ((6, 1000), -1), ((1,), 0), ((17, 3), 1), ((2, 4, 5, 8), 2)]


@pytest.mark.parametrize("function", [torch.softmax, torch.log_softmax], ids=["softmax", "log_softmax"])
@pytest.mark.parametrize("dtype", [*FLOATS, torch.float64], ids=str)
def test_forward_and_backward(function, dtype, device):
    for shape, dim in SHAPES:
        x = random_tensor(*shape, dtype=dtype) * 3
        assert_close_to_cpu(lambda t: function(t, dim), x)
        a = x.to(device).requires_grad_()
        b = x.to(torch.float64).requires_grad_()
        g = random_tensor(*shape, dtype=dtype)
        function(a, dim).backward(g.to(device))
        function(b, dim).backward(g.double())
        rtol = {torch.float16: 1e-2, torch.bfloat16: 5e-2, torch.float32: 1e-4}.get(dtype, 1e-9)
        assert_close(a.grad, b.grad.to(dtype), rtol=rtol, atol=rtol)


@pytest.mark.vector_widths
def test_layouts(device):
    for _, x in layouts(torch.randn(2, 3, 4, 5)):
        for dim in range(4):
            assert_close_to_cpu(lambda t: torch.softmax(t, dim), x)


def test_out_dtype_and_empty(device):
    x = torch.randn(4, 8, dtype=torch.float16)
    assert_close_to_cpu(lambda t: torch.softmax(t, 1, dtype=torch.float32), x, wide=False)
    assert_close_to_cpu(lambda t: torch.softmax(t, 1, dtype=torch.float32), torch.arange(6).reshape(2, 3))
    out = torch.empty(8, 4, device=device).t()
    torch.softmax(x.float().to(device), 1, out=out)
    assert_close(out, torch.softmax(x.float(), 1))
    for shape in [(0, 3), (3, 0)]:
        assert_close_to_cpu(lambda t: torch.softmax(t, 1), torch.empty(shape))
    assert_close_to_cpu(lambda t: torch.softmax(t, 0), torch.tensor(2.0))


@pytest.mark.vector_widths
def test_infinities(device):
    x = torch.randn(6, 12)
    x[0, 3:] = -float("inf")
    x[1] = -float("inf")
    x[2, 4] = float("inf")
    x[3, 7] = float("nan")
    x[4] *= 1e4
    for f in [torch.softmax, torch.log_softmax, torch._safe_softmax]:
        assert_close_to_cpu(lambda t: f(t, 1), x)


@pytest.mark.vector_widths
def test_masked(device):
    x = torch.randn(2, 3, 5, 5)
    for mask_type, shape in [(0, (5, 5)), (1, (2, 5)), (2, (2, 3, 5, 5))]:
        mask = torch.rand(shape) < 0.3
        mask.view(-1, shape[-1])[0] = True  # one row masked whole
        assert_close_to_cpu(lambda t, m: torch._masked_softmax(t, m, 3, mask_type), x, mask)


def test_cross_entropy_gradient(device):
    x, target = torch.randn(10, 33), torch.randint(0, 33, (10,))
    a, b = x.to(device).requires_grad_(), x.clone().requires_grad_()
    F.cross_entropy(a, target.to(device)).backward()
    F.cross_entropy(b, target).backward()
    assert_close(a.grad, b.grad)
