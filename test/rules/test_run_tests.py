"""What runs the tests: shards, the table of times, passes and their marks, interpreters that are forked."""

import random
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from helpers import ROOT, check_python, run_interpreter, run_python

sys.path.insert(0, str(ROOT / "tools"))
import run_tests  # noqa: E402
import test_bounds  # noqa: E402
import test_times as table  # noqa: E402

REPORT = """<?xml version="1.0"?><testsuites><testsuite name="pytest" tests="4">
<testcase classname="test.rooms.test_a" name="test_x[1]" time="1.5"/>
<testcase classname="test.rooms.test_a" name="test_y" time="0.25"><skipped message="why"/></testcase>
<testcase classname="test.test_b" name="test_z" time="2.0"><failure message="no"/></testcase>
</testsuite></testsuites>"""


@pytest.mark.parametrize("count", [1, 3, 5])
def test_shards_have_each_file_once_and_are_balanced(count):
    files = {f"test_{i}.py": random.expovariate(0.1) for i in range(80)}
    parts = run_tests.shards(files, count)
    assert sorted(name for _, names in parts for name in names) == sorted(files)
    for seconds, names in parts:
        assert seconds == pytest.approx(sum(files[name] for name in names))
    # The last file that the fullest part got went to the shortest one.
    fullest, names = max(parts)
    assert fullest - min(files[name] for name in names) <= min(seconds for seconds, _ in parts) + 1e-9


@pytest.mark.parametrize("long", [False, True])
def test_every_mark_of_a_pass_is_described_and_used(long):
    described = (ROOT / "pyproject.toml").read_text()
    for one in run_tests.passes(long):
        for mark in re.findall(r"\w+", one.marks):
            if mark not in ("and", "not"):
                assert re.search(rf'"{mark}(\(.*?\))?: ', described), mark
                assert run_tests.files_with(mark), mark
        assert run_tests.files_with(one.marks)


def test_a_pass_with_two_marks_reads_the_files_that_have_both():
    both = run_tests.files_with("validated and current_lavapipe")
    assert set(both) == set(run_tests.files_with("validated")) & set(run_tests.files_with("current_lavapipe"))
    assert set(run_tests.files_with("not validated")) == {path.name for path in run_tests.test_files()}


def test_every_job_says_what_it_runs():
    """Each file is in one shard of each pass that reads it."""
    for one in run_tests.passes(long=False):
        jobs = run_tests.jobs_of(one, table.read(), {})
        files = [Path(word).name for job in jobs for word in job.command if word.startswith("test/")]
        assert sorted(files) == run_tests.files_with(one.marks)
        assert len({job.name for job in jobs}) == len(jobs)


SETS = """
import pytest

@pytest.mark.validated
@pytest.mark.parametrize("i", range(30))
def test_some(i): pass

@pytest.mark.validated(every=True)
@pytest.mark.parametrize("i", range(30))
def test_every(i): pass

@pytest.mark.sampled(3)
@pytest.mark.parametrize("i", range(9))
def test_few(i): pass

def test_plain(): pass
"""


@pytest.mark.parametrize("sampled", ["1", None])
def test_samples_of_parameters(tmp_path, sampled):
    """Whatever a run leaves out, each set that runs does so in one of the two passes."""
    (tmp_path / "conftest.py").write_text((ROOT / "test" / "conftest.py").read_text())
    (tmp_path / "sets").mkdir()
    (tmp_path / "sets" / "test_sets.py").write_text(SETS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = validated\n  sampled\n  layered\n")
    seen = {}
    for marks in ("layered", "not layered"):
        options = ["-q", "--collect-only", "-p", "no:cacheprovider", "-m", marks, str(tmp_path)]
        printed = run_interpreter("-m", "pytest", *options, timeout=140, TORCH_AULE_TEST_SAMPLED=sampled,
                                  TORCH_AULE_TEST_SHARE=None).stdout  # fmt: skip
        seen[marks] = re.findall(r"::(\w+)(?:\[(\d+)\])?", printed)
    names = [name for name, _ in seen["layered"]]
    assert names == ["test_some"] * (6 if sampled else 30) + ["test_every"] * 30
    others = {name: [i for other, i in seen["not layered"] if other == name] for name, _ in seen["not layered"]}
    assert others.pop("test_plain") == [""]
    if sampled:
        layered = [i for name, i in seen["layered"] if name == "test_some"]
        assert layered[0] == "0" and layered[-1] == "29"
        assert sorted([*layered, *others["test_some"]], key=int) == [str(i) for i in range(30)]
        assert others["test_few"] == list("048") and len(others) == 2
    else:
        assert others == {"test_few": list("012345678")}


def test_files_without_a_row_are_named(monkeypatch, capsys):
    kept = table.Times(files={"plain": {"test_a.py": 1.0}}, cold_files={"validated": {"test_b.py": 2.0}})
    assert run_tests.files_without_times(kept, ["test_a.py", "test_b.py", "test_c.py"]) == ["test_c.py"]
    monkeypatch.setattr(sys, "argv", ["run_tests.py", "--check"])
    monkeypatch.setattr(table, "read", lambda: kept)
    assert run_tests.main() == 1
    assert "without a row in test/times.txt" in capsys.readouterr().out
    everything = {path.name: 1.0 for path in run_tests.test_files()}
    monkeypatch.setattr(table, "read", lambda: table.Times(files={"plain": everything}))
    assert run_tests.main() == 0 and capsys.readouterr().out == ""


def test_times_of_a_run_are_kept(tmp_path, capsys):
    (tmp_path / "plain-1.xml").write_text(REPORT)
    jobs = {"plain-1": ("plain", 12.0), "plain-2": ("plain", 10.0), "chips": ("chips", 50.0)}
    run = table.collect(tmp_path, jobs, wall=60.0, cold=False)
    assert run.passes == {"plain": {"warm": 22.0}, "chips": {"warm": 50.0}}
    assert run.files == {"plain": {"test_a.py": 1.75, "test_b.py": 2.0}}
    assert run.tests == {"plain": 2} and run.slowest[0] == (2.0, "plain", "test_b.py::test_z")
    path = tmp_path / "times.txt"
    table.write(run, table.Times(), path)
    kept = table.read(path)
    assert (kept.wall, kept.passes, kept.tests) == ({"warm": 60.0}, run.passes, run.tests)
    assert kept.files["plain"] == pytest.approx(run.files["plain"], abs=0.06)
    assert kept.expected("chips", cold=False) == kept.expected("chips", cold=True) == 50.0

    cold = table.collect(tmp_path, {name: (of, 2 * took) for name, (of, took) in jobs.items()}, wall=130.0, cold=True)
    table.write(cold, kept, path)
    both = table.read(path)
    assert both.wall == {"warm": 60.0, "cold": 130.0} and both.passes["plain"] == {"warm": 22.0, "cold": 44.0}
    assert both.files == kept.files and both.of_files("plain", cold=False) == kept.files["plain"]
    assert both.of_files("plain", cold=True) == kept.files["plain"]  # the same reports
    assert both.expected("chips", cold=True) == 100.0

    slow = table.collect(tmp_path, {**jobs, "plain-2": ("plain", 20.0)}, wall=61.0, cold=False)
    table.report(slow, both)
    assert "slower than test/times.txt: plain 32 s, there 22" in capsys.readouterr().out
    table.report(run, both)
    assert "slower" not in capsys.readouterr().out


def test_a_failed_job_is_shown_and_a_passed_one_is_a_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(run_tests, "OUT", tmp_path)
    program = "print('...x [ 10%]'); print('what failed'); print('== 1 failed in 2 s ==')"
    for status in (0, 3):
        job = run_tests.Job("plain", "plain-1", [sys.executable, "-c", f"{program}; raise SystemExit({status})"], {}, 1)
        run_tests.run_all([job], slots=2)
        shown = capsys.readouterr().out
        assert job.status == status and "1/1 plain-1" in shown and "1 failed in 2 s" in shown
        assert ("what failed" in shown) == (status != 0) and "10%" not in shown


def test_jobs_run_longest_first_in_as_many_slots(tmp_path, monkeypatch):
    monkeypatch.setattr(run_tests, "OUT", tmp_path)
    began, running, most = [], 0, 0

    def run(job):
        nonlocal running, most
        began.append(job.seconds)
        running += 1
        most = max(most, running)
        job.log.write_text("done\n")
        running -= 1

    monkeypatch.setattr(run_tests, "run_job", run)
    jobs = [run_tests.Job("plain", f"plain-{i}", [], {}, seconds) for i, seconds in enumerate([3, 9, 1, 7])]
    run_tests.run_all(jobs, slots=1)
    assert began == [9, 7, 3, 1] and most == 1


FORKED = """
import __main__, os, sys, atexit
def at_end():
    print("ended")
atexit.register(at_end)
loaded = [name for name in ("torch", "torch_aule") if name in sys.modules]
print(loaded, sys.argv, os.environ.get("TORCH_AULE_OF_A_TEST"), __main__.at_end is at_end, os.getcwd())
print("to stderr", file=sys.stderr)
"""


def test_a_forked_interpreter_is_as_a_fresh_one():
    done = run_python(FORKED, TORCH_AULE_OF_A_TEST="1")
    assert done.stdout == f"['torch'] ['-c'] 1 True {ROOT}\nended\n" and done.stderr == "to stderr\n"
    assert " None " in run_python(FORKED).stdout  # another program sees nothing of it
    assert run_python("import sys; sys.exit(7)").returncode == 7
    assert run_python("import os, signal; os.kill(os.getpid(), signal.SIGKILL)").returncode == -signal.SIGKILL
    failed = run_python("1 / 0")
    assert failed.returncode == 1 and "ZeroDivisionError" in failed.stderr
    assert check_python("import torch_aule, torch; print(torch.aule.is_initialized())") == "False\n"


def test_a_forked_interpreter_that_hangs_is_stopped():
    with pytest.raises(subprocess.TimeoutExpired):
        run_python("import time; time.sleep(600)", timeout=2)
    assert check_python("print('again')") == "again\n"


def test_shares_of_bounds():
    for text, share in (
        ("0.25 < 0.5", 0.5),
        ("2e-05 <= 0.0001", 0.2),
        ("tensor(0.0030, dtype=torch.float64) <= (2 * (0.001 + 0.001))", 0.75),
        ("0.5 < (0.5 * max(1.0, 2))", None),  # pytest has replaced calls by their results
        ("tensor(0.0030, dtype=torch.float64) <= 0.004", 0.75),
        ("(0.5) < 2", 0.25),
        ("3 < 4", None),  # whole numbers are counts
        ("0.5 > 0.25", None),
        ("0.5 < x.bound", None),
    ):
        found = test_bounds.share_of(text)
        assert found == share if share is None else abs(found - share) < 1e-6, text
    one = torch.tensor([1.0, 4.0])
    assert abs(test_bounds.share_of_close(one + torch.tensor([0.0, 0.5]), one, 0.25, 0.0) - 0.5) < 1e-6
    assert test_bounds.share_of_close(one, one, 0, 0) is test_bounds.share_of_close([1.0], [1.0], 0.1, 0.1) is None
    assert test_bounds.share_of_close(one.int(), one.int(), 0.1, 0.1) is None


def test_bounds_of_a_file(tmp_path):
    """Each test with as many seeds, until one fails; the largest share of each comparison."""
    program = Path(__file__).parent / "programs" / "near_bounds"
    shutil.copy(program.with_suffix(".py"), tmp_path / "test_x.py")
    command = ["tools/test_bounds.py", "--seeds", "4", "--share", "0.7", "-p", "no:cacheprovider", str(tmp_path)]
    ended = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert ended.returncode == 1, ended.stderr
    assert "1 failed, 7 passed" in ended.stdout
    assert re.findall(r"^ (\d\.\d\d)  \S*(test_\w+)  (.*)", ended.stdout, re.M) == [
        ("0.86", "test_more", "line 10: 0.1 * runs[0] < 0.35"),
        ("0.80", "test_close", "assert_close, rtol 0, atol 0.05"),
    ]
