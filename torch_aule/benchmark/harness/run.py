"""Measures cases, this device and its baselines in alternating samples of one run."""

from __future__ import annotations

import contextlib
import datetime
import gc
import os
import platform
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import torch

import torch_aule
from torch_aule.benchmark.cases import copy_reference
from torch_aule.benchmark.harness import targets, timing
from torch_aule.benchmark.harness.baseline import Child, Remote
from torch_aule.benchmark.harness.case import Case, Sizes
from torch_aule.benchmark.report import dearest
from torch_aule.benchmark.report.record import Record, Run
from torch_aule.measure.roof import Roof
from torch_aule.measure.timing import Stopwatch

LIBRARIES = {"fa2": "flash_attn", "xformers": "xformers"}  # runner -> module
WITH_MAKERS = (*LIBRARIES, "composed")  # only of the cases that have a maker of theirs
CLOCK_S = 5.0  # a clock is asked for at most this often


def environment(settings: timing.Settings, revision: str | None = None) -> Run:
    """The environment of this process's results."""
    p = torch.aule.get_device_properties()
    return Run(
        device=p.name,
        driver=f"{p.driver_name} {p.driver_info}",
        host=f"{platform.machine()}, {os.cpu_count()} CPUs, {torch.get_num_threads()} threads",
        torch=torch.__version__,
        torch_aule=torch_aule.__version__,
        revision=revision or git_revision(Path(torch_aule.__file__).resolve().parent.parent),
        date=datetime.date.today().isoformat(),
        rest_s=settings.rest_s,
    )


def git_revision(root: Path) -> str | None:
    """Of the working tree that `root` is the top of, with ``-dirty`` if files are changed; None outside of one."""
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=9", "--exclude=*"]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        return subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout.strip() or None
    return None


class Clock:
    """The first NVIDIA GPU's clock, through nvidia-smi; None where there is no such program."""

    def __init__(self):
        self.mhz: int | None = None
        self.due = 0.0

    def __call__(self) -> int | None:
        if time.monotonic() >= self.due:
            command = ["nvidia-smi", "--query-gpu=clocks.sm", "--format=csv,noheader,nounits"]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
                self.mhz = int(done.stdout.split()[0])
                self.due = time.monotonic() + CLOCK_S
            except (OSError, subprocess.SubprocessError, ValueError, IndexError):
                self.mhz, self.due = None, float("inf")
        return self.mhz


def run_case(case: Case, baselines: list[str], settings: timing.Settings, blockers: dict[str, timing.Blocker],
             child: Child | None = None) -> Record:  # fmt: skip
    """The aule device and each baseline that can, in alternating samples; their memory is given back.

    A baseline that needs autograd runs in `child`, unless it is the CPU.
    """
    record = Record(case.group, case.name, case.shapes, case.dtype,
                    flops=case.flops or None, bytes=case.bytes or None)  # fmt: skip
    contexts = {"aule": contextlib.nullcontext}
    for baseline in [] if case.aule_only else baselines:
        if baseline in WITH_MAKERS and baseline not in (case.makers or {}):
            continue
        contexts.update(case.contexts(baseline))
    runners: dict = {}
    for name, context in contexts.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # scaled_dot_product_attention says why a backend was not taken
                if child and case.autograd and timing.device_of(name) == "cuda":
                    runners[name] = Remote(child, case, name)
                else:
                    runners[name] = timing.runner(case, name, context, settings, blockers)
        except timing.FAILURES as error:
            record.errors[name] = timing.first_line(error)
    for _ in range(settings.rounds):
        for name in list(runners):
            try:
                runners[name].sample()
            except timing.FAILURES as error:
                record.errors[name] = timing.first_line(error)
                del runners[name]
    record.results = {name: runner.result() for name, runner in runners.items()}
    results = record.results.items()
    outputs = {name: result.values.pop("output") for name, result in results if "output" in result.values}
    for name, theirs in outputs.items():
        if name != "aule" and "aule" in outputs:
            apart = record.results[name].values["difference"] = dearest.difference(outputs["aule"], theirs)
            if case.tolerance and not apart <= case.tolerance:
                record.errors["aule"] = f"differs from {name} by {apart:.2g}, at most {case.tolerance:g} was expected"
    runners.clear()
    gc.collect()
    if child:
        child.forget()
    for name in contexts:
        with contextlib.suppress(*timing.FAILURES):  # a lost device: the baselines still have numbers
            timing.empty_cache(timing.device_of(name))
    return record


def speed_of_light(record: Record, case: Case, roof: Roof) -> None:
    """Adds `sol`, the least time of the case's bytes and operations over its time on aule."""
    result = record.results.get("aule")
    least = roof.least_seconds(case.bytes, case.flops, case.dtype)
    if result is not None and result.median and least:
        result.values["sol"] = float(f"{least / result.seconds:.4g}")


def run(cases: list[Case], about: Run, emit: Callable[[Record], None], *, baselines: list[str], sizes: Sizes,
        settings: timing.Settings, seconds: float = float("inf"), roof: Roof | None = None,
        quiet: bool = False) -> list[Record]:  # fmt: skip
    """All records of `cases`; `emit` gets each as soon as it is measured, so that a crash loses one case only.

    With a `roof` each result says its share of what the device can reach.

    The main cases come first; the others are left out once `seconds` have passed.
    """
    cases = sorted(cases, key=lambda case: not case.main)
    if any(case.target and case.target.of == "copy" for case in cases):
        cases = [*copy_reference(sizes), *cases]
    start = Stopwatch()
    gpus = list(dict.fromkeys(timing.device_of(name) for name in ("aule", *baselines) if name != "cpu"))
    blockers = {}
    if any(case.clock == "events" for case in cases):
        blockers = {device: timing.Blocker(device, max(1024, sizes.cold_bytes // 4)) for device in gpus}
    child = None
    if torch.cuda.is_available() or any(case.autograd for case in cases) and len(gpus) > 1:
        child = Child(sizes, settings)
    if torch.cuda.is_available():
        with contextlib.suppress(RuntimeError):
            child.ask("hold", "cuda")
    clock, copy, left_out = Clock(), 0.0, 0
    by_key: dict[tuple, Record] = {}
    gc.collect()
    gc.freeze()  # what was imported is not looked at again after each case, nor while one is timed
    try:
        for case in cases:
            if case.key in by_key:
                continue
            if not case.main and start.seconds > seconds:
                left_out += 1
                continue
            record = by_key[case.key] = run_case(case, baselines, settings, blockers, child)
            record.run, record.clock_mhz = about, clock()
            if case.name == "x+1" and not copy:
                copy = max((r.rate for r in record.results.values() if r.rate_unit == "GB/s"), default=0.0)
            if roof:
                speed_of_light(record, case, roof)
            targets.judge(record, case.target, by_key, copy)
            emit(record)
    finally:
        gc.unfreeze()
        if child:
            child.close()
    words = f", {left_out} left out for want of time" if left_out else ""
    if not quiet:
        print(f"{len(by_key)} cases in {start.seconds:.0f} s{words}", file=sys.stderr)
    return list(by_key.values())
