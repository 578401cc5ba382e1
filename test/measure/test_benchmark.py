"""The benchmark: every case once and tiny, its record, and the commands that read records."""

import dataclasses
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import torch_aule
from torch_aule.benchmark import command
from torch_aule.benchmark.cases import GROUPS
from torch_aule.benchmark.cases.attention import form_settings
from torch_aule.benchmark.harness import baseline, case, run, targets, timing
from torch_aule.benchmark.harness.gpt2 import Gpt2Config
from torch_aule.benchmark.report import compare, markdown, record
from torch_aule.benchmark.report.record import Record, Result, Run

TINY = case.Sizes(
    total=1 << 13, lengths=(32,), plot_lengths=(16, 32), dims=(16,), other_dims=(24,), other_length=16,
    odd_length=(30, 32), gemm=(32,), gemm_float32=16, few_rows=(32, 32), vocabulary=(16, 8, 33, 40),
    decode_keys=(64,), rows=(8, 32), quantized=((24, 256),), quantized_rows=(1, 17),
    cold_bytes=1 << 14, tiny_ops=4, gpt2=Gpt2Config(layers=1, width=16, heads=2, vocabulary=33, context=8, batch=2),
    training_steps=12, layer_most=(1, 8, 6), fft_points=1 << 10, sound_seconds=0.2,
)  # fmt: skip
ONCE = timing.Settings(sample_ms=0.0, samples=2, rest_s=0.0, wall_samples=2, host_samples=2, host_calls=5)
LISTS = ("attention", "gemm", "norms", "decode", "quantized", "chains", "dispatch", "memory")


@pytest.fixture(scope="module")
def records():
    """The cases of a GPU on whatever is here. The CPU stands in for CUDA: the same code compares."""
    cases = [one for group in LISTS for one in GROUPS[group](TINY)]
    for group in ("layers", "fft"):
        cases += {one.name: one for one in GROUPS[group](TINY)}.values()  # of each the last size
    cases += [one for one in GROUPS["audio"](TINY) if one.name != "Whisper-small encoder"]  # which has no tiny form
    cases += [one for one in GROUPS["accuracy"](TINY) if one.name in ("gelu", "matmul")]
    found = []
    about = Run(device="d", driver="e", torch=torch.__version__)
    run.run(cases, about, found.append, baselines=["cpu"], sizes=TINY, settings=ONCE)
    return found


def test_every_case_runs(records):
    lacks = {"aule": "this device has no attention on matrix units of unknown layout"}
    assert not [(x.name, x.errors) for x in records if x.errors and not ("opaque" in x.name and x.errors == lacks)]
    records = [x for x in records if not x.errors]
    assert {x.group for x in records} == {*LISTS, "layers", "fft", "audio", "accuracy"}
    for x in records:
        if x.group in ("accuracy", "memory"):
            assert x.results["aule"].values
        else:
            assert x.results["aule"].median > 0 and len(x.results["aule"].samples) == 2, x.name
            assert x.speed("cpu") > 0


def test_keys_are_unique(records):
    keys = [x.key for x in records]
    assert len(keys) == len(set(keys))


def test_targets_are_judged(records):
    judged = {x.target.of for x in records if x.target and x.target.met is not None}
    assert judged == {"tflops", "copy", "twin", "us"}  # CUDA's speed cannot be known here
    assert all(x.target.of == "cuda" for x in records if x.target and x.target.met is None)


def test_records_survive_the_file(records, tmp_path):
    path = tmp_path / "records.jsonl"
    path.write_text("".join(x.line() + "\n" for x in records))
    assert record.read(str(path)) == records
    assert all(json.loads(x.line())["schema"] == record.SCHEMA for x in records)


@pytest.mark.parametrize(
    "text", ["{}", "[]", "no json", '{"schema": 0, "group": "a", "case": "b"}', '{"schema": 1, "group": "a"}',
             '{"schema": 1, "group": "a", "case": "b", "ms": 3}'],
)  # fmt: skip
def test_what_is_no_record_is_refused_with_its_line(text, tmp_path):
    path = tmp_path / "bad.jsonl"
    path.write_text(Record("a", "b").line() + "\n" + text + "\n")
    with pytest.raises(SystemExit, match="bad.jsonl:2: "):
        record.read(str(path))


def test_saved_records_are_readable():
    """What benchmarks/results holds is of this schema, and can be reported."""
    folder = Path(__file__).resolve().parents[2] / "benchmarks" / "results"
    files = sorted(folder.glob("*.jsonl"))
    assert files
    for path in files:
        assert markdown.markdown(record.read(str(path)))


def test_report_has_a_row_for_each_case(records):
    text = markdown.markdown(records)
    for name in ("sdpa_forward", "mm_NT", "tiny_dependent", "gelu"):
        assert text.count(f"\n| {name} |") == sum(x.case == name for x in records) > 0
    assert " targets are met." in text and "reserved after step 10" in text


def test_report_says_what_failed():
    lost = Record("gemm", "mm", "8x8x8", "float32", {"cpu": Result.of_times([1.0], "ms")}, errors={"aule": "a | b"})
    text = markdown.markdown([lost])
    assert "failed: a / b" in text and "| CPU, ms |" in text


def test_rates_are_those_of_the_median():
    result = Result.of_times([1.0, 2.0, 9.0], "ms", flops=4e9)
    assert (result.median, result.min, result.max, result.count) == (2.0, 1.0, 9.0, 3)
    assert (result.rate, result.rate_unit, result.tflops) == (2.0, "TFLOPS", 2.0)
    assert Result.of_times([1e6], "us", moved=3e9).rate == 3.0
    assert Result.of_times([1.0], "s", flops=5e9).tflops == 0.005


# Comparison


def timed(name: str, *samples: float, unit: str = "ms", **more) -> Record:
    return Record("gemm", name, "8x8x8", "float32", {"aule": Result.of_times(samples, unit)}, **more)


def saved(path: Path, *records: Record) -> str:
    path.write_text("".join(x.line() + "\n" for x in records))
    return str(path)


@pytest.mark.parametrize(
    "before, after, wanted",
    [
        ((1.0, 1.0, 1.0), (1.04, 1.04, 1.04), "same"),
        ((1.0, 1.01, 0.99), (1.10, 1.11, 1.09), "slower"),
        ((1.0, 1.01, 0.99), (0.90, 0.91, 0.89), "faster"),
        ((1.0, 0.7, 1.3, 0.8, 1.2), (1.1, 0.8, 1.4, 0.9, 1.3), "noise"),  # the medians differ by less than samples do
        ((1.0, 0.7, 1.3, 0.8, 1.2), (0.9, 0.6, 1.2, 0.7, 1.1), "noise"),
        ((1.0, 1.0, 1.0, 1.0, 1.9), (1.1, 1.1, 1.1, 1.1, 1.1), "slower"),  # one sample that something else delayed
        ((1.0,), (1.1,), "slower"),
    ],
)
def test_verdicts(before, after, wanted):
    (row,) = compare.compare([timed("a", *before)], [timed("a", *after)], 0.05).rows
    assert row.verdict == wanted
    assert row.ratio == pytest.approx(sorted(after)[len(after) // 2] / sorted(before)[len(before) // 2])


def test_units_are_converted():
    (row,) = compare.compare([timed("a", 1.0)], [timed("a", 1100.0, unit="us")], 0.05).rows
    assert row.verdict == "slower" and row.ratio == pytest.approx(1.1)


def test_extremes_are_the_spread_of_records_without_samples():
    def of(median, low, high):
        return Record("gemm", "a", results={"aule": Result("ms", median, low, high, count=5)})

    assert compare.compare([of(1.0, 0.9, 1.2)], [of(1.1, 1.05, 1.3)]).rows[0].verdict == "noise"
    assert compare.compare([of(1.0, 0.9, 1.04)], [of(1.1, 1.05, 1.3)]).rows[0].verdict == "slower"


def test_missing_and_failed_cases():
    failed = Record("gemm", "b", "8x8x8", "float32", errors={"aule": "out of memory"})
    found = compare.compare(
        [timed("a", 1.0), timed("b", 1.0), timed("c", 1.0)], [timed("a", 1.0), failed, timed("d", 1.0)]
    )
    assert [row.verdict for row in found.rows] == ["same", "failed", "only before", "only after"]
    assert [row.name for row in found.regressions()] == ["b 8x8x8 float32"]
    other = dataclasses.replace(timed("a", 9.0), dtype="float16")
    assert {row.verdict for row in compare.compare([timed("a", 1.0)], [other]).rows} == {"only before", "only after"}


def test_means_by_group_and_drift_of_the_baseline():
    def pair(name, ours, cuda):
        return Record(
            "gemm", name, results={"aule": Result.of_times([ours], "ms"), "cuda": Result.of_times([cuda], "ms")}
        )

    found = compare.compare([pair("a", 1.0, 1.0), pair("b", 1.0, 1.0)], [pair("a", 2.0, 1.1), pair("b", 0.5, 1.1)])
    assert found.summary() == [["gemm", "2", "1", "1", "1.000", "cuda 1.100"]]


def test_samples_of_several_processes_are_put_together():
    both = record.merged([timed("a", 1.0, 1.2), timed("a", 1.6)])
    result = both["gemm", "a", "8x8x8", "float32"].results["aule"]
    assert (result.samples, result.median, result.max, result.count) == ([1.0, 1.2, 1.6], 1.2, 1.6, 3)


@pytest.mark.parametrize(
    "options, slower, status",
    [([], 1.06, 0), (["--fail-on-regression"], 1.06, 1), (["--fail-on-regression"], 1.04, 0),
     (["--fail-on-regression", "--threshold", "0.2"], 1.06, 0), (["--fail-on-regression", "--markdown"], 1.06, 1)],
)  # fmt: skip
def test_regressions_fail_when_asked(tmp_path, capsys, options, slower, status):
    """The default threshold is 5 %."""
    before, after = saved(tmp_path / "before", timed("a", 1.0)), saved(tmp_path / "after", timed("a", slower))
    assert command.main(["compare", before, after, *options]) == status
    printed = capsys.readouterr()
    is_slower = slower > 1.05 and "0.2" not in options
    assert ("slower" in printed.out.replace("slower or failed", "")) == is_slower
    assert ("1 case(s) slower or failed" in printed.err) == is_slower
    assert "a 8x8x8 float32" in printed.out and f"{slower:.3f}" in printed.out
    assert printed.out.count("|---") == (13 if "--markdown" in options else 0)  # columns of two tables


# Targets


@pytest.mark.parametrize(
    "of, bound, reached, met",
    [("cuda", 1.5, 2.0, True), ("cuda", 2.5, 2.0, False), ("tflops", 3.0, 4.0, True), ("copy", 0.6, 0.5, False),
     ("twin", 0.5, 0.5, True), ("cpu", 0.3, 0.25, True), ("cpu", 0.2, 0.25, False), ("us", 1000, 1000.0, True),
     ("s", 0.0005, 0.001, False)],
)  # fmt: skip
def test_targets(of, bound, reached, met):
    """1 ms here, 2 ms with CUDA, 4 ms on the CPU; times are met below their bound, all else above."""
    results = {runner: Result.of_times([ms], "ms") for runner, ms in (("aule", 1.0), ("cuda", 2.0), ("cpu", 4.0))}
    results["aule"].rate, results["aule"].rate_unit = (4.0, "GB/s" if of == "copy" else "TFLOPS")
    one, twin = Record("gemm", "a", results=results), Record("gemm", "b")
    twin.results = {"aule": Result("ms", 1.0, rate=8.0, rate_unit="TFLOPS")}
    targets.judge(one, targets.Target(of, bound, twin=twin.key), {twin.key: twin}, copy=8.0)
    assert (one.target.reached, one.target.met) == (pytest.approx(reached), met)


def test_what_failed_misses_its_target():
    failed = Record("gemm", "a", errors={"aule": "lost"})
    targets.judge(failed, targets.Target("tflops", 1.0), {}, copy=0.0)
    assert failed.target.met is False and failed.target.reached is None


# Runners


def test_the_child_answers_for_cases_with_autograd():
    # As for CUDA, with the CPU in its place: the backend must not be needed there.
    child = baseline.Child(TINY, ONCE)
    cases = [c for c in GROUPS["norms"](TINY) if c.name in ("layer_norm_backward", "cross_entropy_backward")]
    assert cases and all(c.autograd for c in cases)
    child.ask("hold", "cpu")
    for one in cases:
        remote = baseline.Remote(child, one, "cpu")
        remote.sample()
        assert remote.result().rate > 0
    with pytest.raises(RuntimeError):
        child.ask("make", "nowhere", cases[0].key)
    child.forget()
    child.close()


def test_wall_time_waits_and_host_time_does_not(device, monkeypatch):
    monkeypatch.setattr(timing, "synchronize", lambda device: time.sleep(0.02))

    def make(where):
        a = torch.zeros(8, device=where)
        return lambda: a.add_(1)

    settings = dataclasses.replace(ONCE, host_calls=1, host_samples=3, wall_samples=3)
    seconds = {}
    for clock in ("wall", "host"):
        one = case.Case("pointwise", "add", "", "float32", make, clock=clock)
        seconds[clock] = run.run_case(one, [], settings, {}).results["aule"].seconds
    assert seconds["host"] < 0.02 <= seconds["wall"]


def test_a_failing_case_is_recorded(device):
    def make(where):
        raise RuntimeError("first line\nsecond line")

    failed = run.run_case(case.Case("gemm", "mm", "", "float32", make), [], ONCE, {})
    assert failed.errors == {"aule": "first line"} and not failed.results


def test_forms_of_attention_in_builds_that_read_the_environment(monkeypatch):
    monkeypatch.delattr(torch_aule._C, "set_overrides", raising=False)
    monkeypatch.setenv("AULE_ATTENTION_WORKSPACE", "3")
    settings = form_settings("two_passes", 64)
    for _ in range(2):
        with settings:
            assert os.environ["AULE_ATTENTION_WORKSPACE"] == "0"
        assert os.environ["AULE_ATTENTION_WORKSPACE"] == "3"


def test_forms_of_attention_in_builds_with_overrides(monkeypatch):
    class Overrides(dict):
        set = dict.__setitem__

    current = [Overrides(attention_workspace="3")]
    monkeypatch.setattr(torch_aule._C, "overrides", lambda: Overrides(current[-1]), raising=False)
    monkeypatch.setattr(torch_aule._C, "set_overrides", current.append, raising=False)
    settings = form_settings("two_passes", 64)
    for _ in range(2):
        with settings:
            assert current[-1] == {"attention_workspace": "0"}
        assert current[-1] == {"attention_workspace": "3"}


def test_training_step_of_the_model():
    step = GROUPS["gpt2"](TINY)[0].make("aule")
    first = step().item()
    assert step().item() < first


@pytest.mark.parametrize("sizes", [case.GPU, case.SOFTWARE], ids=["gpu", "software"])
def test_the_real_sizes_name_their_twins(sizes):
    cases = [one for cases in GROUPS.values() for one in cases(sizes)]
    seen = set()
    cases.sort(key=lambda one: not one.main)  # as they run
    for one in cases:
        if one.target is not None and one.target.of == "twin":
            assert one.target.twin in seen, one.key
        assert one.key not in seen
        seen.add(one.key)
    assert 50 < len(cases) < 800


def test_minor_cases_are_left_out_when_time_is_up(device, capsys):
    def one(name, main):
        return case.Case("pointwise", name, "", "float32", lambda where: lambda: None, clock="wall", main=main)

    cases = [one("minor", False), one("main", True)]
    found = run.run(cases, Run(), lambda x: None, baselines=[], sizes=TINY, settings=ONCE, seconds=0.0)
    assert [x.case for x in found] == ["main"]
    assert "1 left out" in capsys.readouterr().err


def test_revision_is_that_of_the_tree_around_the_package(tmp_path):
    assert run.git_revision(tmp_path) is None
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    for arguments in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "a"]):
        subprocess.run([*git, *arguments], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout
    assert head.startswith(run.git_revision(tmp_path)) and len(run.git_revision(tmp_path)) == 9


@pytest.mark.skipif(os.name == "nt", reason="the stand-in is a shell script")
@pytest.mark.parametrize("answer, mhz", [("echo 1980; echo 345", 1980), ("echo none", None), ("exit 1", None)])
def test_clock_of_the_first_gpu(tmp_path, monkeypatch, answer, mhz):
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{answer}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    clock = run.Clock()
    assert clock() == mhz
    program.write_text("#!/bin/sh\necho 7\n")
    assert clock() == mhz, "asked again too soon"


# The command


def test_run_saves_appends_and_prints(device, tmp_path, capsys):
    path = tmp_path / "deep" / "run.jsonl"
    arguments = ["run", "--small", "--groups", "dispatch", "--quick", "--only", "add", "--save", str(path)]
    strict = torch.aule.is_strict()
    assert command.main(arguments) == 0
    assert torch.aule.is_strict() == strict
    printed = capsys.readouterr().out
    assert printed == path.read_text()
    names = [x.name for x in record.read(str(path))]
    assert names == ["add 16 values float32", "add_out 16 values float32"]
    about = record.read(str(path))[0].run
    assert about.device == torch.aule.get_device_name() and about.torch == torch.__version__
    assert command.main([*arguments, "--append", "--markdown", "--no-cpu"]) == 0
    assert len(record.read(str(path))) == 4
    assert "| add_out |" in capsys.readouterr().out


def test_run_refuses_what_it_does_not_know(device):
    with pytest.raises(SystemExit, match="no group nonsense"):
        command.main(["run", "--groups", "gemm,nonsense"])
    assert command.main(["run", "--small", "--groups", "gpt2"]) == 2


def test_plot_writes_a_picture(tmp_path, capsys):
    pytest.importorskip("matplotlib")  # comes with the extra `demo`

    def point(name, n, **tflops):
        results = {runner: Result("ms", 1.0, rate=value, rate_unit="TFLOPS") for runner, value in tflops.items()}
        about = Run(device="d", driver="e", torch="2")
        return Record("attention", name, f"B1 H8/8 N{n} D64", "float16", results, run=about)

    lines = [point("sdpa_forward", n, aule=n / 10, cuda=n / 8) for n in (512, 1024)]
    lines.append(point("sdpa_backward", 1024, aule=3.0, cudnn=4.0))
    source, picture = saved(tmp_path / "a.jsonl", *lines), tmp_path / "a.png"
    assert command.main(["plot", source, "--out", str(picture), "--mark", "other=7"]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG") and picture.stat().st_size > 5000
    with pytest.raises(SystemExit, match="no attention in bfloat16"):
        command.main(["plot", source, "--out", str(picture), "--dtype", "bfloat16"])


def test_another_build_is_timed_by_these_cases(device, tmp_path):
    """--package-root: the package comes from there, the benchmark from here."""
    here = Path(torch_aule.__file__).resolve().parent
    package = tmp_path / "torch_aule"
    package.mkdir()
    for path in here.iterdir():
        if path.name not in ("benchmark", "_version.py", "__pycache__"):
            (package / path.name).symlink_to(path)
    versions = (here / "_version.py").read_text()
    (package / "_version.py").write_text(versions.replace(torch_aule.__version__, "0.0.1.other"))
    path = tmp_path / "run.jsonl"
    # It starts `python torch_aule/benchmark --package-root ...`, which can also be called.
    command_line = [sys.executable, "-m", "torch_aule.benchmark", "--package-root", str(tmp_path), "run", "--groups",
                    "accuracy", "--only", "gelu", "--small", "--save", str(path)]  # fmt: skip
    done = subprocess.run(command_line, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    found = record.read(str(path))
    assert len(found) == 3 and {x.run.torch_aule for x in found} == {"0.0.1.other"}
    assert not any(x.errors for x in found)
