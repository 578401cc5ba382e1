"""A trace of some calls, as kernels, copies and waits."""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from torch_aule.measure.roof import Roof


@dataclass
class Kernel:
    """Launches of a kernel in one call of what is traced.

    Attributes
    ----------
    name : str
        Without its specialization constants.
    calls, seconds : float
        Launches and device time.
    bytes, flops : float
        Read and written; arithmetic, 0 where it is unknown.
    dtype : str
        Of the arithmetic.
    roof_seconds : float
        The least time for the same work, of all launches; 0 without a roof.
    operators : collections.Counter
        What launched it.
    source : str
        File of the generated code that it is from; "" for others.
    """

    name: str
    calls: float = 0.0
    seconds: float = 0.0
    bytes: float = 0.0
    flops: float = 0.0
    dtype: str = ""
    roof_seconds: float = 0.0
    operators: Counter = field(default_factory=Counter)
    source: str = ""

    @property
    def operator(self) -> str:
        """The operator that launched most of the kernel's time."""
        return self.operators.most_common(1)[0][0] if self.operators else ""

    @property
    def roof_share(self) -> float | None:
        """The roof's time for this work, of the time that it took; None where either is unknown."""
        return self.roof_seconds / self.seconds if self.roof_seconds and self.seconds else None


@dataclass
class Copy:
    """Copies or fills of one kind in a call: how many, bytes, device time."""

    kind: str
    calls: float = 0.0
    bytes: float = 0.0
    seconds: float = 0.0


@dataclass
class Trace:
    """The work of one call, on the average of those that were traced.

    Attributes
    ----------
    kernels : list of Kernel
        The dearest first.
    copies : list of Copy
        By kind.
    launches : float
        Kernels' launches.
    device_seconds : float
        Time in which the device worked.
    submits, waits : float
        Submissions, and waits of the host for the device, within a call: that for its end is not counted. A read of a
        value is a wait, even if the device is done already.
    wait_seconds : float
        The host's time in all waits.
    """

    kernels: list[Kernel]
    copies: list[Copy]
    launches: float
    device_seconds: float
    submits: float
    waits: float
    wait_seconds: float


CALL = "torch_aule.profiling: a call"  # the annotation around each


def _rows(function: Callable[[], object], runs: int) -> list[dict]:
    with torch.aule.profiler.profile() as p:
        for _ in range(runs):
            with torch.profiler.record_function(CALL):
                function()
            torch.aule.synchronize()
    handle, path = tempfile.mkstemp(suffix=".json")
    os.close(handle)
    try:
        p.export_chrome_trace(path)
        with open(path) as file:
            return [row for row in json.load(file)["traceEvents"] if row.get("ph") == "X"]
    finally:
        os.unlink(path)


def take(function: Callable[[], object], runs: int, roof: Roof | None) -> Trace:
    """Trace `runs` calls of `function`, each waited for."""
    rows = _rows(function, runs)
    operators = {row["args"]["External id"]: row["name"] for row in rows if row.get("cat") == "cpu_op"}
    kernels: dict[tuple[str, str, str], Kernel] = {}
    copies: dict[str, Copy] = {}
    spans = [(row["ts"], row["ts"] + row["dur"]) for row in rows if row.get("cat") == "user_annotation"
             and row["name"] == CALL]  # fmt: skip
    host: Counter = Counter()
    wait_seconds = 0.0
    for row in rows:
        category, seconds, args = row.get("cat"), row["dur"] * 1e-6 / runs, row.get("args", {})
        if category == "kernel":
            name, dtype, source = row["name"].partition("(")[0], args.get("flops of", ""), args.get("source", "")
            kernel = kernels.setdefault((name, dtype, source), Kernel(name, dtype=dtype, source=source))
            moved, flops = args.get("bytes", 0), args.get("flops", 0)
            kernel.calls += 1 / runs
            kernel.seconds += seconds
            kernel.bytes += moved / runs
            kernel.flops += flops / runs
            if roof is not None:
                kernel.roof_seconds += roof.least_seconds(moved, flops, dtype) / runs
            operator = operators.get(args.get("External id"))
            if operator:
                kernel.operators[operator] += 1
        elif category in ("gpu_memcpy", "gpu_memset"):
            copy = copies.setdefault(row["name"], Copy(row["name"]))
            copy.calls += 1 / runs
            copy.bytes += args.get("bytes", 0) / runs
            copy.seconds += seconds
        elif category == "privateuse1_runtime" and any(first <= row["ts"] <= last for first, last in spans):
            host[row["name"]] += 1
            wait_seconds += seconds if row["name"] == "aule wait" else 0.0
    found = sorted(kernels.values(), key=lambda kernel: -kernel.seconds)
    return Trace(
        kernels=found,
        copies=sorted(copies.values(), key=lambda copy: -copy.bytes),
        launches=sum(kernel.calls for kernel in found),
        device_seconds=sum(one.seconds for one in [*found, *copies.values()]),
        submits=host["aule submit"] / runs,
        waits=host["aule wait"] / runs,
        wait_seconds=wait_seconds,
    )
