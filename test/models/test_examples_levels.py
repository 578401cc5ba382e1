"""The progressive example: every level agrees with the first, and one that does not fails the program."""

import dataclasses
import re

import pytest
import torch

from helpers import needs_shader_compiler
from ranks import check_ranks
from torch_aule import examples, validate
from torch_aule.examples import _levels as levels
from torch_aule.examples import progressive
from torch_aule.measure.errors import errors


def test_the_table(device, capsys):
    """The whole program."""
    needs_shader_compiler()
    assert progressive.main(["--quick"]) == 0
    text = capsys.readouterr().out
    rows = re.findall(r"^(L[1-5] .*?)  .* x  (\S+)  passed$", text, re.M)
    assert [name.strip() for name, _ in rows] == [
        "L1 eager", "L2 Inductor", "L3 SDPA", "L3 FlexAttention", "L3 packed sequences", "L4 SDPA, graphs",
        "L4 SDPA, float8 weights", "L5 SDPA, DDP",
    ]  # fmt: skip
    assert all(0 < float(error) < 1e-3 for name, error in rows if "float8" not in name)
    assert "autotune: " in text and "process" in text


@pytest.mark.validated
@pytest.mark.parametrize("attend", [levels.sdpa, levels.varlen])
def test_attention_of_other_levels(device, attend):
    model = levels.network(24, 3, 1).to(device)
    x = torch.randn(2, 11, 24, device=device)
    found = validate.compare(levels.with_attention(model, attend), x, model)
    assert found.passed and found.max_error > 0 and len(found.parts) == 14, found
    assert model[0].attend is levels.written_out


@pytest.mark.validated
def test_float8_weights(device):
    model = levels.network(32, 2, 1).to(device)
    x = torch.randn(3, 5, 32, device=device)
    rounded = levels.with_float8_weights(model)
    assert sum(isinstance(m, levels.Float8Linear) for m in rounded.modules()) == 4
    assert not any(isinstance(m, torch.nn.Linear) for m in rounded.modules()) and isinstance(
        model[0].qkv, torch.nn.Linear
    )
    limits = {torch.float32: progressive.FLOAT8_TOLERANCE}
    found = validate.compare(rounded, x, model, gradients=False, tolerances=limits)
    assert found.passed and found.max_error > 1e-4, found
    values, scales = levels.Float8Linear.rounded(torch.zeros(3, 16, device=device))
    assert values.dtype == levels.FLOAT8 and not values.float().any() and scales.isfinite().all()


def test_two_processes_share_a_batch(tmp_path):
    """The mean of their gradients is that of the whole batch."""
    model, x = levels.network(16, 2, 1), torch.randn(4, 5, 16)
    torch.save((model, x), tmp_path / "problem.pt")
    check_ranks("distributed_levels", 2, str(tmp_path))
    gradients, seconds = torch.load(tmp_path / "result.pt")
    levels.step(model.double(), x.double())
    expected = {f"gradient of {name}": p.grad for name, p in model.named_parameters()}
    least = max(g.abs().max().item() for g in expected.values()) / 100
    assert gradients.keys() == expected.keys() and seconds > 0
    assert all(errors(gradients[name], g, least)[0] < 1e-4 for name, g in expected.items())


def test_a_level_that_differs_fails(device, monkeypatch, capsys):
    model = torch.nn.Linear(3, 2).to(device)
    x = torch.randn(4, 3, device=device)
    good = progressive.Row("L1", "eager", validate.compare(model, x))
    bad = dataclasses.replace(good.comparison, parts=[dataclasses.replace(good.comparison.parts[0], max_error=0.5)])
    rows = [good, progressive.Row("L2", "missing", None, "no compiler"), progressive.Row("L3", "wrong", bad)]
    assert [row.cells()[-1] for row in rows] == ["passed", "not run", "FAILED"]
    monkeypatch.setattr(progressive, "run_progressive_optimization_demo", lambda quick, device: rows)
    assert progressive.main([]) == 1 and "FAILED" in capsys.readouterr().out
    monkeypatch.setattr(progressive, "run_progressive_optimization_demo", lambda quick, device: rows[:2])
    assert progressive.main([]) == 0
    with pytest.raises(SystemExit):
        progressive.main(["--device", "cpu"])


def test_it_is_found_in_the_package():
    assert examples.run_progressive_optimization_demo is progressive.run_progressive_optimization_demo
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        getattr(examples, "nothing")  # noqa: B009
