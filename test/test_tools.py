"""What is run from the command line: environment report, benchmark comparisons, shader compilation; and other names."""

import json
import subprocess
import sys

import pytest
import torch

from torch_aule import build_shaders
from torch_aule.benchmark import __main__ as benchmark


def test_collect_env_has_both_reports(device):
    done = subprocess.run([sys.executable, "-m", "torch_aule.collect_env"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "PyTorch version" in done.stdout and torch.__version__ in done.stdout
    assert torch.aule.get_device_name(0) in done.stdout
    assert done.stdout.index("PyTorch version") < done.stdout.index(torch.aule.get_device_name(0))


def line(case: str, ms: float | None, **more) -> dict:
    return {"group": "gemm", "case": case, "shapes": "8x8", "aule": {"ms": ms}, **more}


def saved(tmp_path, *lines) -> str:
    path = tmp_path / "old.jsonl"
    path.write_text("".join(json.dumps(x) + "\n" for x in lines))
    return str(path)


def test_compare_counts_what_became_slower(tmp_path, capsys):
    old = saved(tmp_path, {"device": "no case"}, line("a", 1.0), line("b", 1.0), line("c", 1.0), line("gone", 1.0))
    now = [line("a", 1.04), line("b", 1.06), line("c", 0.5), line("new", 3.0)]
    assert benchmark.compare(now, old, 0.05) == 1
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 3
    marks = {text.split()[1]: text.split()[-1] for text in printed}
    assert marks == {"a": "x1.04", "b": "SLOWER", "c": "faster"}
    assert benchmark.compare(now, old, 0.07) == 0
    assert benchmark.compare([line("a", 9.0, dtype="float16")], old, 0.05) == 0, "another dtype is another case"


@pytest.mark.parametrize(
    "options, slower, status",
    [([], 1.06, 0), (["--fail-on-regression"], 1.06, 1), (["--fail-on-regression"], 1.04, 0),
     (["--fail-on-regression", "--threshold", "0.2"], 1.06, 0)],
)  # fmt: skip
def test_regressions_fail_when_asked(device, tmp_path, monkeypatch, capsys, options, slower, status):
    """The whole command but for the measurements, which are given. The default threshold is 5 %."""
    old = saved(tmp_path, line("a", 1.0))
    monkeypatch.setattr(benchmark, "run_group", lambda group, devices, quick: iter([line("a", slower)]))
    new = tmp_path / "new.jsonl"
    arguments = ["benchmark", "--small", "--gemm", "--compare", old, "--save", str(new), *options]
    monkeypatch.setattr(sys, "argv", arguments)
    strict = torch.aule.is_strict()
    try:
        assert benchmark.main() == status
    finally:
        torch.aule.set_strict(strict)
    assert ("SLOWER" in capsys.readouterr().out) == (slower > 1.05 and "0.2" not in options)
    assert json.loads(new.read_text())["case"] == "a"


def test_build_shaders_compiles_elsewhere(tmp_path):
    assert build_shaders.main(["--help"]) == 0


def test_other_names_of_operators(device):
    q, cache = torch.randn(2, 1, 4, 16, device=device), torch.randn(2, 32, 2, 16, device=device)
    by_name = torch.ops.aule.flash_attn_decode(q, cache, cache)[0]
    assert torch.equal(torch.ops.aule.sdpa_decode(q, cache, cache)[0].cpu(), by_name.cpu())
    x = torch.randn(2, 5, 3, 8, device=device, requires_grad=True)
    angles = torch.rand(5, 4, device=device)
    results = []
    for op in (torch.ops.aule.rotary_embedding, torch.ops.aule.rope):
        x.grad = None
        y = op(x, angles.cos(), angles.sin())
        y.square().sum().backward()
        results.append((y.detach().cpu(), x.grad.cpu()))
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))
    schemas = [torch.ops.aule.paged_attn.default._schema, torch.ops.aule.paged_attention.default._schema]
    assert len({str(schema).split("(", 1)[1] for schema in schemas}) == 1
