"""torch_aule.validate: what agrees passes, what differs fails by name, and the model stays as it was."""

import re
from pathlib import Path

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F

import torch_aule
from helpers import needs_shader_compiler
from torch_aule import validate
from torch_aule.measure.errors import difference, errors, tolerance_of

ROOT = Path(__file__).resolve().parents[2]


def network(dtype=torch.float32):
    return nn.Sequential(nn.Linear(9, 7), nn.BatchNorm1d(7), nn.GELU(), nn.Dropout(0.5), nn.Linear(7, 5)).to(dtype)


@pytest.mark.validated
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_model_agrees_with_the_cpu(device, dtype):
    model, x = network(dtype).to(device), torch.randn(9, 11, dtype=dtype, device=device).t()
    found = torch_aule.validate.compare(model, x)
    assert found.passed and 0 < found.mean_error <= found.max_error and not found.notes, found
    gradients = [f"gradient of {name}" for name, _ in model.named_parameters()]
    assert [part.name for part in found.parts] == ["output 0", "gradient of input 0", *gradients]
    assert found.parts[0].tolerance == validate.TOLERANCES[dtype].outputs
    assert found.parts[1].tolerance == validate.TOLERANCES[dtype].gradients
    assert found.seconds > 0 and found.reference_seconds > 0
    assert found.peak_bytes > 0 and found.reference_peak_bytes is None
    assert "Sequential against the CPU in float64: passed, 8 of 8 tensors agree" in repr(found)


@pytest.mark.validated
def test_the_model_stays_as_it_was(device):
    model, x = network().to(device), torch.randn(11, 9, device=device)
    before = {name: t.clone() for name, t in model.state_dict().items()}
    model[4].bias.grad = torch.ones_like(model[4].bias)
    model[3].p = 0.0
    found = validate.compare(model, x, training=True)
    assert found.passed and all(module.training for module in model.modules()), found
    assert all(torch.equal(t, before[name]) for name, t in model.state_dict().items())
    assert torch.equal(model[4].bias.grad.cpu(), torch.ones(5)) and model[0].weight.grad is None


@pytest.mark.validated
def test_what_differs_has_its_name(device):
    model = network().to(device)
    older = network().to(device)
    older.load_state_dict(model.state_dict())
    x = torch.randn(11, 9, device=device)
    assert validate.compare(model, x, older).max_error == 0
    with torch.no_grad():
        older[4].bias[3] += 0.5
    found = validate.compare(model, x, older)
    assert [part.name for part in found.failures] == ["output 0"] and not found.passed and "FAILED" in repr(found)

    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            return x.clone()

        @staticmethod
        def backward(context, grad):
            return 2 * grad

    class Wrong(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(9, 4)

        def forward(self, x):
            y = self.layer(x)
            return Doubled.apply(y) if y.device.type == "aule" else y

    found = validate.compare(Wrong().to(device), x)
    names = {part.name for part in found.failures}
    assert names == {"gradient of input 0", "gradient of layer.weight", "gradient of layer.bias"}
    assert validate.compare(Wrong().to(device), x, gradients=False).passed


@pytest.mark.validated
def test_inputs_by_name_and_outputs_of_all_kinds(device):
    class Named(nn.Module):
        def forward(self, *, values, rows):
            kept = values[rows]
            return {"sums": kept.sum(0), "rows": (rows + 1, torch.fft.rfft(kept)), "none": kept[:0]}

    given = {"values": torch.randn(6, 5, device=device), "rows": torch.tensor([4, 0, 4], device=device)}
    found = validate.compare(Named(), given)
    tolerances = {part.name: part.tolerance for part in found.parts}
    assert found.passed and list(tolerances) == [*(f"output {i}" for i in range(4)), "gradient of input values"], found
    assert [tolerances[f"output {i}"] for i in range(4)] == [1e-4, 0.0, 1e-4, 1e-4]


@pytest.mark.validated
def test_a_source_that_names_a_dtype_is_compared_in_it(device):
    class Float32(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(5, 3)

        def forward(self, x):
            return self.layer(x.float())

    found = validate.compare(Float32().to(device), torch.randn(4, 5, device=device))
    assert found.passed and found.reference == "the CPU" and "does not run in float64" in found.notes[0]


@pytest.mark.validated
def test_a_gradient_that_ought_to_be_zero(device):
    """The bias of the keys moves every score of a row alike: what is left is rounding."""

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k, self.v = (nn.Linear(12, 12) for _ in range(3))

        def forward(self, x):
            return F.scaled_dot_product_attention(self.q(x), self.k(x), self.v(x))

    found = validate.compare(Attention().to(device), torch.randn(2, 3, 7, 12, device=device))
    assert found.passed, found


def test_autocast_needs_the_dtype_said(device):
    class Autocast(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(33, 3)

        def forward(self, x):
            with torch.autocast(x.device.type, torch.bfloat16, enabled=x.dtype == torch.float32):
                return self.layer(x).to(x.dtype)

    model, x = Autocast().to(device), torch.randn(21, 33, device=device)
    assert not validate.compare(model, x).passed
    assert validate.compare(model, x, computed_in=torch.bfloat16).passed
    assert validate.compare(model, x, tolerances={torch.float32: 0.1}).passed


def test_variants_with_other_parameters(device):
    first, second = nn.Sequential(nn.Linear(4, 3)).to(device), nn.Sequential(nn.Linear(4, 3, bias=False)).to(device)
    with torch.no_grad():
        first[0].bias.zero_()
        second[0].weight.copy_(first[0].weight)
    found = validate.compare(first, torch.randn(5, 4, device=device), second)
    assert found.passed and found.notes == ["only one of the two has the gradient of 0.bias"]
    found = validate.compare(nn.Identity(), torch.randn(5, 4, device=device), nn.Flatten(0))
    assert found.failures[0].name == "output 0" and found.max_error == float("inf")


@pytest.mark.parametrize("taken, passed", [(1.0, True), (1.04, True), (1.06, False), (0.5, True)])
def test_performance_by_its_threshold(taken, passed):
    found = validate.Performance(taken, 1.0, validate.THRESHOLD)
    assert found.passed is passed and found.change == pytest.approx(taken - 1)
    assert ("slower (" in repr(found)) is (taken > 1) and ("FAILED" in repr(found)) is not passed


def test_performance_against_a_slower_and_a_faster_variant(device):
    class Slow(nn.Module):
        def forward(self, x):
            for _ in range(100):
                x = x * 1.01
            return x

    x = torch.randn(37, 41, device=device)
    assert validate.check_performance(nn.Identity(), x, Slow(), runs=3).passed
    found = validate.check_performance(Slow(), x, nn.Identity(), runs=3)
    assert not found.passed and found.change > 1
    assert validate.check_performance(nn.Identity(), x, 10.0, runs=1).passed
    assert not validate.check_performance(Slow(), x, 1e-9, runs=1).passed
    before = validate.compare(nn.Identity(), x, gradients=False)
    assert validate.check_performance(nn.Identity(), x, before, runs=1).baseline_seconds == before.seconds


def test_levels(device):
    needs_shader_compiler()
    model, x = nn.Sequential(nn.Linear(9, 7), nn.GELU()).to(device), torch.randn(11, 9, device=device)
    found = validate.compare_levels(model, x, runs=1)
    assert found.passed and set(found.comparisons) == {
        ("compiled", "eager"), ("graphs", "eager"), ("graphs", "compiled")
    }  # fmt: skip
    assert list(found.seconds) == list(validate.LEVELS) and found.fastest in validate.LEVELS
    assert "all levels agree" in repr(found) and model.training
    other = nn.Sequential(nn.Linear(9, 7), nn.GELU()).to(device)
    found = validate.compare_levels(model, x, {"one": model, "same": model, "other": other}, gradients=True, runs=1)
    good = {pair: one.passed for pair, one in found.comparisons.items()}
    assert good == {("same", "one"): True, ("other", "one"): False, ("other", "same"): False}
    assert not found.passed and "marked with !" in repr(found)


def test_errors_of_tensors():
    x = torch.randn(4, 5)
    assert errors(x, x.clone()) == (0, 0) and errors(x[:0], x[:0]) == (0, 0) and difference([x], [x, x]) == float("inf")
    moved = x.clone()
    moved[1, 2] += 0.5
    largest, mean = errors(moved, x)
    assert largest == pytest.approx(20 * mean) == pytest.approx(0.5 / x.abs().max().item(), rel=1e-5)
    assert errors(moved, x, 100.0)[0] == pytest.approx(0.005, rel=1e-4)
    moved[0, 0] = float("inf")
    assert errors(moved, x)[0] == errors(x, moved)[0] == float("inf") and errors(moved, moved.clone()) == (0, 0)
    assert tolerance_of([torch.complex64]) == validate.TOLERANCES[torch.float32]
    assert tolerance_of([torch.int64]) == tolerance_of([]) == (0, 0)


def test_wrong_arguments():
    model, x = nn.Linear(3, 2), torch.ones(1, 3)
    with pytest.raises(TypeError, match="compare: expected model to be a torch.nn.Module, got function"):
        validate.compare(lambda x: x, x)
    with pytest.raises(TypeError, match="compare: expected reference to be a torch.nn.Module, got int"):
        validate.compare(model, x, 3)
    with pytest.raises(ValueError, match="compare: expected runs to be positive, got 0"):
        validate.compare(model, x, runs=0)
    with pytest.raises(TypeError, match="check_performance: expected baseline to be seconds.* got str"):
        validate.check_performance(model, x, "1 s")
    with pytest.raises(ValueError, match="baseline above 0 seconds, got 0"):
        validate.check_performance(model, x, 0)
    with pytest.raises(ValueError, match="threshold to be at least 0, got -1"):
        validate.check_performance(model, x, 1.0, threshold=-1)
    with pytest.raises(ValueError, match="at_level: expected level to be one of eager, compiled, graphs, got 'best'"):
        validate.at_level(model, "best")
    with pytest.raises(ValueError, match="at least two levels, got 1"):
        validate.compare_levels(model, x, ["eager"])

    class Nothing(nn.Module):
        def forward(self, x):
            return None

    with pytest.raises(ValueError, match="compare: Nothing returns no tensor"):
        validate.compare(Nothing(), x)


def test_one_list_of_names():
    assert torch_aule.validate.compare is torch_aule.validation.compare
    assert torch_aule.validate.__all__ == torch_aule.validation.__all__


def test_the_page(device, capsys):
    """Its program runs and prints what the page shows, but for the numbers; its table has the tolerances."""
    needs_shader_compiler()
    page = (ROOT / "docs/use/validation.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", page, re.S)
    exec(program, {})
    printed = capsys.readouterr().out
    shown = re.search(r"prints\n\n((?:    .*\n|\n)+)", page)[1]

    def words(text):
        return set(re.findall(r"[a-z]{4,}", text)) - {"faster"}  # or slower

    assert words(shown) == words(printed)
    for dtype, one in validate.TOLERANCES.items():
        row = f"| {str(dtype).removeprefix('torch.')} | {one.outputs:.0e} | {one.gradients:.0e} |"
        assert row.replace("e-0", "e-") in page, row
