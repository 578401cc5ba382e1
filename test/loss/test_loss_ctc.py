"""ctc_loss and its gradient against float64. Kernels: ctc_states, ctc_gradient."""

import pytest
import torch
import torch.nn.functional as F

from helpers import assert_close, check_program, like_strided, limited, relative_error, without

pytestmark = pytest.mark.validated

aten = torch.ops.aten


def problem(steps=23, batch=5, classes=7, longest=6, dtype=torch.float32):
    """Log probabilities, targets with repeated labels, and lengths that the losses are finite for, but the last."""
    x = torch.randn(steps, batch, classes, dtype=dtype).log_softmax(-1)
    targets = torch.randint(1, classes, (batch, longest))
    targets[:, 1::3] = targets[:, 0::3][:, : targets[:, 1::3].shape[1]]
    lengths = torch.randint(0, longest + 1, (batch,))
    frames = torch.randint(2 * longest, steps + 1, (batch,))
    return x, targets, frames, lengths


def both(x, targets, frames, lengths, **options):
    """Losses and gradients on the CPU in float64 and on the device."""
    results = []
    weights = torch.randn(x.shape[1], dtype=torch.float64)
    for device, dtype in (("cpu", torch.float64), ("aule", x.dtype)):
        leaf = x.detach().to(device, dtype).requires_grad_()
        out = F.ctc_loss(leaf, targets.to(device), frames, lengths, **options)
        used = (out * weights.to(device, out.dtype)).sum() if out.dim() else out
        results.append((out, torch.autograd.grad(used, leaf)[0]))
    return results


def assert_same(results, tolerance=3e-5):
    for expected, actual in zip(*results):
        assert relative_error(actual, expected, 1.0) < tolerance


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("joined", [False, True])
def test_against_float64(joined, reduction, dtype):
    x, targets, frames, lengths = problem(dtype=dtype)
    if joined:
        targets = torch.cat([row[:n] for row, n in zip(targets, lengths.tolist())])
    results = both(x, targets, frames, lengths, reduction=reduction)
    assert_same(results, 1e-10 if dtype == torch.float64 else 3e-5)


@pytest.mark.parametrize("blank", [0, 3, 6])
@pytest.mark.parametrize("target_dtype", [torch.int32, torch.int64])
def test_blank_and_target_dtypes(target_dtype, blank):
    x, targets, frames, lengths = problem()
    targets = torch.where(targets == blank, (targets + 1) % 7, targets).to(target_dtype)
    targets = torch.where(targets == blank, targets + 1, targets)
    assert_same(both(x, targets, frames, lengths, blank=blank, reduction="none"))


@pytest.mark.parametrize("zero_infinity", [False, True])
def test_impossible_and_empty_sequences(zero_infinity):
    """Fewer steps than labels; no labels; no steps; repeated labels that need a blank between them."""
    x = torch.randn(6, 5, 4).log_softmax(-1)
    targets = torch.tensor([[1, 2, 3, 1], [1, 1, 1, 1], [1, 2, 2, 1], [3, 0, 0, 0], [2, 2, 2, 3]])
    frames, lengths = torch.tensor([3, 6, 6, 0, 4]), torch.tensor([4, 0, 4, 0, 3])
    leaf = x.clone().to("aule").requires_grad_()
    out = F.ctc_loss(leaf, targets.to("aule"), frames, lengths, reduction="none", zero_infinity=zero_infinity)
    expected = F.ctc_loss(x.double(), targets, frames, lengths, reduction="none", zero_infinity=zero_infinity)
    assert_close(out, expected.float())
    if zero_infinity:
        assert_same(both(x, targets, frames, lengths, reduction="none", zero_infinity=True))
    else:
        (grad,) = torch.autograd.grad(out[1:4].sum(), leaf)  # those that are finite
        reference = x.double().requires_grad_()
        out = F.ctc_loss(reference, targets, frames, lengths, reduction="none")
        (wide,) = torch.autograd.grad(out[1:4].sum(), reference)
        assert relative_error(grad[:, 1:4], wide[:, 1:4], 1.0) < 3e-5


def test_the_gradient_is_that_of_differences():
    """Of log_softmax and the loss together, against central differences in float64."""
    x, targets, frames, lengths = problem(steps=13, batch=2, classes=4, longest=4, dtype=torch.float64)

    def loss(y, device="cpu"):
        probabilities = y.to(device).log_softmax(-1)
        return F.ctc_loss(probabilities, targets.to(device), frames, lengths, reduction="sum")

    leaf = x.clone().requires_grad_()
    (grad,) = torch.autograd.grad(loss(leaf, "aule"), leaf)
    for place in [(0, 0, 1), (4, 1, 0), (3, 0, 3), (7, 1, 2)]:
        up, down = x.clone(), x.clone()
        up[place] += 1e-5
        down[place] -= 1e-5
        assert abs((loss(up) - loss(down)) / 2e-5 - grad[place]) < 1e-7


def test_long_sequences():
    """float32 logarithms near -1000 have steps of 1e-4, which the gradient's exp shows: on the CPU too."""
    x, targets, frames, lengths = problem(steps=400, batch=3, classes=30, longest=70)
    leaf = x.clone().requires_grad_()
    own = F.ctc_loss(leaf, targets, frames, lengths, reduction="sum")
    (expected, wide), (actual, grad) = both(x, targets, frames, lengths, reduction="sum")
    assert relative_error(actual, expected) < 3e-6
    assert relative_error(grad, wide) < 1e-4 + 3 * relative_error(torch.autograd.grad(own, leaf)[0], wide)


def test_kernels_of_gpus():
    check_program("gpu_ctc", **without("cpu_kernels"))
    check_program("gpu_ctc", **limited("max_loop_iterations=40000"), **without("cpu_kernels"))


def test_lengths_in_tensors_of_the_device():
    x, targets, frames, lengths = problem()
    expected = aten._ctc_loss(x, targets, frames.tolist(), lengths.tolist())
    actual = aten._ctc_loss.Tensor(*(t.to("aule") for t in (x, targets, frames, lengths)))
    assert relative_error(actual[0], expected[0]) < 3e-5 and actual[1].shape == expected[1].shape
    grad = torch.randn(5)
    wide = aten._ctc_loss_backward(grad, x, targets, frames.tolist(), lengths.tolist(), *expected, 0)
    tensors = [t.to("aule") for t in (grad, x, targets, frames, lengths)]
    assert relative_error(aten._ctc_loss_backward.Tensor(*tensors, *actual, 0), wide) < 1e-4


def test_strides():
    x, targets, frames, lengths = problem()
    expected = F.ctc_loss(x, targets, frames, lengths, reduction="none")
    view = x.permute(1, 2, 0).contiguous().permute(2, 0, 1)
    wide = torch.stack([targets, targets], -1)[..., 1]
    actual = F.ctc_loss(like_strided(view), like_strided(wide), frames, lengths, reduction="none")
    assert_close(actual, expected, rtol=1e-4)
    labels = targets[0, : lengths[0]]  # a sequence without a batch
    one = F.ctc_loss(x[:, 0].to("aule"), labels.to("aule"), frames[0], lengths[0])
    assert_close(one, F.ctc_loss(x[:, 0], labels, frames[0], lengths[0]), rtol=1e-4)


def test_no_elements():
    empty = torch.zeros(4, 0, 3, device="aule"), torch.zeros(0, 2, dtype=torch.int64, device="aule")
    loss, alpha = aten._ctc_loss(*empty, [], [])
    assert loss.shape == (0,) and alpha.shape == (0, 4, 1)


def test_refused_as_on_the_cpu():
    x, targets, frames, lengths = problem()
    f, n = frames.tolist(), lengths.tolist()
    for arguments in (
        (x, targets, f[:-1], n),
        (x, targets, f, n[:-1]),
        (x, targets, f, n, 9),
        (x, targets, [99, *f[1:]], n),
        (x, targets, f, [-1, *n[1:]]),
        (x, targets, f, [99, *n[1:]]),
        (x, targets[:2], f, n),
    ):
        with pytest.raises(RuntimeError) as expected:
            aten._ctc_loss(*arguments)
        with pytest.raises(RuntimeError) as actual:
            aten._ctc_loss(*(a.to("aule") if isinstance(a, torch.Tensor) else a for a in arguments))
        assert str(actual.value).split(", but")[0] == str(expected.value).split(", but")[0]
    with pytest.raises(NotImplementedError, match="Half"):
        aten._ctc_loss(x.half().to("aule"), targets.to("aule"), f, n)
