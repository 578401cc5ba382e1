"""nll_loss and cross_entropy against the CPU."""

import pytest
import torch
import torch.nn.functional as F

from helpers import FLOATS, assert_close

pytestmark = [pytest.mark.current_lavapipe, pytest.mark.validated]

REDUCTIONS = ["mean", "sum", "none"]


def check(x, target, fn, **kwargs):
    """Value and gradient; `fn` makes the loss of input and target."""
    wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    # The CPU's nll_loss2d wants contiguous inputs.
    a, b = wide.contiguous().clone().requires_grad_(), x.to("aule").requires_grad_()
    on_device = {k: v.to("aule") if isinstance(v, torch.Tensor) else v for k, v in kwargs.items()}
    on_cpu = {k: v.to(wide.dtype) if isinstance(v, torch.Tensor) else v for k, v in kwargs.items()}
    ya, yb = fn(a, target, **on_cpu), fn(b, target.to("aule"), **on_device)
    assert_close(yb, ya.to(yb.dtype))
    g = torch.randn_like(ya)
    ya.backward(g)
    yb.backward(g.to("aule", yb.dtype))
    assert_close(b.grad, a.grad.to(b.dtype))


@pytest.mark.parametrize("dtype", [*FLOATS, torch.float64])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_nll_loss(dtype, reduction):
    x = torch.randn(37, 11).to(dtype)
    target = torch.randint(0, 11, (37,))
    target[3] = -100
    check(x, target, F.nll_loss, reduction=reduction)
    target[3] = 4
    check(x, target, F.nll_loss, reduction=reduction, weight=(torch.rand(11) + 0.5).to(dtype), ignore_index=4)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_nll_loss_shapes(reduction):
    check(torch.randn(9), torch.tensor(4), F.nll_loss, reduction=reduction)
    check(torch.randn(2000, 3), torch.randint(0, 3, (2000,)), F.nll_loss, reduction=reduction)
    check(torch.randn(5, 40).t(), torch.randint(0, 5, (40,)), F.nll_loss, reduction=reduction)
    check(torch.randn(0, 5), torch.randint(0, 5, (0,)), F.nll_loss, reduction=reduction)
    check(torch.randn(3, 5, 4, 6), torch.randint(0, 5, (3, 4, 6)), F.nll_loss, reduction=reduction)
    check(torch.randn(3, 4, 6, 5).permute(0, 3, 1, 2), torch.randint(0, 5, (3, 4, 6)), F.nll_loss, reduction=reduction)
    check(
        torch.randn(3, 5, 6, 4).transpose(2, 3),
        torch.randint(0, 5, (3, 4, 6)),
        F.nll_loss,
        reduction=reduction,
        weight=torch.rand(5),
    )
    check(torch.randn(3, 5, 7), torch.randint(0, 5, (3, 7)), F.nll_loss, reduction=reduction)


def test_everything_ignored():
    x, target = torch.randn(4, 5), torch.full((4,), 2)
    check(x, target, F.nll_loss, ignore_index=2)
    check(x, target, F.nll_loss, ignore_index=2, reduction="sum")


@pytest.mark.parametrize("dtype", FLOATS)
def test_cross_entropy(dtype):
    x = torch.randn(6, 13, 4).to(dtype)
    target = torch.randint(0, 13, (6, 4))
    for kwargs in ({}, {"label_smoothing": 0.1}, {"reduction": "none"}, {"weight": (torch.rand(13) + 0.5).to(dtype)}):
        check(x, target, F.cross_entropy, **kwargs)
    check(torch.randn(64, 50).to(dtype), torch.randint(0, 50, (64,)), F.cross_entropy)
    check(x[:, :, 0], torch.rand(6, 13).softmax(1), lambda a, t: F.cross_entropy(a, t.to(a.dtype)))


def test_kl_div():
    check(torch.randn(5, 7).log_softmax(1), torch.rand(5, 7).softmax(1), F.kl_div, reduction="batchmean")
    check(
        torch.randn(5, 7).log_softmax(1), torch.randn(5, 7).log_softmax(1), F.kl_div, reduction="sum", log_target=True
    )


def test_class_out_of_range():
    x = torch.randn(4, 5, device="aule")
    for bad in (5, -3):
        target = torch.tensor([0, 1, bad, 2], device="aule")
        with pytest.raises(IndexError, match="nll_loss"):
            F.nll_loss(x, target)
            torch.accelerator.synchronize()
    # The next call works.
    good = torch.tensor([0, 1, 4, 2])
    assert_close(F.nll_loss(x, good.to("aule")), F.nll_loss(x.cpu(), good))


def test_user_errors():
    x = torch.randn(4, 5, device="aule")
    with pytest.raises((RuntimeError, ValueError)):
        F.nll_loss(x, torch.zeros(3, dtype=torch.long, device="aule"))
    with pytest.raises(RuntimeError, match="weight tensor"):
        F.nll_loss(x, torch.zeros(4, dtype=torch.long, device="aule"), weight=torch.ones(4, device="aule"))
    with pytest.raises(RuntimeError):
        F.nll_loss(x, torch.zeros(4, dtype=torch.long))
