"""The command `compiled` of the benchmark: torch_aule/benchmark/harness/compiled.py."""

import json
import math
import random

import pytest

from helpers import needs_shader_compiler
from torch_aule.benchmark import command
from torch_aule.benchmark.harness import compiled


def test_ratios_are_of_speeds():
    own, cuda = ({"eager_ms": random.uniform(1, 9), "compiled_ms": random.uniform(1, 9)} for _ in range(2))
    assert compiled.ratios(own, cuda) == (
        cuda["compiled_ms"] / own["compiled_ms"],
        own["eager_ms"] / own["compiled_ms"],
        cuda["eager_ms"] / own["eager_ms"],
    )
    assert compiled.ratios(own, {})[::2] == (None, None)


def test_lines_have_means_of_what_is_known_and_what_failed():
    def record(model, device, eager, its_compiled):
        return {"model": model, "device": device, "eager_ms": eager, "compiled_ms": its_compiled, "error": 1e-3}

    records = [record("a", "aule", 8.0, 4.0), record("a", "cuda", 4.0, 2.0), record("b", "aule", 1.0, 2.0),
               {"model": "b", "device": "cuda", "failed": "no memory"}]  # fmt: skip
    lines = compiled.lines_of(records)
    assert lines[0] == compiled.HEAD and lines[1].split() == ["a", "8.00", "4.00", "4.00", "2.00",
                                                             "0.50", "2.00", "0.50", "1e-03"]  # fmt: skip
    assert lines[3:] == [
        "compiled beside CUDA's compiled: geometric mean of 1 0.500, least 0.500",
        f"compiled beside eager: geometric mean of 2 {math.sqrt(2.0 * 0.5):.3f}, least 0.500",
        "eager beside CUDA's eager: geometric mean of 1 0.500, least 0.500",
        "b on cuda failed: no memory",
    ]


def test_a_model_is_compiled_and_timed_in_a_process_of_its_own(device, tmp_path, capsys):
    pytest.importorskip("torch._inductor.codegen.simd")
    needs_shader_compiler()
    path = tmp_path / "run.jsonl"
    arguments = ["compiled", "--small", "--models", "perceptron", "--devices", "aule", "--samples", "1", "--calls", "2"]
    assert command.main([*arguments, "--save", str(path)]) == 0
    record = json.loads(path.read_text())
    assert (record["model"], record["device"]) == ("perceptron", "aule")
    assert record["eager_ms"] > 0 and record["compiled_ms"] > 0
    assert record["error"] < 1e-5  # float32: gradients of three layers, sums of up to 784 products each
    assert "compiled beside eager: geometric mean of 1" in capsys.readouterr().out


def test_what_is_not_ready_in_time_is_left_out(device, capsys):
    assert command.main(["compiled", "--small", "--models", "perceptron", "--devices", "aule", "--seconds", "0.2"]) == 1
    assert "perceptron on aule failed: out of time" in capsys.readouterr().out


def test_an_unknown_model_is_named():
    with pytest.raises(SystemExit, match="no model nonsense;"):
        command.main(["compiled", "--models", "mlp,nonsense"])
