"""Whole models of transformers and diffusers on the device against the CPU: outputs and every parameter's gradient.

The models are tiny and random (model_families.py, diffusion_families.py). Their parameters are drawn anew, with the
size that keeps signals at size 1 through the layers: with a library's own small initial weights many outputs are
near zero, and so is any error.
"""

import copy

import numpy as np
import pytest
import torch
from torch.utils._pytree import tree_map_only

from helpers import to_cpu, to_device
from kinks import draw_clear

pytest.importorskip("transformers")
pytest.importorskip("diffusers")

import diffusion_families  # noqa: E402
import model_families  # noqa: E402

FAMILIES = {**model_families.TRANSFORMERS, **diffusion_families.DIFFUSERS}

# Largest difference, relative to the largest value, of an output and of a parameter's gradient: thrice what was seen.
OUTPUT_TOLERANCE = 1e-5
GRADIENT_TOLERANCE = 5e-5
# Families that enlarge rounding errors: dac takes sines of sines, where the CPU's own error against float64 is 4e-5.
# mobilevit has norms of small batches (gradients of 25 draws: the CPU 6e-5 at worst, lavapipe 1.2e-4).
LOOSER = {"dac": 20, "mobilevit": 4}
# Families that choose the nearest code of a codebook. Where two are about as near, rounding decides: fixed inputs.
FIXED = {"encodec", "dac"}
# A gradient that is nought but for rounding (of a key's bias, say) is measured by this part of the model's largest one.
SMALLEST_GRADIENT = 1e-2


def redraw(model):
    """Give every parameter a size that matters: matrices keep the size of signals, vectors vary by 0.3."""
    tables = {id(m.weight) for m in model.modules() if isinstance(m, torch.nn.Embedding)}
    with torch.no_grad():
        for parameter in model.parameters():
            if id(parameter) in tables:
                parameter.normal_()
            elif parameter.squeeze().dim() >= 2:
                parameter.normal_(std=(parameter[0].numel()) ** -0.5)
            else:
                parameter.add_(0.3 * torch.randn_like(parameter))


def build(family):
    if family in FIXED:
        torch.manual_seed(6)
    np.random.seed(torch.initial_seed() % 2**31)
    model, inputs = FAMILIES[family]()
    redraw(model.eval())
    norms = [module for module in model.modules() if isinstance(module, torch.nn.modules.batchnorm._BatchNorm)]
    if norms:  # their statistics are those of these inputs: without, signals vanish in a deep network
        for norm in norms:
            norm.momentum = 1.0
            norm.train()
        with torch.no_grad():
            model(**inputs)
    return model.eval(), inputs


def float_tensors(output, name="out"):
    """(name, tensor) of the tensors that a gradient can flow from."""
    if isinstance(output, torch.Tensor):
        if output.is_floating_point() and output.requires_grad:
            yield name, output
    elif isinstance(output, dict) or hasattr(output, "items"):
        for key, value in output.items():
            yield from float_tensors(value, key)
    elif isinstance(output, (tuple, list)):
        for number, value in enumerate(output):
            yield from float_tensors(value, f"{name}[{number}]")
    elif hasattr(output, "__dict__"):
        yield from float_tensors(vars(output), name)


def run(model, inputs, weights):
    """Outputs and gradients of a random projection of them."""
    np.random.seed(7)  # big_bird draws its random blocks there
    outputs = dict(float_tensors(model(**inputs)))
    assert outputs
    outputs.pop("loss", None)  # only training computes one
    for name, value in outputs.items():
        if name not in weights:
            weights[name] = torch.randn(value.shape)
        assert weights[name].shape == value.shape, f"{name}: {tuple(value.shape)}, not {tuple(weights[name].shape)}"
    sum((value * weights[name].to(value.device)).sum() for name, value in outputs.items()).backward()
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return to_cpu(outputs), to_cpu(gradients)


def relative_error(actual, expected, least=0.0):
    assert torch.isfinite(expected).all() and actual.shape == expected.shape
    largest = max(expected.abs().max().item(), least)
    return (actual - expected).abs().max().item() / largest if largest else actual.abs().max().item()


def draw_that_says_something(family):
    """A model, what it gives on the CPU, and what that is weighted by."""
    for _ in range(4):
        model, inputs = build(family)
        weights = {}
        outputs, gradients = run(model, inputs, weights)
        # An output that is the same at every place, or nearly nothing, would compare equal whatever was computed. Of a
        # model that ends in a ReLU some draws are like that.
        weak = {name: value.std().item() for name, value in outputs.items() if value.numel() > 1 and value.std() < 1e-2}
        if not weak:
            return model, inputs, weights, outputs, gradients
    raise AssertionError(f"four draws in a row give next to nothing: {weak}")


def in_float64(model, inputs, weights):
    def wide(tree):
        return tree_map_only(torch.Tensor, lambda t: t.double() if t.is_floating_point() else t, tree)

    return run(model.double(), wide(inputs), wide(weights))


def compare(family, device):
    model, inputs, weights, outputs, gradients = draw_clear(lambda: draw_that_says_something(family))
    model.zero_grad()
    on_device = copy.deepcopy(model).to(device)
    device_outputs, device_gradients = run(on_device, to_device(inputs, device), weights)
    assert device_outputs.keys() == outputs.keys() and device_gradients.keys() == gradients.keys()
    largest = max(gradient.abs().max().item() for gradient in gradients.values())
    large = sum(gradient.abs().max().item() > SMALLEST_GRADIENT * largest for gradient in gradients.values())
    assert large > len(gradients) / 3, f"{large} of {len(gradients)} gradients are more than nothing"
    worst_output = max((relative_error(device_outputs[name], outputs[name]), name) for name in outputs)
    worst_gradient = max(
        (relative_error(device_gradients[name], gradients[name], SMALLEST_GRADIENT * largest), name)
        for name in gradients
    )
    for what, (error, name) in (("output", worst_output), ("gradient", worst_gradient)):
        print(f"{family}: {what} {error:.1e} {name}")
    factor = LOOSER.get(family, 1)
    if worst_output[0] < factor * OUTPUT_TOLERANCE and worst_gradient[0] < factor * GRADIENT_TOLERANCE:
        return
    # A value that a rounding carries over the kink of a ReLU changes a gradient by percents, on the CPU as here, and
    # some draws enlarge rounding errors. Float64 then says who is right: the device may err thrice as much as the CPU's
    # worst, for which of two alike tensors the draw hits is chance.
    wide_outputs, wide_gradients = in_float64(model, inputs, weights)
    for wide, ours, cpus, tolerance, least in (
        (wide_outputs, device_outputs, outputs, OUTPUT_TOLERANCE, 0.0),
        (wide_gradients, device_gradients, gradients, GRADIENT_TOLERANCE, SMALLEST_GRADIENT * largest),
    ):
        cpu_error = max(relative_error(cpus[name].double(), exact, least) for name, exact in wide.items())
        for name, exact in wide.items():
            error = relative_error(ours[name].double(), exact, least)
            limit = max(factor * tolerance, min(3 * cpu_error, 10 * tolerance))
            assert error < limit, f"{name}: {error:.1e} from float64, the CPU {cpu_error:.1e}"


@pytest.mark.sampled(12)
@pytest.mark.parametrize("family", FAMILIES)
def test_family(device, family):
    torch.aule.reset_fallback_report()
    compare(family, device)
    assert not torch.aule.fallback_report()
