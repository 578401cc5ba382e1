"""Fake quantization and its gradients against the CPU. Kernels: fake_quantize, observe_range."""

import copy
import math

import pytest
import torch
from torch.ao.quantization import FusedMovingAvgObsFakeQuantize, observer

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


def between_ties(shape, scale, dtype):
    """Numbers that are not near the middle of two steps, where another rounding of x / scale is another step."""
    x = (((torch.randn(shape) * 60).round() + torch.rand(shape) * 0.8 - 0.4) * scale).to(dtype)
    steps = x.double() / scale.double()  # `dtype` may have rounded to the middle
    return torch.where((steps - steps.floor() - 0.5).abs() < 0.05, 0, x)


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
    x, grad = between_ties((9, 31), scale, dtype), torch.randn(9, 31).to(dtype)
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
    x = between_ties((5, 6, 7), scale.view([-1 if dim == axis else 1 for dim in range(3)]), dtype)
    quantized = aten._fake_quantize_learnable_per_channel_affine
    expected = quantized(x.float(), scale, zero, axis, -40, 40, 0.3)
    actual = quantized(x.to("aule"), scale.to("aule"), zero.to("aule"), axis, -40, 40, 0.3)
    assert_close(actual.to(torch.float32), expected, rtol=1e-2 if dtype == torch.bfloat16 else 1e-5)
    backward = aten._fake_quantize_learnable_per_channel_affine_backward
    expected = backward(grad.float(), x.float(), scale, zero, axis, -40, 40, 0.3)
    actual = backward(*(t.to("aule") for t in (grad, x, scale, zero)), axis, -40, 40, 0.3)
    assert actual[0].dtype == dtype
    assert_gradients(actual, expected, dtype)


# The fused observer


def observed(per_channel, symmetric, quint8=False, **options):
    """A module that observes and rounds, with the CPU's own beginning."""
    kind = observer.MovingAveragePerChannelMinMaxObserver if per_channel else observer.MovingAverageMinMaxObserver
    scheme = f"per_{'channel' if per_channel else 'tensor'}_{'symmetric' if symmetric else 'affine'}"
    numbers = {"quant_min": 0, "quant_max": 255, "dtype": torch.quint8} if quint8 else {
        "quant_min": -128, "quant_max": 127, "dtype": torch.qint8}  # fmt: skip
    return FusedMovingAvgObsFakeQuantize(kind, qscheme=getattr(torch, scheme), **numbers, **options)


def state_of(module):
    range_ = module.activation_post_process
    return [range_.min_val, range_.max_val, module.scale, module.zero_point]


def assert_same_states(actual, expected, chosen=True):
    """To the last bit: the kernel has the CPU's arithmetic. What was not `chosen` yet has no values beside a range."""
    for a, e in list(zip(state_of(actual), state_of(expected), strict=True))[: None if chosen else 2]:
        assert a.dtype == e.dtype and a.shape == e.shape
        assert torch.equal(a.cpu(), e)


def assert_trained_alike(cpu, inputs, chosen=True):
    """Steps of the module on both sides: outputs, gradients and what it has observed."""
    ours = copy.deepcopy(cpu).to("aule")
    for x, grad in inputs:
        leaves = [x.clone().requires_grad_(), x.to("aule").requires_grad_()]
        expected, actual = cpu(leaves[0]), ours(leaves[1])
        assert_close(actual, expected)
        expected.backward(grad)
        actual.backward(grad.to("aule"))
        assert torch.equal(leaves[1].grad.cpu(), leaves[0].grad)
        assert_same_states(ours, cpu, chosen)


def steps(*shape, scale=1.0, shift=0.0):
    return [(torch.randn(shape) * scale + shift, torch.randn(shape)) for _ in range(3)]


@pytest.mark.parametrize("quint8", [False, True])
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("per_channel", [False, True])
def test_observer_trains(per_channel, symmetric, quint8):
    module = observed(per_channel, symmetric, quint8, averaging_constant=0.3)
    assert_trained_alike(module, steps(5, 3, 7, scale=4.0, shift=1.0))


@pytest.mark.parametrize(("observes", "rounds"), [(False, True), (True, False), (False, False)])
@pytest.mark.parametrize("per_channel", [False, True])
def test_observer_that_is_switched_off(per_channel, observes, rounds):
    """From the start, where the range is still empty, and after a step."""
    for started in (False, True):
        module = observed(per_channel, symmetric=False)
        if started:
            module(torch.randn(5, 6))
        module.enable_observer(observes)
        module.enable_fake_quant(rounds)
        assert_trained_alike(module, steps(5, 6), chosen=started or rounds or not per_channel)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize(
    "values",
    [[0.0, 0.0], [1.0, 5.0], [-5.0, -1.0], [-2e-7, 1e-7], [0.0, 1e-6], [-1e-6, 0.0], [1e-37, 0.0], [-1e-36, 0.0],
     [-5e-37, 6e-37], [-3e38, 3e38], [-1.0, 1e-30], [-math.inf, 1.0], [-3.5, 3.0], [-1.0, 254.0]],
)  # fmt: skip
def test_ranges_at_the_edge(values, symmetric):
    """Without 0, of a point, too small for a scale, too large for float32."""
    for module in (observed(False, symmetric), observed(True, symmetric, quint8=True)):
        x = torch.tensor([values])
        ours = copy.deepcopy(module).to("aule")
        expected, actual = module(x), ours(x.to("aule"))
        assert_same_states(ours, module)
        if all(map(math.isfinite, values)):
            assert_close(actual, expected)


def test_ranges_at_random():
    """Channels of all magnitudes, symmetric and not, whose zero points round every way."""
    for symmetric in (False, True):
        ends = torch.randn(3000, 2) * torch.logspace(-7, 7, 3000).view(-1, 1)
        assert_trained_alike(observed(True, symmetric, quint8=symmetric), [(ends, torch.randn(3000, 2))] * 2)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("per_channel", [False, True])
def test_observer_of_other_dtypes(per_channel, dtype):
    """The CPU has float32 alone, with which the range, scale and zero point are made."""
    x = (torch.randn(4, 9) * 3).to(dtype)
    cpu, ours = observed(per_channel, False), observed(per_channel, False).to("aule")
    expected, actual = cpu(x.float()), ours(x.to("aule"))
    assert_same_states(ours, cpu)
    assert actual.dtype == dtype
    assert_close(actual.float(), expected, rtol=0 if dtype == torch.float64 else 2**-8, atol=1e-6)


def test_ranges_of_16_bits():
    """As CUDA has it: kept in the input's dtype."""
    x = torch.randn(3, 8).half()
    low, high = (torch.full((3,), v, dtype=torch.float16, device="aule") for v in (math.inf, -math.inf))
    scale, zero = torch.ones(3, device="aule"), torch.zeros(3, dtype=torch.int32, device="aule")
    on = torch.ones(1, dtype=torch.int64, device="aule")
    torch.fused_moving_avg_obs_fake_quant(x.to("aule"), on, on, low, high, scale, zero, 0.1, 0, 255, 0, True, False)
    assert torch.equal(low.cpu(), x.amin(1)) and torch.equal(high.cpu(), x.amax(1))


def test_observer_along_another_axis():
    """The CPU observes along the first dimension alone."""
    x = torch.randn(4, 5, 6)
    cpu, ours = observed(True, True), observed(True, True, ch_axis=1).to("aule")
    expected = cpu(x.transpose(0, 1).contiguous()).transpose(0, 1)
    assert_close(ours(x.to("aule")), expected)
    assert_same_states(ours, cpu)


def test_observer_of_views():
    """Inputs and states that are not contiguous, and states that are parts of others."""
    x = torch.randn(6, 5).t()
    cpu = observed(True, False)
    expected = cpu(x)
    states = [torch.zeros(5, 3, dtype=t.dtype, device="aule") for t in state_of(cpu)]
    low, high, scale, zero = (s[:, 1] for s in states)
    low.fill_(math.inf)
    high.fill_(-math.inf)
    on = torch.ones(2, dtype=torch.int64, device="aule")[1:]
    actual = torch.fused_moving_avg_obs_fake_quant(
        like_strided(x), on, on, low, high, scale, zero, 0.01, -128, 127, 0, True, False
    )
    assert_close(actual, expected)
    for s, e in zip(states, state_of(cpu), strict=True):
        assert torch.equal(s[:, 1].cpu(), e) and not s[:, 0].any() and not s[:, 2].any()


def test_observer_waits_for_nothing():
    """The switches are read by the kernel."""
    ours = observed(True, False).to("aule")
    x = torch.randn(4, 5, device="aule")
    torch.aule.set_sync_debug_mode("error")
    try:
        ours(x)
        ours(x)
    finally:
        torch.aule.set_sync_debug_mode("default")


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


def test_observer_refuses():
    x, on = torch.randn(3, 4, device="aule"), torch.ones(1, dtype=torch.int64, device="aule")
    low, high, scale, zero = (torch.zeros(3, device="aule") for _ in range(4))
    run = torch.fused_moving_avg_obs_fake_quant
    with pytest.raises(RuntimeError, match="expected ch_axis below 2, got 2"):
        run(x, on, on, low, high, scale, zero, 0.1, 0, 255, 2, True, False)
    with pytest.raises(RuntimeError, match="expected 4 numbers in running_min"):
        run(x, on, on, low, high, scale, zero, 0.1, 0, 255, 1, True, False)
    with pytest.raises(RuntimeError, match="expected 1 numbers in observer_on"):
        run(x, low, on, low, high, scale, zero, 0.1, 0, 255, 0, True, False)
    with pytest.raises(RuntimeError, match="a running range of one floating dtype"):
        run(x, on, on, low.int(), high, scale, zero, 0.1, 0, 255, 0, True, False)
    with pytest.raises(RuntimeError, match="quant_min"):
        run(x, on, on, low, high, scale, zero, 0.1, 9, 5, 0, True, False)


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
