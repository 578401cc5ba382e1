"""Fake quantization and its gradients against the CPU. Kernel: fake_quantize."""

import pytest
import torch

from helpers import FLOATS, assert_close, layouts, like_strided, relative_error

pytestmark = pytest.mark.validated

aten = torch.ops.aten
DTYPES = [*FLOATS, torch.float64]


def on_both(op, *arguments, widened=(torch.float16, torch.bfloat16)):
    """The operator's results on the CPU, in float32 for inputs of the dtypes `widened`, and on the device."""

    def moved(a, device, wide):
        if not isinstance(a, torch.Tensor):
            return a
        return a.to(device, torch.float32) if wide and a.dtype in widened else a.to(device)

    return op(*(moved(a, "cpu", True) for a in arguments)), op(*(moved(a, "aule", False) for a in arguments))


def assert_quantized(op, *arguments):
    expected, actual = on_both(op, *arguments)
    assert actual[0].dtype == arguments[0].dtype and torch.equal(actual[1].cpu(), expected[1])
    assert_close(actual[0], expected[0].to(actual[0].dtype))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_per_tensor(dtype):
    x = (torch.randn(7, 33) * 40).to(dtype)
    for scale, zero, low, high in ((0.3, 3, -128, 127), (0.1, 0, 0, 255), (1.7, -8, -8, 7)):
        assert_quantized(aten.fake_quantize_per_tensor_affine_cachemask, x, scale, zero, low, high)
    ties = torch.arange(-20, 21).div(2).to(dtype)  # half to even
    assert_quantized(aten.fake_quantize_per_tensor_affine_cachemask, ties, 1.0, 1, -6, 7)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("enabled", [0, 1])
@pytest.mark.parametrize("switch", [torch.uint8, torch.int64])
def test_by_tensors(switch, enabled, dtype):
    x = (torch.randn(5, 21) * 20).to(dtype)
    assert_quantized(
        aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams, x, torch.tensor([0.21]),
        torch.tensor([4], dtype=torch.int32), torch.tensor([enabled], dtype=switch), -50, 60,
    )  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("zero_dtype", [torch.int32, torch.float32, torch.float16])
def test_per_channel(zero_dtype, axis, dtype):
    x = (torch.randn(4, 5, 6) * 20).to(dtype)
    channels = x.shape[axis]
    scale, zero = torch.rand(channels) + 0.1, torch.randint(-5, 6, (channels,)).to(zero_dtype)
    if zero_dtype.is_floating_point:
        zero = zero + 0.25
    assert_quantized(aten.fake_quantize_per_channel_affine_cachemask, x, scale, zero, axis, -32, 31)


def test_autograd():
    """Through the composite operators that programs call; the gradient passes where the mask is set."""
    x = torch.randn(6, 8) * 30
    results = []
    for device in ("cpu", "aule"):
        leaf = x.clone().to(device).requires_grad_()
        scale, zero = torch.rand(8, generator=torch.Generator().manual_seed(3)) + 0.1, torch.zeros(8, dtype=torch.int32)
        a = torch.fake_quantize_per_tensor_affine(leaf, 0.2, 1, -100, 100)
        b = torch.fake_quantize_per_channel_affine(leaf, scale.to(device), zero.to(device), 1, -100, 100)
        c = torch.fake_quantize_per_tensor_affine(
            leaf, torch.tensor(0.2, device=device), torch.tensor(1, dtype=torch.int32, device=device), -100, 100
        )
        results.append((a, b, c, torch.autograd.grad((a * a + b * b + c).sum(), leaf)[0]))
    assert_close(results[1], results[0])


def between_ties(shape, scale):
    """Numbers that are not near the middle of two steps, where another rounding of x / scale is another step."""
    return ((torch.randn(shape) * 60).round() + torch.rand(shape) * 0.8 - 0.4) * scale


def assert_gradients(actual, expected, dtype):
    """Those of x, scale and zero point; of the sums of terms of both signs all may come near zero."""
    for a, e in zip(actual, expected, strict=True):
        terms = expected[0].numel() // e.numel()
        assert a.shape == e.shape
        assert relative_error(a, e, terms**0.5) < (1e-2 if dtype == torch.bfloat16 else 1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("zero", [-3.0, -2.6, 0.49, 2.5, 7.6, 300.0])
def test_learnable_per_tensor(zero, dtype):
    scale, zero = torch.tensor([0.37]), torch.tensor([zero])
    x, grad = between_ties((9, 31), scale).to(dtype), torch.randn(9, 31).to(dtype)
    quantized = aten._fake_quantize_learnable_per_tensor_affine
    expected, actual = on_both(quantized, x, scale, zero, -60, 60, 0.7)
    assert_close(actual, expected.to(dtype))
    expected, actual = on_both(
        aten._fake_quantize_learnable_per_tensor_affine_backward, grad, x, scale, zero, -60, 60, 0.7,
        widened=(torch.bfloat16, torch.float64),  # it has no float64
    )  # fmt: skip
    assert_gradients(actual, expected, dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_learnable_per_channel(axis, dtype):
    grad = torch.randn(5, 6, 7).to(dtype)
    channels = grad.shape[axis]
    scale, zero = (torch.rand(channels) + 0.2), torch.randn(channels) * 4
    x = between_ties((5, 6, 7), scale.view([-1 if dim == axis else 1 for dim in range(3)])).to(dtype)
    quantized = aten._fake_quantize_learnable_per_channel_affine
    expected = quantized(x.float(), scale, zero, axis, -40, 40, 0.3)
    actual = quantized(x.to("aule"), scale.to("aule"), zero.to("aule"), axis, -40, 40, 0.3)
    assert_close(actual.to(torch.float32), expected, rtol=1e-2 if dtype == torch.bfloat16 else 1e-5)
    backward = aten._fake_quantize_learnable_per_channel_affine_backward
    expected = backward(grad.float(), x.float(), scale, zero, axis, -40, 40, 0.3)
    actual = backward(*(t.to("aule") for t in (grad, x, scale, zero)), axis, -40, 40, 0.3)
    assert actual[0].dtype == dtype
    assert_gradients(actual, expected, dtype)


def test_strides():
    x = torch.randn(4, 6, 5) * 20
    scale, zero = torch.rand(6) + 0.1, torch.zeros(6, dtype=torch.int32)
    op = aten.fake_quantize_per_channel_affine_cachemask
    expected = op(x, scale, zero, 1, -32, 31)
    for _, view in layouts(x):
        wide = torch.stack([scale, scale], 1)[:, 0]
        assert_close(list(op(like_strided(view), like_strided(wide), zero.to("aule"), 1, -32, 31)), list(expected))


def test_no_elements():
    x = torch.randn(0, 3, device="aule")
    y, mask = aten.fake_quantize_per_tensor_affine_cachemask(x, 0.1, 0, 0, 255)
    assert y.shape == mask.shape == (0, 3) and mask.dtype == torch.bool
    one = torch.ones(1, device="aule")
    gradients = aten._fake_quantize_learnable_per_tensor_affine_backward(x, x, one, one, 0, 255, 1.0)
    assert gradients[1].cpu().tolist() == [0.0]


def test_refused():
    x = torch.randn(3, 4, device="aule")
    with pytest.raises(RuntimeError, match="quant_min"):
        torch.fake_quantize_per_tensor_affine(x, 0.1, 0, 5, 2)
    with pytest.raises(RuntimeError, match="zero_point"):
        torch.fake_quantize_per_tensor_affine(x, 0.1, 9, 0, 5)
    with pytest.raises(RuntimeError, match="not consistent"):
        torch.fake_quantize_per_channel_affine(
            x, torch.ones(3, device="aule"), torch.zeros(3, dtype=torch.int32, device="aule"), 1, 0, 5
        )
