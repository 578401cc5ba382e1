"""The tuner, and the file of measured shapes that the planner reads."""

import re
from pathlib import Path

import pytest
import torch

import torch_aule
from helpers import check_python, run_python
from matrix_units import has_matrices
from torch_aule import tune

pytestmark = pytest.mark.current_lavapipe


def shapes_in_a_process(folder):
    """(forward D 64, forward D 128, dQ D 64) as a new process plans them."""
    code = (
        "import torch_aule; C = torch_aule._C\n"
        "print(C.attention_shape(0, 'forward', False, 64), C.attention_shape(0, 'forward', False, 128),"
        " C.attention_shape(0, 'dq', False, 64), sep='|')"
    )
    printed = check_python(code, TORCH_AULE_CACHE_DIR=str(folder))
    return [eval(part) for part in printed.strip().split("|")]


def test_the_planner_reads_what_was_measured(tmp_path):
    shipped = shapes_in_a_process(tmp_path)
    name = Path(torch_aule._C.tuning_file(0)).name
    (tmp_path / name).write_text(
        "# comment\nforward 128 8 1 32 1 1\nforward 64 4 1 32 2 2\ndq 64 99 1 16 1 1\nnonsense\nforward 32 4"
    )
    measured = shapes_in_a_process(tmp_path)
    assert measured == [(4, 1, 32, 2, 2), (8, 1, 32, 1, 1), shipped[2]]  # 99 subgroups make no kernel
    assert measured[:2] != shipped[:2]


def test_candidates_fit():
    for dim in tune.DIMS:
        for backward in (False, True):
            shapes = tune.candidates(backward, dim)
            assert shapes
            for subgroups, row_blocks, tile, blocks_in_flight, *_ in shapes:
                assert blocks_in_flight * 16 <= tile and subgroups * row_blocks > 0


@pytest.mark.skipif(not has_matrices(torch.float16), reason="the device has no float16 matrices with a known layout")
def test_shapes_beyond_the_shared_memory_do_not_serve():
    with tune.override(attention_shape=(4, 1, 16, 1, 1)):
        assert tune.serves("forward", 64) and tune.serves("forward_banded", 64)
    with tune.override(attention_shape=(4, 1, 128, 1, 2)):  # 260 KiB
        assert not tune.serves("forward", 256)


def test_reset_and_no_cache_folder(tmp_path, monkeypatch, capsys):
    path = tmp_path / "shapes"
    path.write_text("")
    monkeypatch.setattr(torch_aule._C, "tuning_file", lambda device: str(path))
    assert tune.main(["--reset"]) == 0 and not path.exists()
    monkeypatch.setattr(torch_aule._C, "tuning_file", lambda device: "")
    assert tune.main([]) == 1 and "TORCH_AULE_CACHE_DIR" in capsys.readouterr().err


def test_spilled_memory_is_told():
    """What drivers of three vendors call it; scalar registers go to vector registers and do not count."""
    assert tune.spilled([("Register Count", 255), ("Local Memory Size", 128), ("Stack Size", 0)]) == 128
    assert tune.spilled([("VGPRs", 256), ("Spilled SGPRs", 9), ("Spilled VGPRs", 6), ("Scratch size", 64)]) == 6
    assert tune.spilled([("Instruction Count", 100), ("Spill count", 3)]) == 3
    assert tune.spilled([]) == 0
    with tune.SpilledMemory() as memory:
        torch.ones(3, device="aule").cosh_().cpu()
    assert memory.most >= 0
    assert torch_aule._C.keep_pipeline_statistics(False) == []


def measure_by_the_shape(monkeypatch):
    """Measurements are replaced by the first number of the shape on trial."""
    shapes, original = [], tune.override

    def recording(**values):
        shapes.extend(shape for name, shape in values.items() if name == "attention_shape")
        return original(**values)

    monkeypatch.setattr(tune, "override", recording)
    monkeypatch.setattr(tune.Problem, "milliseconds", lambda self: float((shapes[-1] or (9,))[0]))


def test_shapes_that_spill_are_passed_over(monkeypatch, override, capsys):
    if not torch_aule._C.matrix_layout(0, False)["known"]:
        pytest.skip("the device has no cooperative matrices with a known layout")
    override(attention_variant="coopmat")
    override(attention_shape=(2, 1, 16, 1, 1))
    monkeypatch.setattr(tune, "PASSES", tune.PASSES[:1])
    monkeypatch.setattr(tune, "right", lambda actual, expected: True)
    monkeypatch.setattr(tune.Problem, "__call__", lambda self: [])
    most = iter([4, 8, 4])  # the shipped shape's, then those of two others
    monkeypatch.setattr(tune.SpilledMemory, "__exit__", lambda self, *_: setattr(self, "most", next(most)))
    measure_by_the_shape(monkeypatch)
    lines = tune.tune(dims=(16,), length=64, elements=2 * 64 * 16, shapes=[(1, 1, 16, 1, 1), (2, 1, 16, 1, 1)])
    assert lines == ["forward 16 2 1 16 1 1"]
    assert "spills 8" in capsys.readouterr().err


@pytest.mark.current_long
def test_tuning(monkeypatch, override):
    if not torch_aule._C.matrix_layout(0, False)["known"]:
        with pytest.raises(RuntimeError, match="nothing to tune"):
            tune.tune()
        return
    override(attention_variant="coopmat")
    monkeypatch.setattr(tune, "PASSES", tune.PASSES[:1])
    if torch_aule._C.device_properties(0)["kind"] == "cpu":  # the shipped shape takes it a minute to compile
        override(attention_shape=(2, 1, 16, 1, 1))
        measure_by_the_shape(monkeypatch)
    lines = tune.tune(dims=(16,), length=64, elements=2 * 64 * 16, shapes=[(2, 1, 16, 1, 1)])
    assert lines in ([], ["forward 16 2 1 16 1 1"])
    if torch_aule._C.device_properties(0)["kind"] == "cpu":
        assert lines
    monkeypatch.setattr(tune, "right", lambda actual, expected: False)
    with pytest.warns(UserWarning, match="wrong numbers"):
        assert tune.tune(dims=(16,), length=64, elements=2 * 64 * 16, shapes=[(2, 1, 16, 1, 1)]) == []


def test_right():
    exact = [torch.ones(4, dtype=torch.float64)]
    assert tune.right([torch.full((4,), 1.005, dtype=torch.float16)], exact)
    assert not tune.right([torch.full((4,), 1.05, dtype=torch.float16)], exact)
    assert not tune.right([torch.full((4,), float("nan"))], exact)


@pytest.mark.parametrize(
    "variable, text, told",
    [
        ("TORCH_AULE_OVERRIDES", "attention_variant=fast", "attention_variant is ignored: .*'fast' is no value of it"),
        ("TORCH_AULE_OVERRIDES", "attention_shape=4;1", "attention_shape is ignored: .*'4;1' is no value of it"),
        ("TORCH_AULE_OVERRIDES", "attention_role_split=two", "attention_role_split is ignored: .*'two' is no value"),
        ("TORCH_AULE_OVERRIDES", "aligned_rows=never,float32_pieces=float8", "float32_pieces is ignored: .*'float8'"),
        ("TORCH_AULE_OVERRIDES", "warps=3", "warps is ignored: there is no override named 'warps'"),
        ("TORCH_AULE_DISABLE", "float64, warps", "TORCH_AULE_DISABLE: 'warps' is ignored"),
        ("TORCH_AULE_TIME_BUDGET_MS", "long", "TORCH_AULE_TIME_BUDGET_MS is ignored: it has no meaning as 'long'"),
    ],
)
def test_a_variable_without_meaning_is_told_once(variable, text, told):
    code = (
        "import torch, torch_aule\n"
        "x = torch.randn(1, 2, 8, 16, device='aule')\n"
        "for _ in range(2): torch.nn.functional.scaled_dot_product_attention(x, x, x).cpu()\n"
        "torch.mm(x[0, 0], x[0, 1].t()).cpu()"
    )
    done = run_python(code, **{variable: text})
    assert done.returncode == 0, done.stderr
    assert len(re.findall(told, done.stderr)) == 1, done.stderr


def test_variables_with_several_values():
    """Numbers have commas of their own."""
    code = (
        "import torch_aule\n"
        "C, wanted = torch_aule._C, torch_aule._C.Overrides()\n"
        "wanted.set('attention_shape', '4,1,32'), wanted.set('aligned_rows', 'never')\n"
        "print(C.overrides() == wanted, C.device_properties(0)['float64'], C.cache_directory() == '')"
    )
    printed = check_python(
        code,
        TORCH_AULE_OVERRIDES="attention_shape=4,1,32, aligned_rows=never,",
        TORCH_AULE_DISABLE="float64, PIPELINE_CACHE",
    )
    assert printed.split() == ["True", "False", "True"]
