"""Gradients through the device: the engine's thread, hooks, accumulation, checkpointing, higher order, vmap."""

import pytest
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from helpers import assert_close


def both(function, *inputs, rtol=1e-4, atol=1e-5):
    """Value and gradients of `function` on the device against the CPU."""
    cpu = [t.detach().clone().requires_grad_(t.is_floating_point()) for t in inputs]
    dev = [t.detach().to("aule").requires_grad_(t.is_floating_point()) for t in inputs]
    expected, actual = function(*cpu), function(*dev)
    assert_close(actual, expected, rtol=rtol, atol=atol)
    weight = torch.randn_like(expected)
    expected.backward(weight)
    actual.backward(weight.to("aule"))
    for a, e in zip(dev, cpu):
        assert_close(a.grad, e.grad, rtol=rtol, atol=atol)


def test_chain_with_views_and_broadcast(device):
    def f(x, w, b):
        y = (x.transpose(0, 1) @ w + b).relu()
        y = torch.cat([y[:, :3], y[:, 3:] * 2], dim=1)
        return (y.view(-1, 2).softmax(-1) * y.reshape(-1, 2)).sum(0)

    both(f, torch.randn(7, 5), torch.randn(7, 6), torch.randn(6))


def test_in_place_on_a_view(device):
    def f(x):
        y = x * 1
        y[1:3].mul_(2)
        y[:, 0] = 0.5
        return y.exp()

    both(f, torch.randn(4, 3))


def test_accumulation_and_hooks(device):
    w = torch.ones(3, device=device, requires_grad=True)
    seen = []
    w.register_hook(lambda g: seen.append(g.device.type) or g * 2)
    for _ in range(3):
        (w * 2).sum().backward()
    assert w.grad.tolist() == [12, 12, 12] and seen == ["aule"] * 3
    assert w.grad.device.type == "aule"


def test_mixed_with_the_cpu(device):
    x = torch.randn(4, requires_grad=True)
    (x.to(device) * 3).sum().cpu().backward()
    assert x.grad.device.type == "cpu"
    assert_close(x.grad, torch.full((4,), 3.0))


def test_double_backward(device):
    x = torch.randn(5)
    grads = []
    for d in ("cpu", device):
        y = x.to(d).requires_grad_()
        (g,) = torch.autograd.grad((y**3).sum(), y, create_graph=True)
        (gg,) = torch.autograd.grad(g.sum(), y)
        grads.append(gg)
    assert_close(grads[1], grads[0], rtol=1e-4)


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoint(device, reentrant):
    torch.manual_seed(0)
    layer = torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Dropout(0.4), torch.nn.Linear(16, 8)
    ).to(device)
    x = torch.randn(6, 8, device=device, requires_grad=True)
    results = []
    for use in (False, True):
        layer.zero_grad(set_to_none=True)
        x.grad = None
        torch.manual_seed(3)
        y = checkpoint(layer, x, use_reentrant=reentrant) if use else layer(x)
        y.square().sum().backward()
        results.append((y.detach().cpu(), x.grad.cpu(), layer[0].weight.grad.cpu()))
    assert_close(results[1], results[0])


def test_custom_function(device):
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 2 * x * g

    both(Square.apply, torch.randn(9))


def test_functional_transforms(device):
    x, w = torch.randn(4, 3), torch.randn(3)

    def loss(w, x):
        return (x @ w).tanh().sum()

    assert_close(torch.func.grad(loss)(w.to(device), x.to(device)), torch.func.grad(loss)(w, x), rtol=1e-4)
    mapped = torch.func.vmap(lambda row: (row * w.to(row.device)).sum())
    assert_close(mapped(x.to(device)), mapped(x), rtol=1e-4, atol=1e-5)
    _, tangent = torch.func.jvp(torch.sin, (x.to(device),), (torch.ones(4, 3, device=device),))
    assert_close(tangent, x.cos(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x * 2).sin() * x,
        lambda x: F.layer_norm(x, (3,)).softmax(-1),
        lambda x: F.gelu(x @ x.T),
        lambda x: torch.cat([x, torch.ones_like(x)]).where(torch.ones(3, device=x.device) > 0, 0.0),
        lambda x: F.cross_entropy(x, torch.arange(3, device=x.device)),
    ],
)
def test_forward_mode(device, function):
    """Tangents and Hessians, whose zeros are tensors without memory."""
    x, v = torch.randn(3, 3), torch.randn(3, 3)
    actual = torch.func.jvp(function, (x.to(device),), (v.to(device),))[1]
    assert_close(actual, torch.func.jvp(function, (x,), (v,))[1], rtol=1e-3, atol=1e-4)

    def total(x):
        return function(x).sum()

    assert_close(torch.func.hessian(total)(x.to(device)), torch.func.hessian(total)(x), rtol=1e-3, atol=1e-4)


def test_zeros_without_memory(device):
    allocated = torch.aule.memory_allocated()
    zeros = torch._efficientzerotensor([3, 1 << 20], device=device)
    assert zeros.device.type == "aule" and zeros._is_zerotensor() and zeros.shape == (3, 1 << 20)
    assert torch.aule.memory_allocated() == allocated
    x = torch.randn(3, 1, device=device)
    assert_close(x + zeros[:, 7:8], x)
    assert_close(torch.ones(3, 4, device=device).copy_(zeros[:, :4]), torch.zeros(3, 4))
    assert_close(zeros[1:, 5:9].clone().exp(), torch.ones(2, 4))
    assert torch._efficientzerotensor([], dtype=torch.int32, device=device).item() == 0


def test_anomaly_mode_and_no_grad(device):
    x = torch.randn(3, device=device, requires_grad=True)
    with torch.no_grad():
        assert not (x * 2).requires_grad
    with torch.inference_mode():
        assert (x * 2).is_inference()
    with torch.autograd.detect_anomaly(check_nan=True):
        (x * 2).sum().backward()
        with pytest.raises(RuntimeError, match="nan"):
            (x * float("nan")).sqrt().sum().backward()


def test_cross_entropy_of_a_small_network(device):
    def f(x, w1, w2):
        return F.cross_entropy(F.layer_norm(x @ w1, (12,)).relu() @ w2, torch.arange(7, device=x.device) % 4)

    both(f, torch.randn(7, 5), torch.randn(5, 12), torch.randn(12, 4), rtol=1e-3, atol=1e-4)
