"""How long the tests take: the table test/times.txt, and what a run adds to it.

    python3 tools/test_times.py            of the last run of tools/run_tests.py: its passes, slowest files and tests

`tools/run_tests.py --write` keeps a run's numbers. All are seconds. A pass is the sum of its processes, each of which
has a core to itself.
"""

from __future__ import annotations

import os
import platform
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "test" / "times.txt"
OUT = ROOT / "build" / "tests"
START_SECONDS = 10.0  # of a process: imports, and pytest's collection
UNKNOWN_SECONDS = 5.0  # a file that the table does not know yet
DRIFT = 1.3  # a pass that takes as much more than its row says so
SHOWN = 40  # slowest tests
HEAD = """\
# Written by tools/run_tests.py --write. Seconds: of a run as a whole, of its passes (sums over their processes, each of
# which has a core to itself), of the tests of each file. Cold: nothing was there, no build, no pipeline.
"""


@dataclass
class Times:
    """What the table keeps, or what one run took."""

    cold: bool = False
    wall: dict[str, float] = field(default_factory=dict)  # "warm" or "cold" -> seconds
    machine: dict[str, str] = field(default_factory=dict)
    passes: dict[str, dict[str, float]] = field(default_factory=dict)  # pass -> "warm" or "cold" -> seconds
    tests: dict[str, int] = field(default_factory=dict)  # pass -> how many ran
    files: dict[str, dict[str, float]] = field(default_factory=dict)  # pass -> file -> seconds of a warm run
    cold_files: dict[str, dict[str, float]] = field(default_factory=dict)  # of a cold one
    slowest: list[tuple[float, str, str]] = field(default_factory=list)  # seconds, pass, test

    @property
    def state(self) -> str:
        return "cold" if self.cold else "warm"

    def expected(self, name: str, cold: bool) -> float:
        """Seconds of a pass, or of one in the other state where none is known."""
        row = self.passes.get(name, {})
        return row.get("cold" if cold else "warm", next(iter(row.values()), 60.0))

    def of_files(self, name: str, cold: bool) -> dict[str, float]:
        """Seconds of the files of a pass, likewise."""
        first, second = (self.cold_files, self.files) if cold else (self.files, self.cold_files)
        return first.get(name) or second.get(name, {})


def _cases(path: Path):
    """File, name, seconds and whether it ran, of each test in a report of pytest."""
    for case in ElementTree.parse(path).iter("testcase"):
        file = [part for part in case.get("classname", "").split(".") if part.startswith("test_")]
        ran = all(child.tag != "skipped" for child in case)
        yield f"{file[0] if file else '?'}.py", case.get("name"), float(case.get("time", 0)), ran


def collect(folder: Path, jobs: dict[str, tuple[str, float]], wall: float, cold: bool) -> Times:
    """The times of a run: `jobs` has for each process its pass and its seconds, `folder` the reports of pytest."""
    times = Times(cold=cold)
    times.wall[times.state] = wall
    times.machine[times.state] = f"{os.cpu_count()} cores, {_processor()}"
    passes: dict[str, float] = defaultdict(float)
    tests: Counter[str] = Counter()
    files: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for job, (name, seconds) in jobs.items():
        passes[name] += seconds
        report = folder / f"{job}.xml"
        if not report.exists():
            continue
        for file, test, took, ran in _cases(report):
            files[name][file] += took
            tests[name] += ran
            times.slowest.append((took, name, f"{file}::{test}"))
    times.passes = {name: {times.state: seconds} for name, seconds in passes.items()}
    times.tests = dict(tests)
    by_pass = {name: dict(members) for name, members in files.items()}
    times.files, times.cold_files = ({}, by_pass) if cold else (by_pass, {})
    times.slowest.sort(reverse=True)
    return times


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def report(times: Times, kept: Times) -> None:
    """Prints the passes, and which are slower than their rows in the table."""
    (wall,) = times.wall.values()
    print(
        f"== seconds, {times.state}: {wall:.0f}, of which "
        + ", ".join(f"{name} {took[times.state]:.0f}" for name, took in times.passes.items())
    )
    for name, took in [("all", {times.state: wall}), *times.passes.items()]:
        row = (kept.wall if name == "all" else kept.passes.get(name, {})).get(times.state)
        if row and took[times.state] > DRIFT * row:
            print(f"== slower than test/times.txt: {name} {took[times.state]:.0f} s, there {row:.0f}")
    sys.stdout.flush()


def read(path: Path = TABLE) -> Times:
    """What the table keeps."""
    times = Times()
    if not path.exists():
        return times
    section, columns = "", []
    for line in path.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        if line.startswith("["):
            section, columns = line.strip("[]"), []
            continue
        cells = [cell.strip() for cell in line.split("|")]
        if not columns:
            columns = cells
            continue
        row = dict(zip(columns[1:], cells[1:], strict=True))
        if section == "runs":
            times.wall[cells[0]] = float(row["seconds"])
            times.machine[cells[0]] = row["machine"]
        elif section == "passes":
            times.passes[cells[0]] = {state: float(row[state]) for state in ("warm", "cold") if row[state]}
            if row["tests"]:
                times.tests[cells[0]] = int(row["tests"])
        else:
            files = times.cold_files if section == "files, cold" else times.files
            for name, value in row.items():
                if value:
                    files.setdefault(name, {})[cells[0]] = float(value)
    return times


def _rows(rows: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        " | ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths))).rstrip()
        for row in rows
    ]


def _table_of_files(by_pass: dict[str, dict[str, float]], order) -> list[list[str]]:
    names = [name for name in order if by_pass.get(name)]
    rows = [["file", *names]]
    for file in sorted({file for name in names for file in by_pass[name]}):
        cells = [by_pass[name].get(file) for name in names]
        rows.append([file, *("" if seconds is None else f"{seconds:.1f}" for seconds in cells)])
    return rows


def write(times: Times, kept: Times, path: Path = TABLE) -> None:
    """The table with this run's numbers; those of runs in the other state stay."""
    wall, machine = {**kept.wall, **times.wall}, {**kept.machine, **times.machine}
    runs = [["run", "seconds", "machine"]]
    runs += [[state, f"{wall[state]:.0f}", machine[state]] for state in ("warm", "cold") if state in wall]
    passes = [["pass", "warm", "cold", "tests"]]
    for name in times.passes:
        took = {**kept.passes.get(name, {}), **times.passes[name]}
        cells = [f"{took[state]:.0f}" if state in took else "" for state in ("warm", "cold")]
        passes.append([name, *cells, str(times.tests.get(name, ""))])
    lines = [HEAD.rstrip()]
    tables = [("runs", runs), ("passes", passes)]
    tables.append(("files, warm", _table_of_files(kept.files if times.cold else times.files, times.passes)))
    tables.append(("files, cold", _table_of_files(times.cold_files if times.cold else kept.cold_files, times.passes)))
    for title, rows in tables:
        lines += ["", f"[{title}]", *_rows(rows)]
    path.write_text("\n".join([*lines, ""]))


def main() -> int:
    """Prints the last run's slowest files and tests."""
    jobs = {path.stem: (path.stem.rstrip("-0123456789"), 0.0) for path in OUT.glob("*.xml")}
    if not jobs:
        print("no run yet: tools/run_tests.py", file=sys.stderr)
        return 1
    times = collect(OUT, jobs, 0, False)
    files = [(seconds, name, file) for name, members in times.files.items() for file, seconds in members.items()]
    for title, rows in (("files", sorted(files, reverse=True)), ("tests", times.slowest)):
        print(f"== the slowest {title}")
        for seconds, name, what in rows[:SHOWN]:
            print(f"{seconds:8.1f}  {name:16}  {what}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
