"""Operators that once gave wrong numbers in one dtype or refused one that CUDA takes."""

import pytest
import torch
import torch.nn.functional as F

from helpers import INTS, assert_close, assert_close_to_cpu, random_tensor


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_norm_of_order_zero(device, dtype):
    x = random_tensor(3, 5, 7, dtype=dtype)
    x[x.abs() < 0.5] = 0
    for dim in (None, 1, (0, 2)):
        assert_close_to_cpu(torch.linalg.vector_norm, x, 0, dim=dim, keepdim=True, wide=False)
    out = torch.empty(3, 7, dtype=dtype, device=device)
    torch.linalg.vector_norm(x.to(device), 0, dim=1, out=out)
    assert_close(out, (x != 0).sum(1).to(dtype))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_fold_and_the_gradient_of_unfold(device, dtype):
    x = torch.randn(2, 3 * 4, 20, dtype=dtype)
    assert_close_to_cpu(lambda t: F.fold(t, (5, 6), (2, 2)), x)
    image = torch.randn(2, 3, 6, 7, dtype=dtype)
    results = []
    for where in ("cpu", device):
        leaf = image.to(where, copy=True).requires_grad_()
        columns = F.unfold(leaf, 3, padding=1, stride=2)
        weight = torch.linspace(-1, 1, columns.numel(), dtype=dtype).view(columns.shape).to(where)
        results.append(torch.autograd.grad(columns, leaf, weight)[0])
    assert_close(results[1], results[0])


@pytest.mark.parametrize("dtype", [*INTS, torch.float64], ids=str)
def test_logspace(device, dtype):
    for start, end, steps, base in ((0, 4, 5, 3.0), (0, 2, 7, 10.0), (1.7, 4.2, 6, 2.0), (5, 0, 11, 2.0), (2, 2, 1, 3)):
        expected = torch.logspace(start, end, steps, base, dtype=dtype)
        assert_close(torch.logspace(start, end, steps, base, dtype=dtype, device=device), expected, rtol=1e-14, atol=0)


@pytest.mark.parametrize("dtype", INTS, ids=str)
def test_linspace_of_integers_begins_at_an_integer(device, dtype):
    expected = torch.linspace(0.9, 20.7, 8, dtype=dtype)
    assert_close(torch.linspace(0.9, 20.7, 8, dtype=dtype, device=device), expected)


@pytest.mark.parametrize("dtype", [*INTS, torch.float64, torch.float32], ids=str)
def test_native_dropout_backward(device, dtype):
    grad, mask = random_tensor(4, 6, dtype=dtype), random_tensor(4, 6, dtype=torch.bool)
    assert_close_to_cpu(lambda g, m: torch.ops.aten.native_dropout_backward(g, m, 1.5), grad, mask)


def test_bounds_of_clamp_wrap_in_unsigned_integers(device):
    x = torch.tensor([0, 1, 5, 200, 255], dtype=torch.uint8)
    for low, high in ((-1, 3), (-1, None), (2, -1), (None, -56), (1, 4)):
        expected = x.clamp(low, high)
        assert_close(x.to(device).clamp(low, high), expected)
        assert_close(x.to(device).clamp_(low, high), expected)
    for dtype, bound in ((torch.uint8, 300), (torch.int8, 200), (torch.int16, -70000)):
        y = torch.zeros(3, dtype=dtype)
        for where in ("cpu", device):
            with pytest.raises(RuntimeError, match="overflow"):
                y.to(where).clamp(max=bound)


@pytest.mark.parametrize("dtype", INTS, ids=str)
def test_histc_of_integers(device, dtype):
    """CUDA has it, the CPU has not: mixture-of-experts layers count their experts so."""
    x = random_tensor(500, dtype=dtype, low=0, high=12)
    for bins, low, high in ((12, 0, 11), (8, 0, 7), (5, 2, 9), (4, 0, 0), (3, 20, 40)):
        if dtype in (torch.int8, torch.uint8) and bins == 4:
            continue  # counts beyond 127 wrap
        first, last = (low, high) if low != high else (int(x.min()), int(x.max()))
        expected = torch.zeros(bins, dtype=torch.int64)
        for v in x.tolist():
            if first <= v <= last:
                expected[min((v - first) * bins // (last - first), bins - 1)] += 1
        actual = torch.histc(x.to(device), bins=bins, min=low, max=high)
        assert_close(actual, expected.to(dtype))
