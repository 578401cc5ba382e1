"""Warm-up, synchronisation, medians. A case is timed on each device in turn, in rounds: drift hits all alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch


@dataclass
class Case:
    """One measurement: `make(device)` returns the function to time, with its inputs already on the device."""

    group: str
    name: str
    make: Callable[[str], Callable[[], object]]
    shapes: str = ""
    flops: float = 0.0  # of one call
    bytes: float = 0.0  # moved by one call, at least
    limit: float | None = None  # at most this many times the CPU's time (the project's aim)
    only: tuple[str, ...] | None = None  # devices, default all
    calls: int = 1  # calls in one timing; the time is divided by it
    extra: dict = field(default_factory=dict)


def synchronize(device: str) -> None:
    if device == "aule":
        torch.aule.synchronize()
    elif device == "cuda":
        torch.cuda.synchronize()


def _once(function, device: str, calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        function()
    synchronize(device)
    return (time.perf_counter() - start) / calls


def measure(case: Case, devices: list[str], *, quick: bool) -> dict[str, dict]:
    """Median, fastest and slowest time in milliseconds for each device."""
    rounds, budget = (5, 1.0) if quick else (15, 4.0)
    functions, times = {}, {}
    for device in devices:
        if case.only is not None and device not in case.only:
            continue
        functions[device] = case.make(device)
        first = _once(functions[device], device, 1)  # pipelines are made here
        _once(functions[device], device, 1 if first > 1 else 2)
        times[device] = []
    start = time.perf_counter()
    for done in range(rounds):
        for device, function in functions.items():
            times[device].append(_once(function, device, case.calls))
        if done >= 2 and time.perf_counter() - start > budget * len(functions):
            break
    return {
        device: {
            "ms": statistics.median(values) * 1e3,
            "ms_min": min(values) * 1e3,
            "ms_max": max(values) * 1e3,
            "samples": len(values),
        }
        for device, values in times.items()
    }


def issue_rate(function, device: str, *, calls: int = 2000, rounds: int = 7) -> dict:
    """Microseconds of host time for one call, without waiting for the device; the wait comes between rounds."""
    values = []
    for _ in range(2):
        for _ in range(100):
            function()
        synchronize(device)
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            function()
        values.append((time.perf_counter() - start) / calls * 1e6)
        synchronize(device)
    return {"us": statistics.median(values), "us_min": min(values), "us_max": max(values), "samples": rounds}
