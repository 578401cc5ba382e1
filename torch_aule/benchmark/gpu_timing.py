"""One case on one device, timed by its own events: what both the benchmark and its child for CUDA run.

Every device is timed alike: two calls to warm up, then n calls between two events, five samples, the median. A case
whose calls are short is queued behind a kernel that keeps the GPU busy meanwhile, so that the host's pace is hidden.
A case of much arithmetic rests before each sample: under load without end a chip lowers its clock to stay within its
power, and then the order of the cases decides (products of 8192 on an H200: 308 instead of 358 TFLOPS).
"""

from __future__ import annotations

import statistics
import time

import torch

from torch_aule.benchmark.gpu_cases import GpuCase

SAMPLES = 5
SAMPLE_MS = 12.0  # length of one sample
REST_S = 0.05  # before each sample of a case that counts operations; 0 measures the chip under lasting load
FAILURES = (RuntimeError, NotImplementedError, ValueError, AssertionError)


def device_of(contestant: str) -> str:
    return "cuda" if contestant == "cudnn" else contestant


def synchronize(device: str) -> None:
    if device != "cpu":
        getattr(torch, device).synchronize()


def empty_cache(device: str) -> None:
    if device != "cpu":
        getattr(torch, device).empty_cache()


class Blocker:
    """Work of known length on a device."""

    def __init__(self, device: str, elements: int):
        self.x = torch.zeros(elements, device=device) if device != "cpu" else None
        self.ms = 0.0
        if self.x is not None:
            for calls in (1, 8):
                self.ms = _between_events(lambda: self.x.add_(1), device, calls)

    def __call__(self, ms: float) -> None:
        if self.x is not None:
            for _ in range(min(400, int(ms / max(self.ms, 1e-3)) + 1)):
                self.x.add_(1)


def _between_events(function, device: str, calls: int, block=None) -> float:
    """Milliseconds for one call on the device's own clock (the CPU's, for the CPU)."""
    if device == "cpu":
        start = time.perf_counter()
        for _ in range(calls):
            function()
        return (time.perf_counter() - start) * 1e3 / calls
    first, last = (torch.Event(device, enable_timing=True) for _ in range(2))
    if block:
        block()
    first.record()
    for _ in range(calls):
        function()
    last.record()
    last.synchronize()
    synchronize(device)
    return first.elapsed_time(last) / calls


class Contestant:
    """One device's form of a case, warmed up."""

    def __init__(self, case: GpuCase, name: str, context, blockers: dict[str, Blocker]):
        self.device, self.context, self.times, self.extra = device_of(name), context, [], {}
        with torch.autograd.enable_grad(), context():
            self.function = case.make(self.device)
            if case.needed_bytes and self.device == "aule":
                self._peak(case)
            else:
                self.function()
            synchronize(self.device)
            start = time.perf_counter()
            self.function()
            host = (time.perf_counter() - start) * 1e3
            synchronize(self.device)
            estimate = _between_events(self.function, self.device, 1)
        self.calls = max(1, min(100, round(SAMPLE_MS / max(estimate, 1e-3)))) if case.ops == 1 else 1
        self.rest = REST_S if case.flops and self.device != "cpu" else 0.0
        self.samples = SAMPLES if estimate < 200 else 3 if estimate < 1000 else 1
        self.block = None
        if case.queued and self.device in blockers and host * 3 > estimate:
            length = host * self.calls * 1.5 + 0.3
            self.block = lambda: blockers[self.device](length)

    def _peak(self, case: GpuCase) -> None:
        before = torch.aule.memory_allocated()
        torch.aule.reset_peak_memory_stats()
        result = self.function()
        synchronize(self.device)
        peak = torch.aule.max_memory_allocated() - before
        self.extra = {"peak_mib": round(peak / 2**20, 1), "needed_mib": round(case.needed_bytes / 2**20, 1)}
        del result

    def sample(self) -> None:
        if len(self.times) < self.samples:
            time.sleep(self.rest)
            with self.context():
                self.times.append(_between_events(self.function, self.device, self.calls, self.block))

    def result(self, case: GpuCase) -> dict:
        ms = [t / case.ops for t in self.times]
        median = statistics.median(ms)
        line = {"ms": median, "ms_min": min(ms), "ms_max": max(ms), "samples": len(ms), "calls": self.calls * case.ops}
        line = {k: float(f"{v:.5g}") if isinstance(v, float) else v for k, v in line.items()}
        if case.flops:
            line["tflops"] = float(f"{case.flops / median / 1e9:.4g}")
        if case.bytes:
            line["gbytes_per_s"] = float(f"{case.bytes / median / 1e6:.4g}")
        return {**line, **self.extra}


def first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
