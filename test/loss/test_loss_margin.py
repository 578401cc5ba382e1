"""multi_margin_loss and multilabel_margin_loss against float64. Kernel: margin_loss."""

import pytest
import torch
import torch.nn.functional as F

from helpers import FLOATS, assert_close, assert_close_to_float64, layouts, like_strided, relative_error, run_python

pytestmark = pytest.mark.validated

DTYPES = [*FLOATS, torch.float64]
REDUCTIONS = ["none", "mean", "sum"]


def targets(rows, classes):
    """Lists of 0 to `classes` targets, some of them twice, ended by -1, with rubbish behind."""
    lists = torch.randint(0, classes, (rows, classes))
    for row, length in enumerate(torch.randint(0, classes + 1, (rows,)).tolist()):
        lists[row, length : length + 1] = -1
    return lists


@pytest.mark.sampled(16)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("weighted", [False, True])
def test_multi_margin(weighted, p, reduction, dtype):
    x, t = torch.randn(13, 17), torch.randint(0, 17, (13,))
    arguments = (x, torch.rand(17)) if weighted else (x,)

    def loss(x, weight=None):
        to = t.to(x.device)
        weight = weight.detach() if weight is not None else None
        return F.multi_margin_loss(x, to, p, 0.7, weight, reduction=reduction)

    assert_close_to_float64(loss, *arguments, dtype=dtype, gradients=not weighted)
    if weighted:
        results = []
        for device, wide in (("cpu", torch.float64), ("aule", dtype)):
            leaf, weight = (a.to(dtype).to(device, wide) for a in arguments)
            out = loss(leaf.requires_grad_(), weight)
            results.append(torch.autograd.grad(out.sum(), leaf)[0])
        assert relative_error(results[1], results[0]) < {torch.float64: 1e-11, torch.float32: 1e-5}.get(dtype, 2e-2)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("rows, classes", [(1, 1), (9, 5), (4, 70)])
def test_multilabel_margin(rows, classes, reduction, dtype):
    x, t = torch.randn(rows, classes), targets(rows, classes)
    op = torch.ops.aten.multilabel_margin_loss_forward
    code = REDUCTIONS.index(reduction)

    def loss(x):
        return F.multilabel_margin_loss(x, t.to(x.device), reduction=reduction)

    assert_close_to_float64(loss, x, dtype=dtype, gradients=True, scale=1e-3)
    flags = op(x.to("aule", dtype), t.to("aule"), code)[1]
    assert flags.dtype == dtype and torch.equal(flags.cpu().float(), op(x, t, code)[1])


def test_one_row():
    """Vectors, and a target without a dimension."""
    x = torch.randn(6)
    for reduction in REDUCTIONS:
        for t in (torch.tensor(2), torch.tensor([3])):
            assert_close_to_float64(
                lambda v: F.multi_margin_loss(v, t.to(v.device), reduction=reduction), x, gradients=True
            )
        t = torch.tensor([1, 4, -1, 0, 0, 0])
        assert_close_to_float64(
            lambda v: F.multilabel_margin_loss(v, t.to(v.device), reduction=reduction), x, gradients=True
        )


def test_strides_and_out():
    x, t, many = torch.randn(7, 9), torch.randint(0, 9, (7,)), targets(7, 9)
    for _, view in layouts(x):
        for reduction in REDUCTIONS:
            actual = F.multi_margin_loss(like_strided(view), t.to("aule"), reduction=reduction)
            assert_close(actual, F.multi_margin_loss(x, t, reduction=reduction))
            for labels in (many, many.mT.contiguous().mT):
                actual = F.multilabel_margin_loss(like_strided(view), like_strided(labels), reduction=reduction)
                assert_close(actual, F.multilabel_margin_loss(x, many, reduction=reduction))
    wide = torch.full((7, 2), 5.0, device="aule")
    torch.ops.aten.multi_margin_loss.out(x.to("aule"), t.to("aule"), reduction=0, out=wide[:, 0])
    assert_close(wide[:, 0], F.multi_margin_loss(x, t, reduction="none"))
    assert (wide[:, 1].cpu() == 5).all()


def test_no_elements():
    """Nothing, or 0. (The CPU leaves a sum as it was allocated.)"""
    x, t = torch.zeros(0, 4, device="aule"), torch.zeros(0, dtype=torch.int64, device="aule")
    many = torch.zeros(0, 4, dtype=torch.int64, device="aule")
    for reduction, expected in (("none", torch.zeros(0)), ("sum", torch.tensor(0.0))):
        for loss, targets_of in ((F.multi_margin_loss, t), (F.multilabel_margin_loss, many)):
            leaf = x.clone().requires_grad_()
            out = loss(leaf, targets_of, reduction=reduction)
            assert_close(out, expected)
            assert torch.autograd.grad(out.sum(), leaf)[0].shape == (0, 4)


def test_refused_as_on_the_cpu():
    x, t = torch.randn(3, 4), torch.zeros(3, dtype=torch.int64)
    for op, arguments in (
        (F.multi_margin_loss, (x, t[:2])),
        (F.multi_margin_loss, (x, t, 3)),
        (F.multi_margin_loss, (x, t, 1, 1.0, torch.ones(5))),
        (F.multi_margin_loss, (x[:, :0], t)),
        (F.multilabel_margin_loss, (x, t)),
    ):
        with pytest.raises((RuntimeError, ValueError)) as expected:
            op(*arguments)
        with pytest.raises((RuntimeError, ValueError)) as actual:
            op(*(a.to("aule") if isinstance(a, torch.Tensor) else a for a in arguments))
        assert str(actual.value) == str(expected.value)


@pytest.mark.parametrize("name, target", [("multi_margin_loss", [4]), ("multilabel_margin_loss", [[1, 7, -1, 0]])])
def test_a_class_out_of_range_raises(name, target):
    """In a process of its own, as the error stays on the device until it is raised."""
    code = f"""
import torch, torch_aule
try:
    torch.nn.functional.{name}(torch.randn(1, 4, device="aule"), torch.tensor({target}, device="aule"))
    torch.aule.synchronize()
except Exception as error:
    print(error)
"""
    result = run_python(code)
    assert "is out of bounds for 4 classes" in result.stdout and name in result.stdout, result
