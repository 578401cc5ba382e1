"""The small examples: each runs strict and learns, and its numbers are the CPU's."""

import importlib
import re

import pytest
import torch

from helpers import ROOT, relative_error, run_interpreter, run_python, to_device
from torch_aule.examples import _common, generate, gnn, recommender, vit


@pytest.fixture
def run(device, capsys):
    """What the example prints, which must end well; it runs here, strict."""

    def program(name, *arguments):
        with torch.aule.strict():
            assert importlib.import_module(f"torch_aule.examples.{name}").main([*arguments]) == 0
        return capsys.readouterr().out

    return program


def losses(text):
    return [float(x) for x in re.search(r"loss ([\d.]+) -> ([\d.]+) in", text).groups()]


@pytest.mark.parametrize(
    "name, arguments",
    [
        ("basic", ["--quick"]),
        ("vit", ["--steps", "20", "--size", "12"]),
        ("gnn", ["--nodes", "83", "--steps", "20"]),
        ("recommender", ["--batch", "37", "--steps", "30"]),
    ],
)
def test_training(run, name, arguments):
    """It learns, and after the same steps its loss is the CPU's."""
    ours, expected = (losses(run(name, *arguments, "--device", device)) for device in ("aule", "cpu"))
    assert ours[1] < ours[0]
    assert ours == pytest.approx(expected, rel=2e-2, abs=2e-3)


def test_generation(run):
    text = run("generate", "--tokens", "9", "--batch", "3")
    tokens = re.search("tokens: (.*)", text)[1].split()
    assert len(tokens) == 5 + 9 and "with a cache" in text and "without a cache" in text
    assert (
        tokens
        == re.search("tokens: (.*)", run("generate", "--tokens", "9", "--batch", "3", "--device", "cpu"))[1].split()
    )


@pytest.mark.validated
@pytest.mark.parametrize("name", ["vit", "gnn", "recommender"])
def test_gradients(device, name):
    """Of fresh inputs and weights of odd sizes."""
    model, inputs = {
        "vit": lambda: (vit.VisionTransformer(12, 3, 14, 2, 1, 5), (torch.randn(3, 3, 12, 12),)),
        "gnn": lambda: (gnn.GraphNetwork(5, 7, 2, 3), (torch.randn(11, 5), torch.randint(11, (2, 37)))),
        "recommender": lambda: (recommender.Recommender(3, 2, 9, 5), (torch.randn(4, 3), torch.randint(9, (4, 2, 3)))),
    }[name]()
    error = _common.error_of_training(model.to(device), to_device(inputs))
    assert 0 < error < _common.LIMIT


@pytest.mark.validated
def test_a_graph_without_edges(device):
    model = gnn.GraphNetwork(5, 7, 1, 3)
    x, edges = torch.randn(4, 5), torch.empty(2, 0, dtype=torch.int64)
    expected = model(x, edges)
    assert relative_error(model.to(device)(x.to(device), edges.to(device)), expected) < 1e-5


@pytest.mark.validated
def test_the_cache_holds_what_was_computed(device):
    model = generate.Decoder(vocabulary=17, width=24, heads=3, layers=1, context=13).to(device)
    start = torch.randint(17, (2, 4), device=device)
    (with_it, logits), (without, expected) = (generate.generate(model, start, 9, cached) for cached in (True, False))
    assert logits.shape == (2, 9, 17) and torch.equal(with_it.cpu(), without.cpu())
    assert relative_error(logits, expected.cpu()) < 1e-4


def test_a_wrong_number_is_an_error(capsys):
    assert _common.verdict(1e-6) == 0 and _common.verdict(1e-2) == 1
    model = torch.nn.Linear(3, 2)
    assert _common.error_of_training(model, (torch.randn(4, 3),)) < 1e-5
    assert _common.relative(torch.tensor([1.0, 2.5]), torch.tensor([1.0, 2.0])) == 0.25


def test_the_assistant(run):
    pytest.importorskip("torch._inductor")
    text = run("assistant", "--runs", "2", "--level", "conservative")
    assert "score " in text and " recommendation" in text and "largest relative difference" in text


def test_as_a_command():
    """Without the variable examples are strict by themselves."""
    done = run_interpreter("-m", "torch_aule.examples.generate", "--tokens", "2", OMP_NUM_THREADS="1")
    assert done.returncode == 0 and "largest relative difference" in done.stdout, done.stdout + done.stderr
    code = "from torch_aule.examples import basic; import torch; assert torch.aule.is_strict()"
    assert run_python(code, TORCH_AULE_STRICT=None).returncode == 0


def test_the_page():
    """Every example has its section, with a command that the program takes and a verdict about its numbers."""
    page = (ROOT / "docs/use/examples.md").read_text()
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## )", page, re.M | re.S))
    programs = {path.stem for path in (ROOT / "torch_aule/examples").glob("[a-z]*.py")}
    assert set(sections) == programs
    for name, text in sections.items():
        assert f"    python -m torch_aule.examples.{name}" in text
        options = set(re.findall(r"--[a-z]+", re.search(rf"torch_aule\.examples\.{name}(.*)", text)[1]))
        source = (ROOT / f"torch_aule/examples/{name}.py").read_text()
        assert all(f'"{option}"' in source or f'"{option[2:]}"' in source for option in options)
