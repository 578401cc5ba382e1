"""torch_aule.assistant: what it finds in models, what it predicts, and what it does to them."""

import dataclasses
import inspect
import math
import re
from pathlib import Path

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F

import torch_aule
from helpers import assert_close, needs_shader_compiler
from torch_aule.assistant import OptimizationAssistant, Recommendation, changes, rules, source
from torch_aule.measure.errors import difference
from torch_aule.measure.numbers import count_text
from torch_aule.measure.roof import Roof

needs_shader_compiler()
ROOT = Path(__file__).resolve().parents[2]
ROOF = Roof("a device", "a driver", 1e13, {"float32": 1e13, "bfloat16": 2e13, "float16": 4e13}, 0.0)


@pytest.fixture(autouse=True)
def forgotten(monkeypatch):
    """What is recommended does not hang on how busy this machine is: no gain is too small for it."""
    monkeypatch.setattr(rules, "LEAST", 0.0)
    yield
    torch._dynamo.reset()


def assistant(**options):
    return OptimizationAssistant(runs=2, roof=ROOF, **options)


class Attention(nn.Module):
    """Attention that is written out, after a value that the host asks for."""

    def __init__(self, width=24, heads=2, drop=0.1):
        super().__init__()
        self.qkv, self.heads, self.drop = nn.Linear(width, 3 * width), heads, nn.Dropout(drop)

    def forward(self, x):
        if x.abs().max().item() > 1e30:
            x = x / 2
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        weights = self.drop(torch.softmax(scores, -1))
        return (weights @ v).transpose(1, 2).flatten(2)


def line_of(text: str) -> str:
    lines, first = inspect.getsourcelines(Attention)
    (number,) = [first + i for i, line in enumerate(lines) if text in line]
    return f"test_assistant.py:{number}"


def test_the_promised_example(device):
    """Interactive: it lists, asks about each change that it can make, and what it returns computes the same."""
    model = nn.Sequential(nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 128))
    assert torch_aule.assistant.OptimizationAssistant is OptimizationAssistant
    questions, lines = [], []
    found = assistant(ask=lambda text: questions.append(text) or "y", write=lines.append).optimize_model(
        model, interactive=True
    )
    assert next(model.parameters()).device.type == "cpu" and next(found.model.parameters()).device.type == "aule"
    assert model.training and found.model_info["parameters"] == 512 * 256 + 256 + 256 * 128 + 128
    assert found.model_info["input"] == "32x512 float32" and 0 < found.score <= 1
    asked = [one.description for one in found.recommendations if one.type in changes.APPLICABLE]
    assert questions == [f"{text}? [y/N] " for text in asked]
    assert len(found.applied.outcomes) == len(asked) and any(one.type == "precision" for one in found.recommendations)
    assert all(one.error <= one.tolerance for one in found.applied.outcomes if one.kept)
    text = "\n".join(lines)
    assert str(found) in text and str(found.applied) in text
    x = torch.randn(5, 512)
    kept = {one.type for one in found.applied.outcomes if one.kept}
    with torch.no_grad():
        assert_close(found.model(x.to(device)), model(x), rtol=1e-4, atol=1e-4)
        limit = 4e-2 if "precision" in kept else 1e-4
        assert difference([found.applied.model(x.to(device)).cpu()], [model(x)]) <= limit


@pytest.mark.parametrize("answer", ["", "n", None])
def test_no_is_no(device, answer):
    def ask(question):
        if answer is None:
            raise EOFError
        return answer

    found = assistant(ask=ask, write=lambda line: None).optimize_model(nn.Linear(9, 5), interactive=True)
    assert found.applied.outcomes == [] and found.applied.model is found.model


def test_attention_and_synchronisation_are_found_with_their_lines(device):
    model = Attention().to(device)
    x = torch.randn(3, 10, 24, device=device)
    found = assistant().optimize_model(model, x)
    by_type = {one.type: one for one in found.recommendations}
    assert {"attention", "synchronisation", "graph_breaks", "mode"} <= set(by_type)
    assert line_of("torch.softmax(") in by_type["attention"].finding
    assert line_of(".item()") in by_type["synchronisation"].finding
    assert line_of(".item()") in by_type["graph_breaks"].finding and "Dropout" in by_type["mode"].finding
    assert model.training and model.drop.training and found.model is model
    assert not any(one.safe for one in found.recommendations if one.type != "compile")
    for one in found.recommendations:
        assert one.expected_improvement >= 1 and one.steps and (ROOT / one.page).exists()
        compile(one.code_example, one.type, "exec")


def test_written_out_attention_by_its_shapes(device):
    q, k, v = (torch.randn(2, 3, n, d, device=device) for n, d in ((5, 8), (7, 8), (7, 9)))
    hidden = torch.rand(5, 7, device=device) > 0.9

    def masked(q, k, v):
        scores = torch.matmul(q, k.mT).mul(0.3).masked_fill(hidden, -1e9)
        return torch.matmul(F.dropout(F.softmax(scores, dim=-1), 0.0).to(q.dtype), v)

    def batched(q, k, v):
        return torch.bmm(torch.bmm(q.flatten(0, 1), k.flatten(0, 1).mT).softmax(-1), v.flatten(0, 1))

    class Wrapped(nn.Module):
        def __init__(self, function):
            super().__init__()
            self.function = function

        def forward(self, *args):
            return self.function(*args)

    for function in (masked, batched):
        seen = source.look(Wrapped(function), lambda m: m(q, k, v))
        (one,) = seen.attention
        assert seen.graphs == 1 and not seen.breaks and not seen.failure
        assert one.flops == 2 * 2 * 3 * 5 * 7 * (8 + 9) and one.dtype == "float32"
        assert one.bytes == 4 * 2 * 3 * (5 * 8 + 7 * 8 + 7 * 9 + 5 * 9)
        assert one.least_seconds(ROOF) == max(one.bytes, one.flops) / 1e13
    others = (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v),
        lambda q, k, v: torch.softmax(q @ k.mT, -1),
        lambda q, k, v: torch.softmax(v, -2).mT @ v,
        lambda q, k, v: torch.relu(q @ k.mT) @ v,
    )
    for function in others:
        assert source.look(Wrapped(function), lambda m, f=function: m(q, k, v)).attention == []


def test_a_failure_of_dynamo_is_told(device, monkeypatch):
    def explain(function):
        raise torch._dynamo.exc.Unsupported("not this one\nat all")

    monkeypatch.setattr(torch._dynamo, "explain", explain)
    x = torch.ones(3, 2, device=device)
    found = assistant().optimize_model(nn.Linear(2, 2).to(device), x, optimization_level="aggressive")
    (note,) = [note for note in found.notes if "could not trace" in note]
    assert note.endswith("Unsupported: not this one")
    assert not {"compile", "graphs"} & {one.type for one in found.recommendations}


def test_operators_on_the_cpu_are_found_in_strict_mode_too(device):
    library = torch.library.Library("aule_assistant_test", "DEF")
    library.define("cube(Tensor x) -> Tensor")
    library.impl("cube", lambda x: x * x * x, "CPU")

    class Cube(nn.Module):
        def forward(self, x):
            return torch.ops.aule_assistant_test.cube(x)

    with torch.aule.strict():
        found = assistant().optimize_model(Cube(), torch.rand(7, device=device), optimization_level="conservative")
        assert torch.aule.is_strict()
    (one,) = [r for r in found.recommendations if r.type == "fallback"]
    assert one.priority == "high" and "aule_assistant_test::cube" in one.finding


def test_levels(device):
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 5, 3)).to(device).eval()
    x = torch.randn(2, 3, 12, 11, device=device)
    types = {
        level: {one.type for one in assistant().optimize_model(model, x, optimization_level=level).recommendations}
        for level in rules.LEVELS
    }
    assert types["conservative"] == set() and "layout" in types["balanced"] and "graphs" not in types["balanced"]
    assert types["balanced"] <= types["aggressive"] | {"compile", "precision"}
    model.to(memory_format=torch.channels_last)
    found = assistant().optimize_model(model, x)
    assert "channels-last convolutions" in found.current_optimizations
    assert "layout" not in {one.type for one in found.recommendations}


def test_what_a_change_brings_at_most():
    """The dtype that the roof shows to be fastest, and none where 16 bits are not faster."""

    class Report:
        roof = ROOF

    assert rules.faster_dtype(Report) is torch.float16
    Report.roof = Roof("", "", 1e9, {"float32": 1e9, "float16": 1e9}, 0.0)
    assert rules.faster_dtype(Report) is None
    Report.roof = None
    assert rules.faster_dtype(Report) is None
    rule = rules.RULES[0]
    assert [rules.priority(rule, gain) for gain in (2.0, 1.2, 1.0)] == ["high", "medium", "low"]


def recommended(*types):
    texts = {
        "priority": "low",
        "description": "d",
        "finding": "f",
        "explanation": "e",
        "steps": (),
        "page": "README.md",
    }
    rest = {**texts, "expected_improvement": 1.0, "difficulty": "easy", "code_example": ""}
    return [Recommendation(type=one, safe=one in changes.SAFE, **rest) for one in types]


@pytest.mark.parametrize("faster", [True, False])
def test_changes_are_kept_if_they_are_faster(device, monkeypatch, faster):
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 5, 3)).to(device)
    x, expected = torch.randn(2, 3, 12, 11, device=device), None
    with torch.no_grad():
        expected = model(x).cpu()
    times = iter([1.0, 0.9 if faster else 1.0] * 4)
    monkeypatch.setattr(OptimizationAssistant, "_median", lambda self, built, inputs: next(times))
    recs = recommended("compile", "layout", "attention", "precision")
    done = assistant().apply_recommendations(model, recs, sample_input=x)
    outcomes = {one.type: one for one in done.outcomes}
    assert [one.type for one in done.outcomes] == ["layout", "precision", "compile", "attention"]
    assert outcomes["layout"].kept is outcomes["compile"].kept is faster and model.training
    assert not outcomes["precision"].kept and "auto_implement" in outcomes["precision"].reason
    assert not outcomes["attention"].kept and "source" in outcomes["attention"].reason
    assert model[0].weight.is_contiguous(memory_format=torch.channels_last) is faster
    assert model[0].weight.is_contiguous() is not faster
    assert (done.model is model) is not faster and outcomes["layout"].after_seconds == (0.9 if faster else 1.0)
    with torch.no_grad():
        assert_close(done.model(x), expected, rtol=1e-4, atol=1e-4)
        done = assistant().apply_recommendations(model, recommended("precision"), True, x)
    assert done.outcomes[0].kept is faster and 0 < done.outcomes[0].error < 4e-2
    with torch.no_grad():
        assert (done.model(x).dtype == torch.bfloat16) is faster


def test_a_change_that_computes_something_else_is_not_kept(device, monkeypatch):
    model, x = nn.Linear(6, 4).to(device), torch.randn(3, 6, device=device)
    monkeypatch.setattr(torch, "compile", lambda built, mode: nn.Sequential(built, nn.Threshold(0.3, 1.0)))
    (one,) = assistant().apply_recommendations(model, recommended("compile"), sample_input=x).outcomes
    assert not one.kept and one.reason == "outputs differ" and one.error > one.tolerance and one.after_seconds is None

    def refuse(built, mode):
        raise RuntimeError("no compiler\nat all")

    monkeypatch.setattr(torch, "compile", refuse)
    done = assistant().apply_recommendations(model, recommended("compile"), sample_input=x)
    assert done.outcomes[0].reason == "it failed: RuntimeError: no compiler" and done.model is model


def test_random_outputs_cannot_be_compared(device):
    class Noise(nn.Module):
        def forward(self, x):
            return x + torch.rand_like(x)

    recs = recommended("compile")
    (one,) = assistant().apply_recommendations(Noise(), recs, sample_input=torch.ones(9, device=device)).outcomes
    assert not one.kept and "outputs differ between two calls" in one.reason


def test_difference():
    x = torch.randn(4, 5)
    assert difference([x], [x.clone()]) == 0 and difference([], []) == 0
    assert difference([x[:, :4]], [x]) == difference([], [x]) == math.inf
    moved = x.clone()
    moved[1, 2] += 0.5
    assert difference([moved], [x]) == pytest.approx(0.5 / x.abs().max().item(), rel=1e-5)
    moved[1, 2] = math.nan
    assert difference([moved], [x]) == math.inf and difference([moved], [moved.clone()]) == 0
    assert difference([torch.tensor([3])], [torch.tensor([2])]) == 0.5


def test_inputs_are_derived_from_the_first_layer(device):
    layers = {"32x7 float32": nn.Linear(7, 3), "4x3x64x64 float32": nn.Conv2d(3, 2, 5, stride=4),
              "4x64 int64": nn.Embedding(11, 3)}  # fmt: skip
    for words, layer in layers.items():
        found = assistant().optimize_model(nn.Sequential(nn.Identity(), layer), optimization_level="conservative")
        assert found.model_info["input"] == words
    with pytest.raises(ValueError, match="sample_input is needed: forward of LSTM takes input.*LSTM"):
        assistant().optimize_model(nn.LSTM(3, 4))
    with pytest.raises(ValueError, match="sample_input is needed: forward of Bilinear takes input1, input2"):
        assistant().optimize_model(nn.Bilinear(3, 4, 5))
    with pytest.raises(ValueError, match="first layer suggests .32x7 float32.*Give sample_input"):
        assistant().optimize_model(nn.Sequential(nn.Unflatten(1, (3, 3)), nn.Linear(7, 2)))


def test_errors(device):
    with pytest.raises(TypeError, match="expected model to be a torch.nn.Module, got function"):
        assistant().optimize_model(lambda x: x)
    with pytest.raises(
        ValueError, match="optimization_level to be one of conservative, balanced, aggressive, got 'no'"
    ):
        assistant().optimize_model(nn.Linear(2, 2), optimization_level="no")
    with pytest.raises(ValueError, match="runs must be positive, got 0"):
        OptimizationAssistant(runs=0)
    with pytest.raises(ValueError, match="apply_recommendations: expected model on aule:0, but a part is on cpu"):
        assistant().apply_recommendations(nn.Linear(2, 2), [])


@pytest.mark.parametrize("make", [torch.jit.script, lambda m: torch.jit.trace(m, torch.ones(3, 2))])
def test_modules_of_torchscript_are_refused_in_one_sentence(device, make):
    scripted = make(nn.Linear(2, 2))
    for model, where in ((scripted, "model"), (nn.Sequential(nn.ReLU(), scripted), "its part '1'")):
        for call in (lambda m=model: assistant().optimize_model(m, torch.ones(3, 2)),
                     lambda m=model: assistant().apply_recommendations(m.to(device), [])):  # fmt: skip
            with pytest.raises(TypeError, match=f": {where} is a ScriptModule.*; give the module"):
                call()


def test_one_is_singular(device):
    model = Attention(drop=0.0).to(device)
    found = assistant().optimize_model(model, torch.randn(2, 5, 24, device=device), optimization_level="balanced")
    (attention,) = [one for one in found.recommendations if one.type == "attention"]
    assert attention.finding.startswith("softmax(q k^T) v is written out in 1 place: ")
    one, two = (dataclasses.replace(found, recommendations=[attention] * n) for n in (1, 2))
    assert "\n1 recommendation\n" in str(one) and "\n2 recommendations\n" in str(two)
    assert [count_text(n, "launch", "launches") for n in (0, 1, 1.0, 1.5, 2)] == [
        "0 launches", "1 launch", "1 launch", "1.5 launches", "2 launches"]  # fmt: skip


def test_the_page(device, capsys):
    """Its program runs, and what it shows has the lines that the page promises."""
    page = (ROOT / "docs/use/assistant.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", page, re.S)
    names = {}
    exec(program, names)
    printed = capsys.readouterr().out
    shown = page.split("prints")[1]
    for start in ("score ", "bottlenecks:", "in use: ", "most that one change can bring"):
        assert start in printed and start in shown
    assert {one.type for one in names["result"].recommendations} >= {"attention"}
    for rule in rules.RULES:
        assert f"| `{rule.type}` | {rule.level} |" in page
