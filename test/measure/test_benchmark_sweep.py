"""Reference kernels over a size, into a table: torch_aule/benchmark/harness/sweep.py and the scripts that call it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from torch_aule.benchmark.cases.chosen import kernel_cases
from torch_aule.benchmark.harness import baseline, case, kernels, sweep, timing
from torch_aule.benchmark.report import dearest, table
from torch_aule.measure import roof

ROOT = Path(__file__).resolve().parents[2]
FEW = timing.Settings(samples=2, wall_samples=2, exact=True)


def small(name, **wanted):
    kernel = kernels.KERNELS[name]
    about = {"sizes": (17, 32), "dtypes": ("float32",), "other": {size: 9 for size in kernel.other}, **wanted}
    return case.Sizes(software=True, wanted=case.Wanted(kernels=(name,), **about))


@pytest.mark.parametrize("name", list(kernels.KERNELS))
def test_every_mode_has_speed_and_memory(device, name):
    kernel, modes = kernels.KERNELS[name], kernels.MODES
    rows, failures = sweep.measure(name, small(name, modes=modes), FEW, ["composed", "cpu"], bandwidth=1e9)
    assert not failures
    own = kernel.function != kernel.composed
    providers = {"aule", "cpu", "speed_of_light"} | ({"composed"} if own else set())
    assert {row.kernel_provider for row in rows} == providers
    for provider in providers:
        mine = {(row.kernel_operation_mode, row.metric_name, row.x_value): row for row in rows
                if row.kernel_provider == provider}  # fmt: skip
        metrics = ("speed", "memory") if provider in ("aule", "composed") else ("speed",)
        assert set(mine) == {(mode, metric, x) for mode in modes for metric in metrics for x in (17, 32)}
    assert all(row.y_value_20 <= row.y_value_50 <= row.y_value_80 for row in rows)
    assert all(row.y_value_50 > 0 for row in rows if row.metric_name == "speed")
    assert {row.x_name for row in rows} == {kernel.x} and {row.x_label for row in rows} == {kernel.label}
    extra = {**{size: 9 for size in kernel.other}, "dtype": "float32"}
    assert all(row.extra_config == extra for row in rows)


def test_speed_of_light_is_the_time_of_the_bytes(device):
    rows, _ = sweep.measure("softmax", small("softmax", modes=("forward",), sizes=(33,)), FEW, [], bandwidth=2e6)
    (bound,) = [row for row in rows if row.kernel_provider == "speed_of_light"]
    assert bound.y_value_50 == pytest.approx(2 * 4 * 9 * 33 / 2e6 * 1e3, rel=1e-4) and bound.metric_unit == "ms"


def test_memory_is_what_a_call_takes(device):
    """A fused sum holds nothing of the size of the layer's output."""
    wanted = small("fused_linear_rowsum", modes=("forward",), sizes=(512,), other={"B": 256, "K": 8})
    rows, _ = sweep.measure("fused_linear_rowsum", wanted, FEW, ["composed"])
    held = {row.kernel_provider: row.y_value_50 for row in rows if row.metric_name == "memory"}
    assert held["composed"] >= 256 * 512 * 4 / 2**20
    assert held["aule"] < 0.1 * held["composed"]


def test_a_wrong_result_is_no_row(device, monkeypatch):
    broken = kernels.KERNELS["softmax"].__class__(**{
        **vars(kernels.KERNELS["softmax"]), "composed": lambda x: x.softmax(-1) * 2, "function": lambda x: x.softmax(-1)
    })  # fmt: skip
    monkeypatch.setitem(kernels.KERNELS, "softmax", broken)
    rows, failures = sweep.measure("softmax", small("softmax", modes=("forward",), sizes=(8,)), FEW, ["cpu"])
    assert {row.kernel_provider for row in rows} == {"cpu"}
    assert len(failures) == 1 and "aule: differs from cpu" in failures[0]


def test_the_process_for_cuda_makes_the_same_cases(device):
    """Here on the CPU: the process has no backend, and must not need one."""
    sizes = small("fused_linear_rowsum", modes=("full",), sizes=(5,))
    ((extents, mode, one),) = kernel_cases(sizes, sizes.wanted, "fused_linear_rowsum")
    assert (extents, mode) == ({"B": 9, "K": 9, "N": 5}, "full")
    child = baseline.Child(sizes, FEW)
    try:
        remote = baseline.Remote(child, one, "cpu")
        remote.sample()
        result = remote.result()
    finally:
        child.close()
    here = one.make("aule")()
    assert (
        result.count == 1
        and dearest.difference([x for part in here for x in part.flatten().tolist()], result.values["output"]) < 1e-3
    )


def test_rows_are_kept_or_replaced(device, tmp_path, capsys, monkeypatch):
    arguments = ["--folder", str(tmp_path), "--sizes", "8,12", "--config", "M=5", "--modes", "forward",
                 "--iterations", "1", "--providers", "aule", "--small"]  # fmt: skip
    path = tmp_path / "data" / "softmax.csv"
    assert sweep.main("softmax", arguments) == 0
    first = table.read(path)
    assert len(first) == 4 and capsys.readouterr().out == f"4 rows in {path}\n"
    assert sweep.main("softmax", [*arguments, "--bandwidth", "3"]) == 0
    told = capsys.readouterr()
    assert told.out == f"2 rows in {path}\n"  # of the speed of light
    line = "softmax forward speed of aule (M=5, dtype=float32): kept for N 8, 12; --overwrite replaces it"
    assert told.err.splitlines()[0] == line and len(told.err.splitlines()) == 2
    assert table.read(path)[:4] == first
    bound = roof.Roof("d", "e", bandwidth=3e9, rates={}, seconds=0.0)
    monkeypatch.setattr(roof, "load", lambda *_: bound)
    assert sweep.main("softmax", [*arguments, "--sol", "--overwrite"]) == 0
    assert capsys.readouterr() == (f"6 rows in {path}\n", "")
    assert [row.key for row in table.read(path)[:4]] == [row.key for row in first]


@pytest.mark.parametrize(
    "arguments",
    [["--modes", "sideways"], ["--modes", ""], ["--sizes", "0"], ["--config", "Z=1"], ["--config", "M=a"],
     ["--config", "M"], ["--config", "M=0"], ["--bandwidth", "0"], ["--iterations", "0"], ["--warmup", "-1"],
     ["--dtypes", "f7"], ["--providers", "cpu"]],
)  # fmt: skip
def test_wrong_options_are_refused(device, tmp_path, arguments, capsys):
    with pytest.raises(SystemExit) as refused:
        sweep.main("layer_norm", ["--folder", str(tmp_path), *arguments])
    assert refused.value.code == 2 and arguments[0] in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_the_script_measures_a_kernel(device, tmp_path):
    command = [sys.executable, str(ROOT / "benchmarks/reference.py"), "diagonal_matmul", "--folder", str(tmp_path),
               "--sizes", "8", "--config", "M=4", "--iterations", "2", "--dtypes", "bf16", "--small"]  # fmt: skip
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
                          timeout=300)  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = table.read(tmp_path / "data" / "diagonal_matmul.csv")
    assert {row.kernel_operation_mode for row in rows} == set(kernels.MODES)
    assert {row.extra_config["dtype"] for row in rows} == {"bfloat16"}
    assert not torch.cuda.is_available() or "cuda" in {row.kernel_provider for row in rows}


def test_a_case_that_does_not_fit_fails_and_the_others_are_kept(device, tmp_path, capsys):
    torch.aule.empty_cache()
    arguments = ["--folder", str(tmp_path), "--small", "--modes", "forward", "--sizes", "16,4096", "--config", "M=1024",
                 "--iterations", "1", "--providers", "aule", "--max-memory", "0.008"]  # fmt: skip
    assert sweep.main("softmax", arguments) == 1
    told = capsys.readouterr().err
    assert told.startswith("softmax M 1024 N 4096 float32: aule: ") and "memory" in told
    assert {row.x_value for row in table.read(tmp_path / "data" / "softmax.csv")} == {16}


def test_without_a_device_nothing_is_written(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(torch.aule, "is_available", lambda: False)
    monkeypatch.setattr(torch.aule, "unavailable_reason", lambda: "no driver", raising=False)
    assert sweep.main("softmax", ["--folder", str(tmp_path)]) == 2
    assert capsys.readouterr().err == "no aule device: no driver\n" and not list(tmp_path.iterdir())
