"""How many of PyTorch's operators run, and how: ``python test/support/opinfo_report.py [names...]``.

Runs the operator database in worker processes (an operator that kills its process is reported as a crash), prints a
table per mode and direction with a row per dtype, and writes benchmarks/results/opinfo-<device>.md.

    python test/support/opinfo_report.py                                     float32, forward, strict
    python test/support/opinfo_report.py --dtypes all --modes strict,default --jobs 8 \\
        --directions forward,backward,in_place,out
    python test/support/opinfo_report.py --dtypes complex64 fft.fft --list   one operator, with what was seen

In strict mode every cell should be native or refused; in default mode native or computed on the CPU.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import selectors
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path

HERE = Path(__file__).resolve().parent
HANG_SECONDS = 180
ERRORS = tempfile.TemporaryFile("w+")  # what the workers say; shown when one does not start
DTYPES = """float32 float64 float16 bfloat16 int64 int32 int16 int8 uint8 bool complex64 complex128 complex32
            uint16 uint32 uint64""".split()
WORST_FIRST = ["crash", "wrong", "error", "refused", "unsupported", "fallback", "native", "none"]
LEGEND = """Of the native ones and those on the CPU, entries with a result beyond the database's tolerance: `nearer` is
within it of float64, or nearer to float64 than the CPU's; `rounded` is off by at most 4 roundings of the largest value
or 8 times the CPU's own error. `opinfo_report.py --cells FILE` writes both errors of every cell."""
FAULTS = ("crash", "wrong", "error", "unsupported")


def worker(samples: int) -> None:
    """Reads cells from stdin (a JSON list a line: name, dtype, mode, direction), writes one JSON line for each."""
    import warnings

    warnings.simplefilter("ignore")
    sys.path.insert(0, str(HERE))
    import torch

    import torch_aule  # noqa: F401

    torch.set_num_threads(1)
    from opinfo_runner import ENTRIES, Outcome, run_entry

    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever an operator prints goes elsewhere
    print(json.dumps({"device": torch.aule.get_device_name(), "driver": torch.aule.get_device_properties().driver_info,
                      "torch": torch.__version__}), file=out)  # fmt: skip
    for line in sys.stdin:
        name, dtype, mode, direction = json.loads(line)
        torch.aule.set_strict(mode == "strict")
        started = time.perf_counter()
        try:
            outcome = run_entry(ENTRIES[name], getattr(torch, dtype), limit=samples, direction=direction)
        except Exception as error:
            outcome = Outcome("error", f"{type(error).__name__}: {error}"[:200])
        result = {"name": name, "dtype": dtype, "mode": mode, "direction": direction, "status": outcome.status}
        result |= {"detail": outcome.detail, "samples": outcome.samples}
        result["seconds"] = round(time.perf_counter() - started, 3)
        if outcome.settled:
            for rule in {rule for _, _, rule in outcome.settled}:
                of_rule = [(ours, cpus) for ours, cpus, by in outcome.settled if by == rule]
                result[rule] = {"times": len(of_rule), "error": max(of_rule)[0], "cpu_error": max(of_rule)[1]}
        print(json.dumps(result), file=out)


class Worker:
    """A process that runs cells one by one."""

    def __init__(self, samples: int):
        environment = dict(os.environ, TORCH_AULE_STRICT="1", TORCH_DEVICE_BACKEND_AUTOLOAD="0")
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(HERE.parent), environment.get("PYTHONPATH")]))
        # A driver that needs its own C library is started by a program: helpers.interpreter.
        launcher = [path] if (path := os.environ.get("TORCH_AULE_TEST_LAUNCHER")) else []
        command = [*launcher, sys.executable, __file__, "--worker", "--samples", str(samples)]
        self.process = subprocess.Popen(
            command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=ERRORS
        )
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.process.stdout, selectors.EVENT_READ)
        self.about = self.read()

    def read(self):
        """The next line, or None when the worker died or hangs."""
        if not self.selector.select(HANG_SECONDS):
            return None
        line = self.process.stdout.readline()
        return json.loads(line) if line else None

    def ask(self, cell):
        try:
            self.process.stdin.write(json.dumps(cell) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return None
        return self.read()

    def stop(self) -> str:
        if self.process.poll() is None:
            try:
                self.process.stdin.close()
                self.process.wait(1)
            except (subprocess.TimeoutExpired, OSError):
                self.process.kill()
        return f"exit status {self.process.wait()}"


def run_all(cells, options):
    """Results of the cells, and what the workers say about the device. Workers are started anew when one dies."""
    left, lock, results, abouts = iter(cells), threading.Lock(), [], []
    deadline = time.monotonic() + options.seconds

    def run_some():
        current = None
        while time.monotonic() < deadline:
            with lock:
                cell = next(left, None)
            if cell is None:
                break
            if current is None:
                current = Worker(options.samples)
                if current.about is None:
                    ending = current.stop()
                    ERRORS.seek(0)
                    print(ERRORS.read()[-2000:], f"no aule device, or the extension does not load ({ending})",
                          file=sys.stderr)  # fmt: skip
                    return
                abouts.append(current.about)
            result = current.ask(cell)
            if result is None:
                result = dict(zip(("name", "dtype", "mode", "direction"), cell))
                result |= {"status": "crash", "detail": current.stop(), "samples": 0}
                current = None
            with lock:
                results.append(result)
                if len(results) % 200 == 0:
                    print(f"{len(results)}/{len(cells)} {' '.join(cell)}", file=sys.stderr)
        if current is not None:
            current.stop()

    threads = [threading.Thread(target=run_some) for _ in range(max(1, min(options.jobs, len(cells))))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if not abouts:
        sys.exit("no worker started")
    order = {tuple(cell): i for i, cell in enumerate(cells)}
    results.sort(key=lambda r: order[r["name"], r["dtype"], r["mode"], r["direction"]])
    return results, abouts[0]


def tables(results) -> str:
    """Markdown: a table per mode and direction with a row per dtype, by operators; entries in brackets where faults."""
    from opinfo_runner import ENTRIES, is_linear_algebra

    groups = defaultdict(lambda: defaultdict(list))
    for r in results:
        groups[r["mode"], r["direction"]][r["dtype"]].append(r)
    lines = []
    for (mode, direction), by_dtype in groups.items():
        shown = [s for s in ("native", "fallback", "refused", "unsupported", "error", "wrong", "crash")
                 if mode == "default" or s != "fallback"]  # fmt: skip
        lines += [f"\n{mode} mode, {direction}:\n", f"| dtype | operators | {' | '.join(shown)} | nearer | rounded |"]
        lines += ["|---|---:|" + "---:|" * (len(shown) + 2)]
        for dtype, of_dtype in by_dtype.items():
            operators = defaultdict(list)
            for r in of_dtype:
                if r["status"] != "none":
                    operators[ENTRIES[r["name"]].name].append(r["status"])
            counts = Counter(min(statuses, key=WORST_FIRST.index) for statuses in operators.values())
            settled = " | ".join(str(sum(rule in r for r in of_dtype)) for rule in ("nearer", "rounded"))
            cells = " | ".join(str(counts[s]) for s in shown)
            lines.append(f"| {dtype} | {len(operators)} | {cells} | {settled} |")
        lines.append("")
        for dtype, of_dtype in by_dtype.items():
            kept = [r["status"] for r in of_dtype if r["status"] != "none" and not is_linear_algebra(r["name"])]
            native = kept.count("native")
            share = f" ({100 * native / len(kept):.1f} %)" if kept else ""
            lines.append(f"{dtype}, linear algebra left out: {native} of {len(kept)} entries native{share}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="entries or operators; default: all")
    parser.add_argument("--samples", type=int, default=12)
    parser.add_argument("--dtypes", default="float32", help="comma list, or all")
    parser.add_argument("--modes", default="strict", help="strict, default, or both with a comma")
    parser.add_argument("--directions", default="forward", help="of forward, backward, in_place, out, with commas")
    parser.add_argument("--jobs", type=int, default=1, help="worker processes")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="ask for no more cells after this time")
    parser.add_argument("--list", action="store_true", help="print every cell that is not native or on the CPU")
    parser.add_argument("--save", help="file to write; default: benchmarks/results/opinfo-DEVICE.md")
    parser.add_argument("--cells", help="a JSON file to write, with a line for each cell")
    parser.add_argument("--no-save", action="store_true")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return worker(options.samples)

    sys.path.insert(0, str(HERE))
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    import torch

    from opinfo_runner import ENTRIES, STATUSES, has_direction

    dtypes = DTYPES if options.dtypes == "all" else options.dtypes.split(",")
    wanted = set(options.names)
    cells = []
    for mode, direction, dtype in itertools.product(options.modes.split(","), options.directions.split(","), dtypes):
        for name, op in ENTRIES.items():
            chosen = not wanted or {name, op.name} & wanted
            if chosen and has_direction(op, getattr(torch, dtype), direction):
                cells.append([name, dtype, mode, direction])
    results, about = run_all(cells, options)

    from torch_aule.benchmark.harness.run import git_revision

    head = f"{about['device']}, driver {about['driver']}, torch {about['torch']}, "
    head += f"revision {git_revision(HERE.parent)}, "
    head += f"{options.samples} samples an entry"
    head += f", {len(results)} of {len(cells)} cells" if len(results) < len(cells) else f", {len(cells)} cells"
    text = f"{head}\n{tables(results)}\n\n{LEGEND}\n"
    print(text)
    for status in Counter(r["status"] for r in results):
        print(f"  {status:12} {STATUSES[status]}")
    for r in results:
        if r["status"] in FAULTS or (options.list and r["status"] == "refused"):
            print(f"{r['status']:8} {r['mode']:7} {r['direction']:8} {r['dtype']:10} {r['name']}: {r['detail']}")
    if options.save or not (options.no_save or wanted):
        slug = re.sub(r"[^a-z0-9]+", "-", about["device"].lower()).strip("-")
        path = Path(options.save or HERE.parent / "benchmarks" / "results" / f"opinfo-{slug}.md")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        print(f"written to {path}")
    if options.cells:
        rows = ",\n".join(json.dumps(r) for r in results)
        Path(options.cells).write_text(
            f'{{"about": {json.dumps(about)}, "samples": {options.samples}, "results": [\n{rows}\n]}}\n'
        )


if __name__ == "__main__":
    main()
