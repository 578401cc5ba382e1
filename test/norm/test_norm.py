"""Layer, RMS, group and batch norm, forward and backward, against the CPU in float64."""

import pytest
import torch
import torch.nn.functional as F

from helpers import FLOATS, assert_close, layouts

pytestmark = pytest.mark.validated

ROUND = {torch.float64: 1e-8, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 6e-2}


def check(function, dtype, *tensors, param_dtype=None):
    """Compare outputs and gradients; undefined inputs stay None. Parameters (not the first) may have another dtype."""
    dtypes = [dtype] + [param_dtype or dtype] * (len(tensors) - 1)
    small = [None if t is None else t.to(d) for t, d in zip(tensors, dtypes)]
    a = [None if t is None else t.to("aule").requires_grad_() for t in small]
    b = [None if t is None else t.double().requires_grad_() for t in small]
    y, z = function(*a), function(*b)
    tolerance = ROUND[dtype]
    assert_close(y, z.to(y.dtype), rtol=tolerance, atol=tolerance)
    g = torch.randn(z.shape).to(dtype)
    y.backward(g.to("aule"))
    z.backward(g.double())
    for s, t in zip(a, b):
        if s is not None:
            scale = max(1.0, t.grad.abs().max().item()) if t.numel() else 1.0
            assert_close(s.grad, t.grad.to(s.dtype), rtol=tolerance, atol=tolerance * scale)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.float64], ids=str)
def test_layer_norm(dtype):
    for shape, last in [((5, 64), 1), ((3, 7, 13), 1), ((2, 3, 4, 5), 2), ((9, 1000), 1), ((4, 1), 1)]:
        normalized = shape[len(shape) - last :]
        x, w, b = torch.randn(shape) * 2 + 3, torch.randn(normalized), torch.randn(normalized)
        check(lambda x, w, b: F.layer_norm(x, normalized, w, b), dtype, x, w, b)
    check(lambda x: F.layer_norm(x, (6,)), dtype, torch.randn(4, 6))
    check(lambda x, w: F.layer_norm(x, (6,), w), dtype, torch.randn(4, 6), torch.randn(6))


def test_layer_norm_statistics(device):
    x = torch.randn(4, 3, 8)
    for dtype, stats in [(torch.float32, torch.float32), (torch.float16, torch.float32)]:
        y, mean, rstd = torch.native_layer_norm(x.to(dtype).to(device), (3, 8), None, None, 1e-5)
        assert y.dtype == dtype and mean.dtype == rstd.dtype == stats and mean.shape == rstd.shape == (4, 1, 1)
    # A large mean must not cost the variance its digits.
    far = torch.randn(3, 4096) + 3000
    assert_close(
        F.layer_norm(far.to(device), (4096,)), F.layer_norm(far.double(), (4096,)).float(), rtol=1e-3, atol=1e-3
    )
    assert F.layer_norm(torch.empty(0, 4, device=device), (4,)).shape == (0, 4)
    with pytest.raises(RuntimeError, match="normalized_shape"):
        F.layer_norm(x.to(device), (7,))


@pytest.mark.vector_widths
def test_layouts_and_mixed_types(device):
    w, b = torch.randn(5), torch.randn(5)
    for _, x in layouts(torch.randn(2, 3, 4, 5)):
        check(lambda x, w, b: F.layer_norm(x, (5,), w, b), torch.float32, x, w, b)
        check(lambda x, w, b: F.batch_norm(x, None, None, w, b, True), torch.float32, x, torch.randn(3), torch.randn(3))


@pytest.mark.vector_widths
def test_many_rows(device):
    x, w, b = torch.randn(700, 36), torch.randn(36), torch.randn(36)
    check(lambda x, w, b: F.layer_norm(x, (36,), w, b), torch.float32, x, w, b)
    check(lambda x, w: F.rms_norm(x, (36,), w, 1e-6), torch.float32, x, w)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_rms_norm(dtype):
    for shape in [(5, 64), (3, 7, 13)]:
        check(lambda x, w: F.rms_norm(x, shape[-1:], w, 1e-5), dtype, torch.randn(shape), torch.randn(shape[-1:]))
    check(lambda x: F.rms_norm(x, (6,), None, 1e-5), dtype, torch.randn(4, 6))
    x = torch.randn(3, 8, dtype=dtype)
    assert_close(F.rms_norm(x.to("aule") * 1e-3, (8,)), F.rms_norm(x * 1e-3, (8,)), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_group_norm(dtype):
    for shape, groups in [
        ((2, 6, 5, 3), 3),
        ((3, 8, 16), 2),
        ((4, 12), 3),
        ((2, 4, 4, 4), 1),
    ]:  # two elements a group would be ill-conditioned
        c = shape[1]
        check(
            lambda x, w, b: F.group_norm(x, groups, w, b), dtype, torch.randn(shape) + 1, torch.randn(c), torch.randn(c)
        )
    check(lambda x: F.group_norm(x, 2), dtype, torch.randn(2, 4, 3))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_batch_norm(dtype):
    for shape in [(4, 3, 5, 5), (6, 4, 8), (9, 5)]:
        c = shape[1]
        x, w, b = torch.randn(shape) * 2 + 1, torch.randn(c), torch.randn(c)
        check(lambda x, w, b: F.batch_norm(x, None, None, w, b, True), dtype, x, w, b)
        mean, var = torch.randn(c), torch.rand(c) + 0.5
        check(lambda x, w, b: F.batch_norm(x, mean.to(x), var.to(x), w, b, False), dtype, x, w, b)


def test_batch_norm_module(device):
    torch.manual_seed(3)
    a, b = torch.nn.BatchNorm2d(3), torch.nn.BatchNorm2d(3).to(device)
    for _ in range(3):
        x = torch.randn(4, 3, 6, 6) * 2 + 1
        assert_close(b(x.to(device)), a(x), rtol=1e-4, atol=1e-4)
    assert_close(b.running_mean, a.running_mean, rtol=1e-4)
    assert_close(b.running_var, a.running_var, rtol=1e-4)
    assert b.num_batches_tracked.item() == 3
    a.eval(), b.eval()
    assert_close(b(x.to(device)), a(x), rtol=1e-4, atol=1e-4)


def test_instance_norm(device):
    x = torch.randn(2, 3, 6, 5)
    assert_close(F.instance_norm(x.to(device)), F.instance_norm(x), rtol=1e-4, atol=1e-4)
