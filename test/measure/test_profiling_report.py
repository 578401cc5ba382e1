"""torch_aule.profiling: the report about a model, its advice and page; the profiler of functions; the command."""

import dataclasses
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

import pytest
import torch
import torch.nn as nn

from torch_aule import profiling
from torch_aule.backend.fallback import FallbackEntry
from torch_aule.measure import roof
from torch_aule.measure.numbers import bytes_text, statistics_of, table, time_text
from torch_aule.profiling import advice, page, trace
from torch_aule.profiling.memory import Memory, ModuleMemory

ROOF = roof.Roof("a device", "a driver", 1e9, {"float32": 1e9, "float16": 4e9}, 0.0)


class Net(nn.Module):
    """A wait inside, and a layer that is used twice."""

    def __init__(self):
        super().__init__()
        self.first, self.again, self.norm = nn.Linear(33, 65), nn.Linear(65, 65), nn.LayerNorm(65)

    def forward(self, x, scale=1.0):
        y = self.norm(torch.relu(self.first(x)))
        if y.abs().max().item() > 1e30:
            return y
        return self.again(self.again(y)) * scale


@pytest.fixture
def model(device):
    return Net().to(device).eval()


@pytest.fixture
def known_roof(monkeypatch):
    monkeypatch.setattr(roof, "load", lambda device=None: ROOF)


@pytest.mark.validated
def test_report_of_a_model(device, model, known_roof, tmp_path):
    x = torch.randn(9, 33, device=device)
    report = profiling.profile_model_inference(model, x, runs=4)
    assert report.model == "Net" and report.inputs == "9x33 float32" and not report.training
    assert report.wall.count == 4 and 0 < report.issue.median <= report.wall.median and not report.on_cpu
    # Kernels: what planners know, and the parts add up.
    assert sum(k.flops for k in report.trace.kernels) == pytest.approx(2 * 9 * (33 * 65 + 2 * 65 * 65))
    assert {"aten::addmm", "aten::native_layer_norm"} <= {k.operator for k in report.trace.kernels}
    times = [k.seconds for k in report.trace.kernels]
    assert times == sorted(times, reverse=True) and all(k.roof_share > 0 for k in report.trace.kernels)
    moved = sum(c.seconds for c in report.trace.copies)
    assert report.trace.device_seconds == pytest.approx(sum(times) + moved)
    assert report.trace.waits >= 1 and report.trace.submits >= 1
    # Memory, by module.
    rows = {m.name: m for m in report.memory.modules}
    assert set(rows) == {"first", "again", "norm"}
    assert rows["again"].calls == 2 and rows["again"].parameter_bytes == 4 * (65 * 65 + 65)
    assert rows["again"].output_bytes == 2 * 4 * 9 * 65 and rows["first"].peak_bytes >= 4 * 9 * 65
    assert report.memory.peak > report.memory.before > 0
    assert "waits" in {one.rule for one in report.advice}
    # Text and page have every section.
    text, path = str(report), tmp_path / "report.html"
    report.save_html(path)
    html = path.read_text()
    for title, _, _, _ in report.sections():
        assert f"\n{title}\n" in text and f"<h2>{title}</h2>" in html
    assert "gemm" in text and "again" in text and all(len(line) < 400 for line in text.splitlines())
    assert not re.search(r"<script|<link|src=|href=|url\(", html)  # nothing from elsewhere


def test_a_read_of_an_idle_device_is_a_wait(device):
    x = torch.randn(3, device=device)
    torch.aule.synchronize()
    found = trace.take(lambda: x[1].item(), 3, None)
    assert found.waits == 1 and found.launches == 0


def test_svg_is_sound(device, model, known_roof):
    report = profiling.profile_model_inference(model, {"x": torch.randn(5, 33, device=device), "scale": 2.0}, runs=1)
    svg = ElementTree.fromstring(page.kernels_plot(report))
    space = "{http://www.w3.org/2000/svg}"
    bars = [bar for bar in svg.iter(f"{space}rect") if bar.find(f"{space}title") is not None]
    assert len(bars) == 2 * len(report.dearest)  # the time, and in it the roof's
    for taken, at_roof in zip(bars[::2], bars[1::2]):
        assert float(at_roof.get("width")) <= float(taken.get("width")) <= page.WIDTH
    ElementTree.fromstring(page.memory_plot(report))
    assert page.bars("nothing", [], []) == ""
    hostile = page.page("<b>", [("<i>", ["<u>"], [["&"]], ["<s>"])], [])
    assert "<b>" not in hostile and "&amp;" in hostile and "<s>" not in hostile


def test_operators_on_the_cpu(device, not_strict):
    library = torch.library.Library("aule_profiling_test", "DEF")
    library.define("cube(Tensor x) -> Tensor")
    library.impl("cube", lambda x: x * x * x, "CPU")

    class Cube(nn.Module):
        def forward(self, x):
            return torch.ops.aule_profiling_test.cube(x) + torch.ops.aule_profiling_test.cube(x)

    report = profiling.profile_model_inference(Cube(), torch.rand(7, device=device), runs=1)
    (entry,) = report.on_cpu
    assert entry.op.startswith("aule_profiling_test::cube") and entry.count == 2
    assert "cpu_operators" in {one.rule for one in report.advice} and "aule_profiling_test::cube" in report.text()


def test_errors(device, model):
    x = torch.randn(9, 33, device=device)
    for wrong in ((model, x.cpu()), (Net(), x)):
        with pytest.raises(ValueError, match="profile_model_inference: model and x must be on one aule device.*cpu"):
            profiling.profile_model_inference(*wrong)
    with pytest.raises(ValueError, match="runs"):
        profiling.profile_model_inference(model, x, runs=0)


def quiet():
    """A report to which no rule applies."""
    kernel = trace.Kernel("gemm", 10, 0.9, 1e6, 1e9, "float16", 0.8, Counter({"aten::mm": 10}))
    return profiling.Report(
        model="m", inputs="x", device="d", driver="v", training=False, wall=statistics_of([1.0]),
        issue=statistics_of([0.1]), trace=trace.Trace([kernel], [], 10, 0.9, 1, 0, 0.0),
        memory=Memory(100, 200, 300, 1000, [ModuleMemory("a", "Linear")]), on_cpu=[], roof=ROOF,
    )  # fmt: skip


def with_trace(report, **changes):
    return dataclasses.replace(report, trace=dataclasses.replace(report.trace, **changes))


def with_kernel(report, **changes):
    return with_trace(report, kernels=[dataclasses.replace(report.trace.kernels[0], **changes)])


CASES = {
    "cpu_operators": lambda r: dataclasses.replace(r, on_cpu=[FallbackEntry("aten::x", 1, "")]),
    "training_mode": lambda r: dataclasses.replace(r, training=True),
    "waits": lambda r: with_trace(r, waits=1),
    "host_bound": lambda r: dataclasses.replace(r, wall=statistics_of([1.6])),
    "small_kernels": lambda r: with_trace(with_kernel(r, seconds=0.9e-3, roof_seconds=0.8e-3), launches=200),
    "float32_products": lambda r: with_kernel(r, dtype="float32"),
    "memory_bound": lambda r: with_kernel(r, flops=0),
    "below_the_roof": lambda r: with_kernel(r, roof_seconds=0.1),
    "copies": lambda r: with_trace(r, copies=[trace.Copy("copy host to device", 1, 100, 0.2)]),
    "memory": lambda r: dataclasses.replace(r, memory=dataclasses.replace(r.memory, peak=950)),
}


def test_every_rule_has_its_case():
    assert set(CASES) == {rule.name for rule in advice.RULES}
    assert quiet().advice == [] and "none of the rules applies" in quiet().text()


@pytest.mark.parametrize("rule", CASES)
def test_rules(rule):
    (one,) = CASES[rule](quiet()).advice
    assert one.rule == rule and one.value >= one.threshold and one.finding and one.advice and one.reason


def test_without_a_roof_nothing_is_said_of_it():
    kernel = dataclasses.replace(quiet().trace.kernels[0], roof_seconds=0.0, dtype="float32")
    report = dataclasses.replace(with_trace(quiet(), kernels=[kernel]), roof=None)
    assert kernel.roof_share is None and report.advice == [] and "benchmark roof" in report.text()


def test_numbers():
    s = statistics_of([1.0, 2.0, 3.0, 6.0])
    assert (s.mean, s.median, s.min, s.max, s.count) == (3.0, 2.5, 1.0, 6.0, 4)
    assert s.std == pytest.approx((14 / 3) ** 0.5) and s.cv == pytest.approx(100 * s.std / 3) and s.stability == "poor"
    assert statistics_of([1.0, 1.01]).stability == "excellent" and statistics_of([1.0, 1.15]).stability == "good"
    assert statistics_of([2.0]).std == 0
    assert [time_text(t) for t in (1.5, 2e-3, 3e-6)] == ["1.5 s", "2 ms", "3 us"]
    assert [bytes_text(n) for n in (5, 2048, 3 << 20, 5 << 30)] == ["5 B", "2.0 KiB", "3.0 MiB", "5.0 GiB"]
    assert table(["a", "b"], [["long", "1"]]) == ["  a     b", "  long  1"]


def test_profiler_of_functions(device, tmp_path):
    p = profiling.Profiler()
    x = torch.randn(300, 30, device=device)
    with p.profile("block"):
        y = x.exp()
        time.sleep(0.02)
    assert p.results[-1].name == "block" and p.results[-1].statistics.mean >= 0.02 and p.results[-1].peak_bytes >= 36000
    del y
    one = p.benchmark_function(torch.softmax, (x,), {"dim": -1}, num_iterations=7, warmup_iterations=1)
    assert one.name == "softmax" and one.statistics.count == 7 and one.peak_bytes >= 36000
    assert one.throughput == pytest.approx(1 / one.statistics.mean) and one.stability == one.statistics.stability

    def slow(x):
        time.sleep(0.05)
        return x + 1

    found = p.compare_implementations({"slow": slow, "fast": lambda x: x + 1}, (x,), num_iterations=3)
    assert list(found) == ["fast", "slow"] and found["slow"].statistics.median > found["fast"].statistics.median
    used = p.profile_memory_usage(lambda: (x * 2) + 1)
    assert used["taken"] >= used["kept"] >= 36000 and used["peak"] == used["before"] + used["taken"]
    text = p.generate_report(tmp_path / "report.txt")
    assert (tmp_path / "report.txt").read_text() == text and "fast is the fastest" in text and "softmax" in text
    assert "nothing was measured" in profiling.Profiler("aule:0").generate_report()


def test_efficiency_by_size(device, known_roof):
    p = profiling.Profiler()

    def product(n):
        a = torch.randn(n, n, device=device)
        return lambda: a @ a

    rows = p.analyze_kernel_efficiency(product, [32, 256], num_iterations=3)
    assert [row["size"] for row in rows] == [32, 256] and rows[0]["exponent"] is None
    assert rows[1]["exponent"] > 0 and all(row["device_seconds"] > 0 and row["roof_share"] > 0 for row in rows)
    assert "to the power" in p.generate_report()


def test_errors_of_the_profiler(device):
    p = profiling.Profiler()
    with pytest.raises(ValueError, match="num_iterations"):
        p.benchmark_function(lambda: None, num_iterations=0)
    with pytest.raises(ValueError, match="implementations"):
        p.compare_implementations({})
    for sizes in ([], [0, 1], [4, 4]):
        with pytest.raises(ValueError, match="sizes must be positive and grow"):
            p.analyze_kernel_efficiency(lambda n: None, sizes)
    with pytest.raises(RuntimeError, match="invalid device"):
        profiling.Profiler(99)


def test_command(device, tmp_path):
    source = tmp_path / "model.py"
    source.write_text("import torch\n\ndef factory():\n    return torch.nn.Linear(5, 3), torch.randn(2, 5)\n")
    out = tmp_path / "page.html"
    command = [sys.executable, "-m", "torch_aule.profiling", f"{source}:factory", "--html", str(out), "--runs", "2"]
    done = subprocess.run([*command, "--dtype", "float16"], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "2x5 float16" in done.stdout and "dearest kernels" in done.stdout and "<svg" in out.read_text()
    for name, text in ((f"{source}:other", "no function other"), ("no_such_model", "neither")):
        done = subprocess.run([*command[:3], name], capture_output=True, text=True, timeout=600)
        assert done.returncode == 1 and text in done.stderr


def test_a_model_of_transformers(device):
    pytest.importorskip("transformers")
    from torch_aule.measure import models

    model, tokens = models.model_named("gpt2", 2, 9)
    assert tokens.shape == (2, 9) and sum(p.numel() for p in model.parameters()) > 100_000_000
    image = models.model_named("mobilenet_v2", 1, 9)[1]
    assert image.shape == (1, 3, 224, 224)


def test_the_page_s_example_runs(device, tmp_path, monkeypatch, capsys):
    text = (Path(__file__).resolve().parents[2] / "docs" / "use" / "profiler.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "docs/use/profiler.md", "exec"), {})
    out = capsys.readouterr().out
    assert "dearest kernels" in out and "is the fastest" in out and (tmp_path / "report.html").exists()


def test_the_rules_of_the_page_are_the_reports():
    """Sections that docs/use/profiler.md lists are those that a report has, but for the roof."""
    text = (Path(__file__).resolve().parents[2] / "docs" / "use" / "profiler.md").read_text()
    listed = re.findall(r"^\| ([\w ]+) \|", text.split("## A report about a model")[1].split("## Memory")[0], re.M)
    titles = [title for title, *_ in quiet().sections() if title not in ("roof", "memory by module")]
    assert listed == ["section", *titles]
