"""Convolutions of float64 and of complex numbers, forward and both gradients, against the CPU in complex128."""

import pytest
import torch
import torch.nn.functional as F

from helpers import like_strided, relative_error

pytestmark = pytest.mark.validated

DTYPES = [torch.float64, torch.complex64, torch.complex128]
UNIT = {torch.float64: 1e-13, torch.complex64: 1e-5, torch.complex128: 1e-13}


class Whole(torch.autograd.Function):
    """torch.convolution, which hands complex numbers to the backend as they are; PyTorch has no derivative of those."""

    @staticmethod
    def forward(ctx, x, w, b, *how):
        ctx.save_for_backward(x, w)
        ctx.how, ctx.bias_size = how, None if b is None else b.shape
        return torch.convolution(x, w, b, *how)

    @staticmethod
    def backward(ctx, grad):
        mask = [True, True, ctx.bias_size is not None]
        backward = torch.ops.aten.convolution_backward
        return *backward(grad, *ctx.saved_tensors, ctx.bias_size, *ctx.how, mask), *[None] * len(ctx.how)


def convolution(transposed, stride, padding, dilation, groups, extra=0):
    def run(x, w, b=None):
        n = x.dim() - 2
        how = [stride] * n, [padding] * n, [dilation] * n, transposed, [extra] * n, groups
        return Whole.apply(x, w, b, *how) if x.is_complex() else torch.convolution(x, w, b, *how)

    return run


# Input, weight, and perhaps bias.
CASES = {
    "1d": (lambda x, w, b: F.conv1d(x, w, b, stride=2, padding=1), (2, 4, 17), (6, 4, 3), (6,)),
    "2d": (lambda x, w, b: F.conv2d(x, w, b, padding=1), (3, 4, 11, 9), (6, 4, 3, 3), (6,)),
    "2d in groups": (lambda x, w, b: F.conv2d(x, w, b, stride=2, groups=2), (1, 4, 11, 9), (6, 2, 3, 3), (6,)),
    "2d of channels": (lambda x, w: F.conv2d(x, w, groups=5, padding=2), (2, 5, 7, 6), (10, 1, 3, 3)),
    "2d of 1 x 1": (lambda x, w, b: F.conv2d(x, w, b), (2, 4, 5, 7), (6, 4, 1, 1), (6,)),
    "2d dilated": (lambda x, w: F.conv2d(x, w, dilation=2), (2, 4, 11, 9), (6, 4, 3, 3)),
    "2d same": (lambda x, w: F.conv2d(x, w, padding="same"), (2, 4, 6, 9), (6, 4, 3, 5)),
    "2d of one image": (lambda x, w: F.conv2d(x, w), (4, 11, 9), (6, 4, 3, 2)),
    "2d of a transposed image": (lambda x, w: F.conv2d(x.mT, w.mT), (2, 4, 11, 9), (6, 4, 3, 2)),
    "3d": (lambda x, w, b: F.conv3d(x, w, b, padding=(1, 0, 2)), (2, 4, 5, 6, 7), (6, 4, 3, 2, 3), (6,)),
    "transposed 1d": (lambda x, w, b: F.conv_transpose1d(x, w, b, 2, 1, 1), (2, 4, 17), (4, 6, 3), (6,)),
    "transposed 2d": (lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2), (2, 4, 7, 5), (4, 6, 3, 3), (6,)),
    "transposed in groups": (lambda x, w: F.conv_transpose2d(x, w, groups=2), (3, 4, 7, 5), (4, 3, 3, 3)),
    "transposed 3d": (lambda x, w, b: F.conv_transpose3d(x, w, b), (2, 4, 3, 4, 5), (4, 3, 3, 3, 2), (3,)),
    "whole": (convolution(False, 2, 1, 1, 1), (2, 4, 11, 9), (6, 4, 3, 3), (6,)),
    "whole of 1 x 1": (convolution(False, 1, 0, 1, 1), (2, 4, 5, 9), (6, 4, 1, 1), (6,)),
    "whole in groups": (convolution(False, 1, 2, 2, 2), (1, 4, 11, 9), (6, 2, 3, 3), (6,)),
    "whole 1d": (convolution(False, 1, 1, 1, 1), (2, 4, 11), (6, 4, 3)),
    "whole transposed": (convolution(True, 2, 1, 1, 1, extra=1), (2, 4, 7, 5), (4, 6, 3, 3), (6,)),
    "whole transposed in groups": (convolution(True, 1, 0, 1, 2), (3, 4, 7, 5), (4, 3, 3, 3), (6,)),
    "whole transposed of 1 x 1": (convolution(True, 1, 0, 1, 1), (2, 4, 7, 5), (4, 3, 1, 1)),
    "whole 3d": (convolution(False, 1, 1, 1, 1), (2, 2, 4, 3, 5), (3, 2, 3, 2, 3)),
}


def parts(z):
    z = z.detach().cpu()
    return torch.view_as_real(z.resolve_conj()) if z.is_complex() else z


def close(actual, expected, dtype):
    assert actual.dtype == dtype
    assert relative_error(parts(actual), parts(expected), 1.0) < UNIT[dtype]


def embedded(function, *operands):
    """`function` of complex numbers by its values at real ones: it is linear in the input, in the weight, and in 1."""
    x, w, *bias = operands
    if not x.is_complex():
        return function(*operands)
    real = function(x.real, w.real) - function(x.imag, w.imag)
    result = torch.complex(real, function(x.real, w.imag) + function(x.imag, w.real))
    shape = [-1] + [1] * (w.dim() - 2)
    return result + bias[0].view(shape) if bias else result


def without_bias(function):
    return lambda x, w: function(x, w, None)


@pytest.mark.sampled(20)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_convolution(device, name, dtype):
    function, *sizes = CASES[name]
    operands = [torch.randn(size, dtype=dtype) for size in sizes]
    wide = torch.complex128 if dtype.is_complex else torch.float64
    on_device = [like_strided(t).requires_grad_() for t in operands]
    on_cpu = [t.to(wide).requires_grad_() for t in operands]
    actual = function(*on_device)
    expected = embedded(without_bias(function) if dtype.is_complex and len(sizes) == 3 else function, *on_cpu)
    close(actual, expected, dtype)
    weight = torch.randn(expected.shape, dtype=dtype)
    grads = torch.autograd.grad(actual, on_device, weight.to(device))
    for g, e in zip(grads, torch.autograd.grad(expected, on_cpu, weight.to(wide))):
        close(g, e, dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_conjugates_and_layouts(device, dtype):
    wide = torch.complex128 if dtype.is_complex else torch.float64
    x = torch.randn(3, 9, 10, 4, dtype=dtype).permute(0, 3, 1, 2)
    w = torch.randn(12, 4, 3, 3, dtype=dtype)[::2]
    for p, q in [(x, w), (x.conj(), w), (x, w.conj()), (x[:, :, ::2].conj(), w.mH)]:
        y = convolution(False, 1, 1, 1, 1)(like_strided(p), like_strided(q))
        close(y, embedded(convolution(False, 1, 1, 1, 1), p.to(wide), q.to(wide)), dtype)


@pytest.mark.float64
def test_numerical_gradients(device):
    for dtype in (torch.float64, torch.complex128):
        x = torch.randn(1, 2, 4, 3, dtype=dtype, device=device, requires_grad=True)
        w = torch.randn(2, 2, 2, 2, dtype=dtype, device=device, requires_grad=True)
        assert torch.autograd.gradcheck(lambda x, w: convolution(False, 1, 1, 1, 1)(x, w).abs(), (x, w))
        assert torch.autograd.gradcheck(lambda x, w: convolution(True, 2, 0, 1, 1)(x, w).abs(), (x, w))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_empty(device, dtype):
    x = torch.randn(0, 4, 5, 5, dtype=dtype, device=device, requires_grad=True)
    w = torch.randn(6, 4, 3, 3, dtype=dtype, device=device, requires_grad=True)
    y = convolution(False, 1, 0, 1, 1)(x, w)
    assert y.shape == (0, 6, 3, 3) and y.dtype == dtype
    y.sum().abs().backward()
    assert x.grad.shape == x.shape and torch.equal(w.grad.cpu(), torch.zeros(6, 4, 3, 3, dtype=dtype))
