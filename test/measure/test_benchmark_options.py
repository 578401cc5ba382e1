"""Cases that the command line describes, and the reference kernels: benchmark/harness/options.py, kernels.py."""

import pytest
import torch

from torch_aule.benchmark import command
from torch_aule.benchmark.cases import chosen, with_key
from torch_aule.benchmark.harness import case, kernels, run, timing
from torch_aule.benchmark.report import record
from torch_aule.measure import roof

BOUND = roof.Roof("d", "e", bandwidth=1e9, rates={"float32": 1e10}, seconds=0.0)


def measured(tmp_path, *arguments):
    path = tmp_path / "run.jsonl"
    options = ["--small", "--iterations", "2", "--quiet", "--save", str(path), *arguments]
    assert command.main(options) == 0
    return record.read(str(path))


def test_families_of_given_sizes_agree_with_the_cpu(device, tmp_path, capsys):
    found = measured(
        tmp_path, "--gemm", "--gemv", "--attention", "--decode", "--conv", "--sizes", "31,48", "--seq-lens", "17",
        "--batches", "1,2", "--dtypes", "f32,bf16", "--backward", "--warmup", "1",
    )  # fmt: skip
    assert capsys.readouterr().out == ""
    assert not [(one.name, one.errors) for one in found if one.errors]
    assert {one.group for one in found} == {"gemm", "gemv", "attention", "decode", "conv"}
    assert {one.dtype for one in found} == {"float32", "bfloat16"}
    assert len(found) == 4 + 4 + 16 + 4 + 16
    for one in found:
        assert one.results["aule"].count == 2 and "difference" in one.results["cpu"].values, one.name


def test_float8_products(device, tmp_path):
    found = measured(tmp_path, "--fp8", "--sizes", "32")
    assert [one.dtype for one in found] == ["float32", "float8_e4m3fn"]
    assert not [one.errors for one in found if one.errors]


def test_a_wrong_result_is_an_error(device):
    def make(where):
        value = 1.0 if where == "aule" else 2.0
        return lambda: torch.full((8,), value, device=where)

    wrong = case.Case("gemm", "mm", "", "float32", make, clock="wall", tolerance=1e-3,
                      values=lambda where, call: {"output": call().tolist()})  # fmt: skip
    found = run.run_case(wrong, ["cpu"], timing.Settings(wall_samples=1), {})
    assert found.errors == {"aule": "differs from cpu by 0.5, at most 0.001 was expected"}


def test_share_of_the_roof(device, tmp_path, monkeypatch):
    monkeypatch.setattr(roof, "load", lambda *_: BOUND)
    found = measured(tmp_path, "--kernel", "layer_norm", "--kernel", "softmax", "--sizes", "33", "--sol", "--backward")
    assert {one.case for one in found} == {"layer_norm", "layer_norm_backward", "softmax", "softmax_backward"}
    softmax = next(one for one in found if one.case == "softmax")
    ours = softmax.results["aule"]
    assert ours.values["sol"] == pytest.approx(2 * 4 * 256 * 33 / 1e9 / ours.seconds, rel=1e-3)
    assert not [one.errors for one in found if one.errors]


def test_providers_that_are_absent_are_skipped(device, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    arguments = ("--gemm", "--sizes", "16", "--providers", "aule,fa2,sdpa_cuda,xformers")
    (found,) = measured(tmp_path, *arguments)
    assert set(found.results) == {"aule"}
    told = capsys.readouterr().err
    assert all(f"provider {name} is skipped: there is no CUDA device" in told for name in ("fa2", "sdpa_cuda"))


def test_memory_limit_fails_the_case_that_needs_more_and_ends(device, tmp_path):
    torch.aule.empty_cache()
    before = torch.aule.get_per_process_memory_fraction()
    found = measured(tmp_path, "--gemm", "--sizes", "16,1024", "--providers", "aule", "--max-memory", "0.004")
    assert torch.aule.get_per_process_memory_fraction() == before
    assert "memory" in found[-1].errors["aule"]


@pytest.mark.parametrize(
    "arguments",
    [["--sizes", "8"], ["--gemm", "--sizes", "0"], ["--gemm", "--sizes", "a"], ["--gemm", "--dtypes", "f7"],
     ["--gemm", "--providers", "none"], ["--gemm", "--providers", "fa2"], ["--kernel", "none"],
     ["--gemm", "--fail-on-regression"], ["--gemm", "--compare", "none"],
     ["--gemm", "--iterations", "0"], ["--gemm", "--warmup", "-1"]],
)  # fmt: skip
def test_wrong_options_are_refused(device, arguments):
    with pytest.raises(SystemExit) as refused:
        command.main(arguments)
    assert refused.value.code not in (0, None)


def test_a_plot_of_the_run(device, tmp_path):
    pytest.importorskip("matplotlib")
    picture = tmp_path / "a.png"
    measured(tmp_path, "--attention", "--seq-lens", "16,32", "--plot", str(picture))
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", list(kernels.KERNELS))
@pytest.mark.parametrize("mode", kernels.MODES)
def test_kernels_agree_with_float64(device, name, mode):
    """What this build has; PyTorch's operators, composed, are always there."""
    kernel = kernels.KERNELS[name]
    sizes = kernel.sizes(19, {size: 13 for size in kernel.other})
    exact = kernel.make(sizes, torch.float64, mode, "cpu")()
    composed = kernel.make(sizes, torch.float32, mode, "aule", composed=True)()
    moved, _ = kernel.work(sizes, torch.float32, mode)
    elements = sum(t.numel() for t in exact)
    assert moved > 4 * elements and len(exact) == len(composed)
    for wanted, got in zip(exact, composed):
        torch.testing.assert_close(got.cpu().double(), wanted, rtol=2e-3, atol=2e-3)
    with pytest.raises(ValueError, match=f"{name}: no size Z"):
        kernel.sizes(1, {"Z": 1})


def test_all_of_them():
    options = command.parser().parse_args(["run", "--all", "--sizes", "8", "--dtypes", "f32"])
    (found,) = command.chosen(options, gpu=False)
    assert {one.group for one in found[1]} == {"gemm", "gemv", "attention", "decode", "conv", "kernels"}
    assert {one.name for one in found[1] if one.group == "kernels"} == set(kernels.KERNELS)


def test_a_run_is_compared_with_a_record(device, tmp_path, capsys):
    arguments = ["--gemm", "--sizes", "16,24", "--providers", "aule"]
    found = measured(tmp_path, *arguments)
    for one in found:  # nothing is so fast
        ours = one.results["aule"]
        for name in ("median", "min", "max"):
            setattr(ours, name, 1e-6)
        ours.samples = [1e-6] * len(ours.samples)
    before = tmp_path / "before.jsonl"
    before.write_text("".join(f"{one.line()}\n" for one in found))
    options = ["--small", "--iterations", "2", "--quiet", *arguments, "--compare", str(before)]
    assert command.main(options) == 0
    told = capsys.readouterr()
    assert "2 case(s) slower or failed" in told.err and "16x16" in told.out
    assert command.main([*options, "--fail-on-regression"]) == 1
    assert command.main([*options, "--fail-on-regression", "--threshold", "1e9"]) == 0


def test_described_cases_are_found_by_their_key():
    wanted = case.Wanted(families=("gemm",), sizes=(8,), dtypes=("float32",))
    sizes = case.Sizes(software=True, wanted=wanted)
    (one,) = chosen(sizes)
    assert with_key(one.key, sizes).key == one.key
    assert chosen(case.SOFTWARE) == []
