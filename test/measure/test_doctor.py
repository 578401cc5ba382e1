"""torch_aule.doctor: a healthy device passes, each fault is found by name, and models are bound by what bounds them."""

import dataclasses
import itertools
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F

import torch_aule
from helpers import check_python
from torch_aule import doctor
from torch_aule.doctor import bound, pretend
from torch_aule.doctor.kernels import KERNELS
from torch_aule.glsl.compiler import CompilerMissing
from torch_aule.measure.models import model_named
from torch_aule.measure.numbers import statistics_of
from torch_aule.measure.roof import Roof

ROOT = Path(__file__).resolve().parents[2]
SLOW_PRODUCTS = Roof("a device", "a driver", 1e15, {"float32": 1e6}, 0.0)
SLOW_MEMORY = Roof("a device", "a driver", 1e3, {"float32": 1e15}, 0.0)


@pytest.mark.validated
@pytest.mark.parametrize("kind", KERNELS)
def test_kernels_agree_and_a_wrong_one_is_found(device, kind):
    pairs = list(KERNELS[kind](lambda t: t.to(device)))
    assert pairs and "largest relative difference" in doctor._agree(pairs)
    assert all(actual.device.type == "aule" for actual, _ in pairs) or kind == "random numbers"
    for actual, expected in pairs:
        wrong = ~expected if expected.dtype == torch.bool else expected + expected.abs().max() + 1
        with pytest.raises(RuntimeError, match="of the largest element, may be"):
            doctor._agree([(actual, wrong)])


def test_a_healthy_device_passes(device, capsys, monkeypatch):
    """The whole command, with its exit status."""
    monkeypatch.setattr(doctor, "writer", lambda: print)
    assert doctor.main([]) == 0
    text = capsys.readouterr().out
    names = re.findall(r"^  (\w.*?) +(?:ok|skipped) ", text, re.M)
    assert names == ["device", "driver", "memory", "compiler", *KERNELS, "repeated calls"]
    assert text.startswith("torch_aule ") and text.endswith("every check passed\n")


def _raises(to):
    raise RuntimeError("the kernel\nfailed")
    yield


def _on_the_cpu(to):
    yield torch.ops.aule_doctor_test.cube(to(torch.ones(3))), torch.ones(3)


@pytest.fixture
def few(monkeypatch):
    """A doctor with some faulty kernels, and no compiler."""
    library = torch.library.Library("aule_doctor_test", "DEF")
    library.define("cube(Tensor x) -> Tensor")
    library.impl("cube", lambda x: x * x * x, "CPU")
    kernels = {
        "right": lambda to: iter([(to(torch.ones(3)) + 1, torch.full((3,), 2.0))]),
        "wrong": lambda to: iter([(to(torch.ones(3)) + 1, torch.full((3,), 2.5))]),
        "raises": _raises,
        "on the CPU": _on_the_cpu,
    }

    def missing():
        raise CompilerMissing("no compiler")

    monkeypatch.setattr(doctor, "KERNELS", kernels)
    monkeypatch.setattr(doctor, "find_compiler", missing)
    monkeypatch.setattr(doctor, "writer", lambda: print)
    yield
    library._destroy()


def test_each_fault_is_found(device, few, capsys):
    checks = {check.name: check for check in doctor.self_test(device)}
    assert [name for name, check in checks.items() if check.passed is False] == ["wrong", "raises", "on the CPU"]
    assert checks["compiler"].passed is None and checks["compiler"].detail == "no compiler"
    assert checks["wrong"].detail.startswith("RuntimeError: off by 2.0e-01 of the largest element, may be 1e-04")
    assert checks["raises"].detail == "RuntimeError: the kernel"
    assert "NotImplementedError" in checks["on the CPU"].detail and checks["right"].passed
    assert doctor.main([]) == 1
    assert "3 of 9 checks failed: wrong, raises, on the CPU" in capsys.readouterr().out


def test_calls_that_do_not_repeat_are_counted(device, monkeypatch):
    """One bit of one element, in 3 of the calls after the first."""
    attention, calls = F.scaled_dot_product_attention, itertools.count()

    def faulty(*operands):
        out = attention(*operands)
        if next(calls) in (1, 77, 200):
            out.view(torch.int32)[1, 2, 3, 4] ^= 1
        return out

    monkeypatch.setattr(F, "scaled_dot_product_attention", faulty)
    check = doctor._checked("repeated calls", lambda: doctor._repeated(device))
    assert check.passed is False
    assert check.detail == "RuntimeError: attention: 3 of 200 calls gave other bits than the first"


def test_without_a_device(monkeypatch, capsys, few):
    monkeypatch.setattr(torch.aule, "is_available", lambda: False)
    monkeypatch.setattr(torch.aule, "unavailable_reason", lambda: "no driver here")
    assert doctor.main(["--model", "nothing:here"]) == 1
    text = capsys.readouterr().out
    assert "no driver here" in text and "1 of 1 checks failed: device" in text


def test_what_bounds_a_model(device):
    model, x = nn.Linear(65, 33).to(device).eval(), torch.randn(17, 65, device=device)
    for roof, name in ((SLOW_PRODUCTS, "compute"), (SLOW_MEMORY, "bandwidth")):
        found = torch_aule.doctor.diagnose(model, x, roof=roof, runs=2)
        assert found.shares[name] > 0.5 and sum(found.shares.values()) == pytest.approx(1)
        busy = dataclasses.replace(found.report, wall=statistics_of([found.report.trace.device_seconds]))
        assert bound.bound_of(busy) == name and bound.host_share(busy) == 0
        idle = dataclasses.replace(found.report, wall=statistics_of([2 * found.report.trace.device_seconds]))
        assert bound.bound_of(idle) == "host" and bound.host_share(idle) == pytest.approx(0.5)
        assert f"{found.bound}-bound" in str(found) and 0 < found.roof_share <= 1
        assert (
            found.hints[0].startswith("profile first: ") and found.hints[2] == "fallbacks: no operator ran on the CPU"
        )
        assert re.match(
            r"batch size: a larger batch .* x as many samples a second \(34 in place of 17: ", found.hints[1]
        )


def test_hints_about_batches_and_fallbacks(device, few):
    class Cube(nn.Module):
        def forward(self, x):
            return torch.ops.aule_doctor_test.cube(x)

    with torch.aule.strict():
        found = doctor.diagnose(Cube(), torch.rand(7, device=device), roof=SLOW_MEMORY, runs=1)
        assert torch.aule.is_strict()
    assert any("aule_doctor_test::cube (1 calls) ran on the CPU" in hint for hint in found.hints)
    fixed = nn.Unflatten(0, (2, 3))
    hint = bound.batch_hint(fixed, (torch.ones(6, 2, device=device),), 1)
    assert hint.startswith("batch size: twice the batch of 6 does not run: ")
    x, y = torch.ones(2, 3, device=device), torch.ones(3, 2, device=device)
    assert "do not share a first dimension" in bound.batch_hint(nn.Bilinear(3, 3, 1), (x, y), 1)
    with pytest.raises(ValueError, match="diagnose: expected runs to be positive, got 0"):
        doctor.diagnose(fixed, x, runs=0)


def test_models_by_module_and_file(device, few, tmp_path, monkeypatch, capsys):
    source = "import torch\n\ndef made():\n    return torch.nn.Linear(5, 3), torch.randn(4, 5)\n"
    (tmp_path / "aule_doctor_model.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("torch_aule.measure.roof.load", lambda device: SLOW_PRODUCTS)
    assert doctor.main(["--model", "aule_doctor_model:made", "--runs", "1"]) == 1  # of the checks
    text = capsys.readouterr().out
    assert re.search(r"aule_doctor_model:made \(4x5 float32\): (compute|bandwidth|host)-bound", text)
    model, x = model_named(f"{tmp_path / 'aule_doctor_model.py'}:made", 1, 1)
    assert model(x).shape == (4, 3)
    for name, message in (
        ("aule_doctor_model:other", "has no function other"),
        ("no_such_one:f", "cannot be imported"),
    ):
        with pytest.raises(SystemExit, match=message):
            model_named(name, 1, 1)
    sys.modules.pop("aule_doctor_model")


def test_the_page(device, capsys):
    """Its program runs, and the checks of the self-test are those that it shows."""
    page = (ROOT / "docs/use/doctor.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", page, re.S)
    exec(program, {})
    assert "-bound, " in capsys.readouterr().out
    shown = re.findall(r"^      (\w.*?) +(?:ok|skipped) ", page, re.M)
    assert shown == ["device", "driver", "memory", "compiler", *KERNELS, "repeated calls"]


def test_a_set_of_limits_that_there_is_not(capsys):
    assert doctor.main(["--as", "no-such-device"]) == 2
    said = capsys.readouterr().err
    assert "no set of limits is named 'no-such-device'" in said
    assert re.findall(r"^  (\S+) +\w", said, re.M) == list(pretend.sets()) and len(pretend.sets()) == 6


def test_another_device_is_pretended_in_a_process_of_its_own(monkeypatch):
    started = []

    def run(command, env):
        started.append((command, env["TORCH_AULE_LIMITS"]))
        return subprocess.CompletedProcess(command, 7)

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setenv("TORCH_AULE_LIMITS", "shared_bytes=16KiB")
    name = next(name for name, one in pretend.sets().items() if not one["active"])
    assert doctor.main(["--as", name, "--device", "0"]) == 7
    command = [sys.executable, "-m", "torch_aule.doctor", "--as", name, "--device", "0"]
    assert started == [(command, f"shared_bytes=16KiB,{name}")]


def test_what_is_pretended_is_shown(device):
    own = torch_aule._C.device_limits(0)
    code = "import torch_aule; from torch_aule.doctor import pretend; print('\\n'.join(pretend.lines(0)))"
    shown = check_python(code, TORCH_AULE_LIMITS="arc-windows,shared_bytes=20KiB").splitlines()
    assert shown[0] == "pretends arc-windows: Arc A770 and 140T, Intel's driver for Windows"
    rows = {row.split()[0]: row.split()[1:] for row in shown[2:-1]}
    assert rows["shared_bytes"] == ["48KiB", str(20 << 10)]
    assert rows["max_workgroup_size"] == ["1024,1024,64", ",".join(map(str, own["max_workgroup_size"][:2])) + ",64"]
    assert rows["max_buffer_bytes"] == ["4GiB", str(min(own["max_buffer_bytes"], 4 << 30))]
    assert rows["max_subgroup_size"] == ["32", str(max(own["max_subgroup_size"], 32))]
    assert shown[-1] == "  without float64, unified_memory, and with the kernels for GPUs"
    assert not pretend.lines(0) or any(one["active"] for one in pretend.sets().values())
