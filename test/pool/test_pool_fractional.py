"""Fractional max pooling, 2-D and 3-D, and its gradient."""

import pytest
import torch
import torch.nn.functional as F

from helpers import FLOATS, assert_close, assert_close_to_cpu, layouts, random_tensor

pytestmark = pytest.mark.validated
POOLS = {2: torch.ops.aten.fractional_max_pool2d, 3: torch.ops.aten.fractional_max_pool3d}


def case(dims, dtype, batch=(2,)):
    x = random_tensor(*batch, 3, *(9, 12, 7)[:dims], dtype=dtype)
    samples = torch.rand(batch[0] if batch else 1, 3, dims).to(dtype)
    return x, (2, 3, 2)[:dims], (4, 5, 1)[:dims], samples


@pytest.mark.parametrize("dtype", [*FLOATS, torch.float64], ids=str)
@pytest.mark.parametrize("dims", [2, 3])
def test_values_and_indices(device, dims, dtype):
    for batch in ((2,), ()):
        x, kernel, size, samples = case(dims, dtype, batch)
        for _, t in layouts(x):
            if t.shape == x.shape:
                # The windows' places depend on the rounding of the storage dtype.
                assert_close_to_cpu(
                    lambda t, u: POOLS[dims](t, kernel, size, u), t, samples, wide=False, rtol=0, atol=0
                )
    x[..., 3] = torch.nan
    assert_close_to_cpu(lambda t, u: POOLS[dims](t, kernel, size, u)[0], x, samples, wide=False, rtol=0, atol=0)


@pytest.mark.parametrize("dims", [2, 3])
def test_every_size(device, dims):
    x = random_tensor(1, 2, *(8,) * dims)
    for size in range(1, 8 if dims == 2 else 7):  # PyTorch refuses windows in every place in 3-D
        samples = torch.rand(1, 2, dims)
        assert_close_to_cpu(lambda t, u: POOLS[dims](t, (2,) * dims, (size,) * dims, u), x, samples, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("dims", [2, 3])
def test_gradients(device, dims, dtype):
    function = F.fractional_max_pool2d if dims == 2 else F.fractional_max_pool3d
    x, kernel, size, samples = case(dims, dtype)
    a, b = x.to(device).requires_grad_(), x.clone().requires_grad_()
    y = function(a, kernel, size, _random_samples=samples.to(device))
    z = function(b, kernel, size, _random_samples=samples)
    assert_close(y, z)
    weight = torch.randn_like(z)
    y.backward(weight.to(device))
    z.backward(weight)
    assert_close(a.grad, b.grad)


def test_out_and_checks(device):
    x, kernel, size, samples = case(2, torch.float32)
    out, indices = torch.full((5,), torch.nan, device=device), torch.empty(0, dtype=torch.long, device=device)
    POOLS[2].output(x.to(device), kernel, size, samples.to(device), output=out, indices=indices)
    assert_close((out, indices), tuple(POOLS[2](x, kernel, size, samples)))
    moved, drawn = x.to(device), samples.to(device)
    for arguments, message in (
        ((moved, (10, 2), size, drawn), "too large relative to input height"),
        ((moved, kernel, size, drawn[..., :1]), r"_random_samples.size\(2\)"),
        ((moved, kernel, size, drawn.double()), "same dtype"),
        ((moved[0, 0], kernel, size, drawn), "3D or 4D"),
    ):
        with pytest.raises(RuntimeError, match=message):
            POOLS[2](*arguments)
    empty = POOLS[2](moved[:0], kernel, size, drawn[:0])
    assert empty[0].shape == (0, 3, 4, 5)
    module = torch.nn.FractionalMaxPool2d(3, output_ratio=0.5)
    assert module(moved).shape == (2, 3, 4, 6)
