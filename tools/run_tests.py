"""The whole suite in strict mode: jobs in a queue with a slot for each core, the longest first.

    python3 tools/run_tests.py             what `make test` does: set up, build, test
    python3 tools/run_tests.py --long      nightly: the long form of tests, and every test under the validation layers
    python3 tools/run_tests.py --write     afterwards, where all passed: this run's row and columns in test/times.txt
    python3 tools/run_tests.py --check     runs nothing: fails if a file of tests has no row in test/times.txt

A job is one process: pytest over a shard of files, or a compiler. Its output is build/tests/JOB.log, shown when the job
failed; the times of its tests are build/tests/JOB.xml. Shards are balanced by test/times.txt.

The passes:

set-up            packages, drivers, the build
plain             on the installed driver: all tests but
validated         of those marked so a sample of the parameters, under the validation layers with synchronisation
                  validation: they launch every kernel
current           on a current lavapipe with cooperative matrices: `-m current_lavapipe`
validated current what of that is marked validated, likewise
without shuffles  there, without shuffles between lanes, under the layers: `-m without_shuffles`
narrow, wide      with the narrowest and the widest vectors, and so subgroups, of lavapipe: `-m vector_widths`
chips             all kernels with the compilers of chips that are not there
windows           the layers below Torch with a compiler for Windows
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import test_times  # noqa: E402

OUT = test_times.OUT
PYTHON = ROOT / ".venv" / "bin" / "python"
CURRENT = ROOT / "build" / "modern-lavapipe" / "run"
LEFT_OUT = 77  # exit status of what could not be fetched
STRICT = {
    "TORCH_AULE_STRICT": "1",
    "PYTHONDONTWRITEBYTECODE": "",  # else each of hundreds of interpreters compiles PyTorch's Python: 10 s and not 2
    "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
    "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1",  # a test of generated code generates it
    # glibc keeps what it has instead of asking the kernel for each larger tensor: a third of the time in the kernel.
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
    "MALLOC_TOP_PAD_": str(64 << 20),
}


@dataclass
class Pass:
    """Tests, where they run, and in how many shards at least."""

    name: str
    marks: str  # pytest's -m
    env: dict[str, str] = field(default_factory=dict)
    on_current: bool = False
    shards: int = 1


@dataclass
class Job:
    """One process of a pass."""

    of: str
    name: str
    command: list[str]
    env: dict[str, str]
    seconds: float  # expected
    took: float = 0.0
    status: int = 0

    @property
    def log(self) -> Path:
        return OUT / f"{self.name}.log"


def passes(long: bool) -> list[Pass]:
    """All of pytest's; in the long form each has the validation layers."""
    validation = {"TORCH_AULE_VALIDATION": "1"}
    everywhere = validation if long else {"TORCH_AULE_TEST_SAMPLED": "1"}
    # Each process adds a line for each kernel that it launches.
    logged = {**everywhere, **validation, "TORCH_AULE_KERNEL_LOG": str(OUT / "kernels.log")}
    current = "current_lavapipe" if long else "current_lavapipe and not current_long"
    no_shuffles = {"TORCH_AULE_DISABLE": "subgroup_shuffle"}
    return [
        Pass("plain", "not layered", everywhere, shards=8),
        Pass("validated", "layered", logged, shards=3),
        Pass("current", f"{current} and not layered", everywhere, on_current=True, shards=2),
        Pass("validated current", f"{current} and layered", logged, on_current=True, shards=2),
        Pass("without shuffles", "without_shuffles", {**logged, **no_shuffles}, on_current=True),
        Pass("narrow", "vector_widths", {**everywhere, "LP_NATIVE_VECTOR_WIDTH": "128"}),
        Pass("wide", "vector_widths", {**everywhere, "LP_NATIVE_VECTOR_WIDTH": "512"}),
    ]


def test_files(names: list[str] | None = None) -> list[Path]:
    """All files of tests, or those of these names, which are no other file's, in their order."""
    found = sorted((ROOT / "test").glob("*/test_*.py"), key=lambda path: path.name)
    return [path for path in found if names is None or path.name in names]


def files_with(marks: str) -> list[str]:
    """Test files that a pass reads: those that name each of its marks. What is taken out may be a part of a file."""
    files = {path.name: path.read_text() for path in test_files()}
    wanted = re.findall(r"\w+", re.sub(r"\bnot \w+|\band\b", "", marks))
    wanted = ["validated" if mark == "layered" else mark for mark in wanted]  # conftest.py marks a sample of those
    uses = [re.compile(rf"\bpytest\.mark\.{mark}\b") for mark in wanted]
    return [name for name, text in files.items() if all(use.search(text) for use in uses)]


def shards(files: dict[str, float], count: int) -> list[tuple[float, list[str]]]:
    """The files in `count` parts of about equal seconds, the longest file first into the shortest part."""
    parts: list[tuple[float, list[str]]] = [(0.0, []) for _ in range(count)]
    for name, seconds in sorted(files.items(), key=lambda item: (-item[1], item[0])):
        at = min(range(count), key=lambda i: parts[i][0])
        parts[at] = (parts[at][0] + seconds, [*parts[at][1], name])
    return [part for part in parts if part[1]]


def files_without_times(kept: test_times.Times, names: list[str]) -> list[str]:
    """Of these files of tests those that the table does not know: the queue cannot tell how long their shard takes."""
    known = {name for of_passes in (kept.files, kept.cold_files) for files in of_passes.values() for name in files}
    return [name for name in names if name not in known]


def report_files_without_times(kept: test_times.Times) -> bool:
    """Names the files that have no row, and returns whether there are any."""
    missing = files_without_times(kept, [path.name for path in test_files()])
    if missing:
        print(f"== without a row in test/times.txt, which --write adds: {', '.join(missing)}", flush=True)
    return bool(missing)


def jobs_of(one: Pass, kept: test_times.Times, common: dict[str, str], cold: bool = False) -> list[Job]:
    known = kept.of_files(one.name, cold)
    files = {name: known.get(name, test_times.UNKNOWN_SECONDS) for name in files_with(one.marks)}
    found = []
    parts = shards(files, one.shards)
    for number, (seconds, members) in enumerate(parts):
        name = one.name.replace(" ", "-") + (f"-{number + 1}" if len(parts) > 1 else "")
        python = [str(PYTHON)]
        env = {**common, **one.env}
        if one.on_current:
            # Of pytest's processes, and of those that tests start, each wants the driver's loader.
            python = [str(CURRENT), str(PYTHON)]
            env["TORCH_AULE_TEST_LAUNCHER"] = str(CURRENT)
        options = ["-q", "-p", "no:cacheprovider", "-m", one.marks, f"--junitxml={OUT / name}.xml"]
        command = [*python, "-m", "pytest", *options, *(str(path.relative_to(ROOT)) for path in test_files(members))]
        found.append(Job(one.name, name, command, env, seconds + test_times.START_SECONDS))
    return found


def run_job(job: Job) -> None:
    began = time.monotonic()
    with job.log.open("w") as log:
        try:
            done = subprocess.run(
                job.command, cwd=ROOT, env={**os.environ, **job.env}, stdout=log, stderr=subprocess.STDOUT, timeout=3600
            )
            job.status = done.returncode
        except subprocess.TimeoutExpired:
            log.write("\nstopped after an hour\n")
            job.status = 124
    job.took = time.monotonic() - began


def summary(log: Path) -> str:
    """Pytest's line of counts, after which a library may still print when the interpreter ends; else the last line."""
    lines = [line.strip("= ") for line in log.read_text(errors="replace").splitlines() if line.strip("= ")]
    counts = [line for line in lines if re.match(r"\d+ (passed|failed|skipped|deselected|errors?)\b.* in \d", line)]
    return (counts or lines or ["no output"])[-1]


def report(job: Job, out_of: str) -> None:
    """One line for what passed; all but the dots for what failed."""
    print(f"== {out_of} {job.name} ({job.took:.0f} s): {summary(job.log)}", flush=True)
    if job.status in (0, LEFT_OUT):
        return
    dots = re.compile(r"^[.sxXFE]+ *\[ *\d+%\]$")
    for line in job.log.read_text(errors="replace").splitlines():
        if not dots.match(line) and not line.startswith(("XFAIL", "SKIPPED")):
            print(line)
    sys.stdout.flush()


def run_all(jobs: list[Job], slots: int) -> None:
    """All jobs, the longest first, `slots` at a time; each is reported when it ends."""
    waiting = sorted(jobs, key=lambda job: -job.seconds)
    lock, ended = threading.Lock(), 0

    def work() -> None:
        nonlocal ended
        while True:
            with lock:
                if not waiting:
                    return
                job = waiting.pop(0)
            run_job(job)
            with lock:
                ended += 1
                report(job, f"{ended}/{len(jobs)}")

    threads = [threading.Thread(target=work, daemon=True) for _ in range(slots)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def set_up() -> Job:
    job = Job("set-up", "set-up", ["tools/setup_env.sh", "test", "demo"], {}, 0)
    began = time.monotonic()
    job.status = subprocess.run(job.command, cwd=ROOT).returncode
    job.took = time.monotonic() - began
    return job


def caches_are_cold() -> bool:
    """Whether no pipeline of ours has been kept by an earlier process."""
    code = "import torch_aule; print(torch_aule._C.cache_directory())"
    done = subprocess.run([PYTHON, "-c", code], cwd=ROOT, env={**os.environ, **STRICT}, capture_output=True, text=True)
    folder = done.stdout.strip()
    return not folder or not any(Path(folder).glob("pipelines*"))


def kernels_without_validation() -> bool:
    print("== kernels that the validated pass has not launched", flush=True)
    log = OUT / "kernels.log"
    if not log.exists():
        print("it launched none")
        return True
    done = subprocess.run([PYTHON, "test/support/kernel_coverage.py", str(log)], cwd=ROOT)
    if done.returncode == 0:
        print("none", flush=True)
    return done.returncode != 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--long", action="store_true", help="everything under validation, the long form of tests")
    parser.add_argument("--write", action="store_true", help="keep this run's times in test/times.txt")
    parser.add_argument("--check", action="store_true", help="only that each file of tests has its row there")
    options = parser.parse_args()
    kept = test_times.read()
    unknown = report_files_without_times(kept)
    if options.check:
        return int(unknown)

    began = time.monotonic()
    ready = set_up()
    if ready.status:
        return ready.status
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    cold = caches_are_cold()
    slots = int(os.environ.get("TORCH_AULE_TEST_JOBS", "2"))
    cores = os.cpu_count() or 1
    common = {**STRICT, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(max(1, cores // slots)))}
    if options.long:
        common["TORCH_AULE_LONG_TESTS"] = "1"

    has_current = subprocess.run(["tools/modern_lavapipe.sh", "build/modern-lavapipe"], cwd=ROOT).returncode == 0
    jobs = []
    for one in passes(options.long):
        if one.on_current and not has_current:
            print(f"== {one.name}: left out, the current lavapipe could not be fetched (see above)")
            continue
        jobs += jobs_of(one, kept, common, cold)
    every = ["--every"] if options.long else []
    chips = [str(PYTHON), "tools/chips/chip_statistics.py", "--smoke", "--jobs", "1", *every]
    jobs.append(Job("chips", "chips", chips, common, kept.expected("chips", cold)))
    jobs.append(Job("windows", "windows", ["tools/check_windows.sh"], common, kept.expected("windows", cold)))
    run_all(jobs, slots)

    failed = [job.name for job in jobs if job.status not in (0, LEFT_OUT)]
    if has_current and kernels_without_validation():  # cooperative matrices have kernels of their own
        failed.append("kernels under validation")
    wall = time.monotonic() - began
    times = test_times.collect(OUT, {job.name: (job.of, job.took) for job in [ready, *jobs]}, wall, cold)
    test_times.report(times, kept)
    if failed:
        print("== failed:", ", ".join(failed))
        return 1
    if options.write:
        test_times.write(times, kept)
    return 0


if __name__ == "__main__":
    sys.exit(main())
