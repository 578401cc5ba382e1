"""Whole models, eager and under torch.compile, on this device and on CUDA: milliseconds and their ratios.

A training step is forward, loss and backward under autocast, and the optimizer where a model has one; the loss is part
of what is compiled. Each model has a process for each device: several of them compile beside each other, then one at a
time is timed while the others wait. Times are of the host's clock over several calls, so the device's queue hides the
host's share where the device is the slower one. Processes for CUDA never load the backend, as in baseline.py.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

import torch

from torch_aule.measure.timing import Stopwatch

READY = "compiled, ready to be timed"
START = """
import sys, types
package = types.ModuleType("torch_aule")
package.__path__ = [sys.argv[1]]
sys.modules["torch_aule"] = package
"""
ONE = """
from torch_aule.benchmark.harness import compiled
compiled.measure_one(*sys.argv[2:])
"""
TIMING_S = 6.0  # for one process


def measure_one(name: str, device: str, options: str) -> None:
    """In a process of its own: says when it has compiled, waits for its turn, prints what it measured."""
    print(json.dumps(measure(name, device, argparse.Namespace(**json.loads(options)))), flush=True)


def _prepared(name: str, device: str, small: bool):
    """The model on the device, its inputs, and the CompiledModel that says what a call is."""
    from torch_aule.benchmark.cases.compiled_models import MODELS, without_dropout

    spec = MODELS[name]
    torch.manual_seed(0)
    model, inputs = spec(small)
    without_dropout(model)
    form = torch.channels_last if spec.channels_last else torch.preserve_format
    weights = torch.float32 if spec.training else spec.dtype
    model = model.to(device, weights, memory_format=form).train(spec.training)

    def moved(t):
        if not isinstance(t, torch.Tensor):
            return t
        t = t.to(device, weights if t.is_floating_point() else None)
        return t.contiguous(memory_format=form) if t.dim() == 4 and spec.channels_last else t

    return model, torch.utils._pytree.tree_map(moved, inputs), spec


def _calls(name: str, device: str, small: bool):
    """`step` and `result`, which take a function to run: what is timed, and what is compared."""
    from torch_aule.benchmark.cases.compiled_models import gradients, loss_of, result_of, targets_of

    model, inputs, spec = _prepared(name, device, small)
    if not spec.training:

        @torch.no_grad()
        def infer(run):
            return run(model, inputs)

        return result_of, infer, lambda run: infer(run).double().cpu().flatten()
    targets = targets_of(name, model, inputs)
    optimizer = spec.optimizer(model.parameters(), lr=0.0) if spec.optimizer else None

    def loss(run):
        with torch.autocast(device, spec.dtype, enabled=spec.dtype != torch.float32):
            return run(model, inputs, targets)

    def step(run):
        loss(run).backward()
        if optimizer is not None:
            optimizer.step()
        model.zero_grad(set_to_none=True)

    return loss_of, step, lambda run: gradients(loss(run), model)


def measure(name: str, device: str, options: argparse.Namespace) -> dict:
    """One model on one device: times, and how far gradients, or results of inference, are apart."""
    module = getattr(torch, device)
    start = Stopwatch()
    eager, step, result = _calls(name, device, options.small)
    runs = {"eager": eager, "compiled": torch.compile(eager)}
    compared = [result(run) for run in reversed(runs.values())]
    record = {"model": name, "device": device, "torch": torch.__version__}
    record["error"] = ((compared[0] - compared[1]).norm() / compared[1].norm()).item()
    del compared
    for run in runs.values():
        step(run)
    module.synchronize()
    record["compile_s"] = start.seconds
    module.empty_cache()
    print(READY, flush=True)
    sys.stdin.readline()  # until it is this process's turn

    def milliseconds(run, count):
        module.synchronize()
        start = Stopwatch()
        for _ in range(count):
            step(run)
        module.synchronize()
        return start.seconds / count * 1e3

    counts = {}
    for key, run in runs.items():
        milliseconds(run, 2)
        counts[key] = max(1, min(options.calls, int(options.sample_ms / milliseconds(run, 1))))
    samples = {key: [] for key in runs}
    for _ in range(options.samples):  # in alternation
        for key, run in runs.items():
            samples[key].append(milliseconds(run, counts[key]))
    return record | {f"{key}_ms": statistics.median(values) for key, values in samples.items()}


class Child:
    """A process that compiles a model, compares the results, and times it once it is told to."""

    def __init__(self, name: str, device: str, options: argparse.Namespace):
        self.name, self.device, self.lines, self.why = name, device, [], ""
        package = str(Path(__file__).resolve().parents[2])
        # One that compiles takes a core or two, and as many as there are compile beside it.
        environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "TORCHINDUCTOR_COMPILE_THREADS": "4",
                       "PYTHONPATH": os.pathsep.join(filter(None, (str(Path(package).parent),
                                                                   os.environ.get("PYTHONPATH"))))}  # fmt: skip
        start = "import sys, torch_aule\n" if device == "aule" else START
        taken = {key: getattr(options, key) for key in ("small", "samples", "sample_ms", "calls")}
        self.process = subprocess.Popen(
            [sys.executable, "-c", start + ONE, package, name, device, json.dumps(taken)], env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def read(self, seconds: float, last: str | None = None) -> Child:
        """Takes lines until one is `last`, or until the end. The process is killed where that takes too long."""

        def end():
            self.why = "out of time"
            self.process.kill()

        timer = threading.Timer(max(seconds, 0.0), end)
        timer.start()
        for line in self.process.stdout:
            self.lines.append(line.strip())
            if self.lines[-1] == last:
                break
        timer.cancel()
        return self

    def record(self, seconds: float) -> dict:
        """Its measurement, for which it is now told to go on."""
        with contextlib.suppress(BrokenPipeError):  # it has failed
            self.process.stdin.write("go\n")
            self.process.stdin.flush()
        self.read(seconds)
        found = [json.loads(line) for line in self.lines if line.startswith('{"model"')]
        if self.process.wait() == 0 and found:
            return found[-1]
        why = self.why or next((line for line in reversed(self.lines) if line), "no output")[:200]
        return {"model": self.name, "device": self.device, "failed": why}


def in_processes(options: argparse.Namespace) -> list[dict]:
    """The records of all models on all devices, within `options.seconds`."""
    end = time.monotonic() + options.seconds
    pairs = [(name, device) for name in options.models for device in options.devices]
    compiled_by = end - min(options.seconds / 2, TIMING_S * len(pairs))

    def compiled(pair):
        return Child(*pair, options).read(min(options.limit, compiled_by - time.monotonic()), READY)

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        children = list(pool.map(compiled, pairs))
    records = []
    for child in children:
        records.append(child.record(min(options.limit, end - time.monotonic())))
        if options.save:
            with open(options.save, "a") as file:
                file.write(json.dumps(records[-1]) + "\n")
    return records


def _ratio(a: dict, a_key: str, b: dict, b_key: str) -> float | None:
    return b[b_key] / a[a_key] if a_key in a and b_key in b else None


def ratios(own: dict, cuda: dict) -> tuple[float | None, float | None, float | None]:
    """Speeds: compiled beside CUDA's compiled, compiled beside eager, eager beside CUDA's eager."""
    return (
        _ratio(own, "compiled_ms", cuda, "compiled_ms"),
        _ratio(own, "compiled_ms", own, "eager_ms"),
        _ratio(own, "eager_ms", cuda, "eager_ms"),
    )


HEAD = f"{'model':30} {'eager':>8} {'compiled':>8} {'CUDA':>8} {'compiled':>8}   c/CUDA c  c/eager  e/CUDA e  differs"


def lines_of(records: list[dict]) -> list[str]:
    """A line for each model, in milliseconds and ratios of speeds; then geometric means, and what failed."""
    by = {(r["model"], r["device"]): r for r in records}
    lines, found = [HEAD], []
    for name in dict.fromkeys(r["model"] for r in records):
        own, cuda = by.get((name, "aule"), {}), by.get((name, "cuda"), {})
        found.append(ratios(own, cuda))
        times = [r.get(f"{key}_ms") for r in (own, cuda) for key in ("eager", "compiled")]
        text = " ".join(f"{t:8.2f}" if t is not None else f"{'':8}" for t in times)
        speeds = "  ".join(f"{x:8.2f}" if x is not None else f"{'':8}" for x in found[-1])
        differs = f"{own['error']:.0e}" if "error" in own else ""
        lines.append(f"{name:30} {text}  {speeds}  {differs:>7}".rstrip())
    for what, column in zip(
        ("compiled beside CUDA's compiled", "compiled beside eager", "eager beside CUDA's eager"),
        zip(*found, strict=True), strict=True,
    ):  # fmt: skip
        known = [x for x in column if x is not None]
        if known:
            mean, least = statistics.geometric_mean(known), min(known)
            lines.append(f"{what}: geometric mean of {len(known)} {mean:.3f}, least {least:.3f}")
    return lines + [f"{r['model']} on {r['device']} failed: {r['failed']}" for r in records if "failed" in r]


def add(p: argparse.ArgumentParser) -> None:
    """The command line."""
    p.add_argument("--models", default="", metavar="A,B",
                   help="names (list: prints them); a suite:... is of the group models (default: all others)")  # fmt: skip
    p.add_argument("--devices", default="", metavar="A,B", help="of aule, cuda (default: both where CUDA is there)")
    p.add_argument("--small", action="store_true", help="sizes for a software device")
    p.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) // 2), metavar="N",
                   help="processes that compile beside each other (default %(default)s)")  # fmt: skip
    p.add_argument("--seconds", type=float, default=3600.0, help="for everything; what is not ready then is left out")
    p.add_argument("--limit", type=float, default=300.0, help="seconds for one model to compile, or to be timed")
    p.add_argument("--samples", type=int, default=5)
    p.add_argument("--sample-ms", type=float, default=300.0, help="length of a sample (default %(default)s)")
    p.add_argument("--calls", type=int, default=100, help="most calls in a sample (default %(default)s)")
    p.add_argument("--save", metavar="FILE", help="appends records, a line of JSON each")


def run(options: argparse.Namespace) -> int:
    """The command `compiled`."""
    from torch_aule.benchmark.cases.compiled_models import MODELS

    if options.models == "list":
        print("\n".join(MODELS))
        return 0
    own = [name for name in MODELS if not name.startswith("suite:")]
    options.models = [name for name in options.models.split(",") if name] or own
    unknown = [name for name in options.models if name not in MODELS]
    if unknown:
        raise SystemExit(f"--models: no model {', '.join(unknown)}; --models list prints the names")
    there = ["aule", "cuda"] if torch.cuda.is_available() else ["aule"]
    options.devices = [name for name in options.devices.split(",") if name] or there
    records = in_processes(options)
    print("\n".join(lines_of(records)))
    return 1 if any("failed" in r for r in records) else 0
