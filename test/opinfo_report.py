"""How many of PyTorch's operators run natively: ``python test/opinfo_report.py [names...]``.

Runs the operator database in worker processes (an operator that kills its process is reported as a crash), prints a
table and writes benchmarks/results/opinfo-<device>.json. ``--backward`` asks for gradients too, ``--dtype`` for another
dtype, ``--samples`` for more samples, ``--list`` for each operator that is not native.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import selectors
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
HANG_SECONDS = 120
ERRORS = tempfile.TemporaryFile("w+")  # what the workers say; shown when one does not start


def worker(options) -> None:
    """Reads entry names from stdin, writes one JSON line for each."""
    import warnings

    warnings.simplefilter("ignore")
    sys.path.insert(0, str(HERE))
    import torch

    import torch_aule  # noqa: F401

    torch.set_num_threads(1)
    from opinfo_runner import ENTRIES, Outcome, run_entry

    dtype = getattr(torch, options.dtype) if options.dtype else None
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever an operator prints goes elsewhere
    print(json.dumps({"device": torch.aule.get_device_name(), "driver": torch.aule.get_device_properties().driver_info,
                      "torch": torch.__version__}), file=out)  # fmt: skip
    for name in sys.stdin:
        op = ENTRIES[name.strip()]
        started = time.perf_counter()
        if options.backward and not op.supports_autograd:
            result = {"status": "none", "detail": "no gradient"}
        elif dtype is not None and dtype not in op.dtypes:
            result = {"status": "none", "detail": "not a dtype of this operator"}
        else:
            try:
                outcome = run_entry(op, dtype, limit=options.samples, backward=options.backward)
            except Exception as error:
                outcome = Outcome("error", f"{type(error).__name__}: {error}"[:200])
            result = {"status": outcome.status, "detail": outcome.detail, "samples": outcome.samples}
        result.update(name=name.strip(), seconds=round(time.perf_counter() - started, 3))
        print(json.dumps(result), file=out)


class Worker:
    def __init__(self, options):
        command = [sys.executable, __file__, "--worker", "--samples", str(options.samples)]
        command += ["--backward"] * options.backward + (["--dtype", options.dtype] if options.dtype else [])
        environment = dict(os.environ, TORCH_AULE_STRICT="1")
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(HERE.parent), environment.get("PYTHONPATH")]))
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

    def ask(self, name):
        try:
            self.process.stdin.write(name + "\n")
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


def run_all(names, options):
    """Results of all names, in order, and what the workers say about the device."""
    jobs = max(1, min(options.jobs, len(names)))
    with ThreadPoolExecutor(jobs) as pool:
        parts = list(pool.map(lambda k: run_some(names[k::jobs], options), range(jobs)))
    results = {result["name"]: result for part, _ in parts for result in part}
    return [results[name] for name in names], parts[0][1]


def run_some(names, options):
    """The same for the share of one worker, which is started anew when an operator kills it."""
    results, about, current = [], None, None
    try:
        for position, name in enumerate(names):
            if current is None:
                current = Worker(options)
                if current.about is None:
                    ending = current.stop()
                    ERRORS.seek(0)
                    sys.exit(f"{ERRORS.read()[-2000:]}\nno aule device, or the extension does not load ({ending})")
                about = current.about
            result = current.ask(name)
            if result is None:
                result = {"name": name, "status": "crash", "detail": current.stop()}
                current = None
            results.append(result)
            if position % 50 == 49:
                print(f"{position + 1}/{len(names)} {name}", file=sys.stderr)
    finally:
        if current is not None:
            current.stop()
    return results, about


def summarize(results) -> dict:
    """Counts by entry and by operator. An operator counts as native when all its entries are."""
    from opinfo_runner import ENTRIES

    by_operator = defaultdict(list)
    for result in results:
        by_operator[ENTRIES[result["name"]].name].append(result["status"])
    worst_first = ["crash", "wrong", "error", "refused", "unsupported", "native", "none"]
    operators = Counter(min(statuses, key=worst_first.index) for statuses in by_operator.values())
    return {
        "operators": dict(operators, total=len(by_operator)),
        "entries": dict(Counter(r["status"] for r in results), total=len(results)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="entries or operators; default: all")
    parser.add_argument("--samples", type=int, default=12)
    parser.add_argument("--backward", action="store_true")
    parser.add_argument("--dtype")
    parser.add_argument("--jobs", type=int, default=1, help="worker processes")
    parser.add_argument("--list", action="store_true", help="print every entry that is not native")
    parser.add_argument("--save", help="where to write the results; default: benchmarks/results/opinfo-<device>.json")
    parser.add_argument("--no-save", action="store_true")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return worker(options)

    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    sys.path.insert(0, str(HERE))
    import torch  # noqa: F401

    from opinfo_runner import ENTRIES, STATUSES

    wanted = set(options.names)
    names = [name for name, op in ENTRIES.items() if not wanted or {name, op.name} & wanted]
    results, about = run_all(names, options)

    summary = summarize(results)
    direction = "backward" if options.backward else "forward"
    print(f"{about['device']}, driver {about['driver']}, torch {about['torch']}, {direction}, "
          f"{options.dtype or 'float32'}, {options.samples} samples")  # fmt: skip
    for status, meaning in STATUSES.items():
        print(f"  {status:12} {summary['operators'].get(status, 0):4} operators "
              f"{summary['entries'].get(status, 0):4} entries   {meaning}")  # fmt: skip
    print(f"  {'total':12} {summary['operators']['total']:4} operators {summary['entries']['total']:4} entries")
    missing = Counter(r["detail"] for r in results if r["status"] == "refused")
    if missing:
        print("missing kernels, most wanted first:")
        for op, count in missing.most_common():
            print(f"  {count:4} {op}")
    for result in results:
        if result["status"] in ("wrong", "error", "crash", "unsupported") or (
            options.list and result["status"] == "refused"
        ):
            print(f"{result['status']:12} {result['name']}: {result['detail']}")
    if options.save or not (options.no_save or wanted):
        slug = re.sub(r"[^a-z0-9]+", "-", about["device"].lower()).strip("-")
        kind = ("-backward" if options.backward else "") + (f"-{options.dtype}" if options.dtype else "")
        path = Path(options.save or HERE.parent / "benchmarks" / "results" / f"opinfo-{slug}{kind}.json")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            json.dumps({**about, **summary, "samples": options.samples, "results": results}, indent=1) + "\n"
        )
        print(f"written to {path}")


if __name__ == "__main__":
    main()
