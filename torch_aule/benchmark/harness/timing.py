"""A runner: one case on one device, warmed up, which gives samples when it is asked for them.

By events every device is timed alike: two calls to warm up, then n calls between two events, five samples, the median.
A case of short calls is queued behind a kernel that keeps the GPU busy meanwhile, so that the host's pace is hidden. A
case of much arithmetic rests before each sample: under load without end a chip lowers its clock to stay within its
power, and then the order of the cases decides (products of 8192 on an H200: 308 instead of 358 TFLOPS).
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch

from torch_aule.benchmark.harness.case import Case
from torch_aule.benchmark.report.record import Result
from torch_aule.measure.timing import Stopwatch

# Runners that are no devices. `composed` is PyTorch's operators on aule, in place of one kernel.
DEVICES = {"cudnn": "cuda", "fa2": "cuda", "xformers": "cuda", "composed": "aule"}
FAILURES = (RuntimeError, NotImplementedError, ValueError, AssertionError)


@dataclass(frozen=True)
class Settings:
    """Rounds and seconds of a measurement."""

    sample_ms: float = 12.0  # length of one sample by events
    samples: int = 5
    rest_s: float = 0.05  # before each sample of a case that counts operations; 0: the chip under lasting load
    wall_samples: int = 15
    wall_budget_s: float = 4.0  # then no more samples, if there are three
    host_samples: int = 15
    host_calls: int = 2000  # in one sample
    warmup: int = 0  # calls more than are needed to make pipelines and to estimate the time
    exact: bool = False  # as many samples as asked for, however long a call takes

    @property
    def rounds(self) -> int:
        return max(self.samples, self.wall_samples, self.host_samples)


QUICK = Settings(wall_samples=5, wall_budget_s=1.0, host_samples=7, host_calls=300)


def device_of(runner: str) -> str:
    return DEVICES.get(runner, runner)


def synchronize(device: str) -> None:
    if device != "cpu":
        getattr(torch, device).synchronize()


def empty_cache(device: str) -> None:
    if device != "cpu":
        getattr(torch, device).empty_cache()


def peak_mib(device: str, function) -> tuple[object, float | None]:
    """A call's result, and its peak of memory beyond that held before; None on the CPU."""
    if device == "cpu":
        return function(), None
    module = getattr(torch, device)
    synchronize(device)
    before = module.memory_allocated()
    module.reset_peak_memory_stats()
    result = function()
    synchronize(device)
    return result, round((module.max_memory_allocated() - before) / 2**20, 3)


def first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


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


def _on_the_host(function, device: str, calls: int, wait: bool = True) -> float:
    """Milliseconds for one call on the host's clock, with the end of the device's work or without."""
    start = Stopwatch()
    for _ in range(calls):
        function()
    if wait:
        synchronize(device)
    return start.seconds * 1e3 / calls


def _between_events(function, device: str, calls: int, block=None) -> float:
    """Milliseconds for one call on the device's own clock (the CPU's, for the CPU)."""
    if device == "cpu":
        return _on_the_host(function, device, calls)
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


class Runner:
    """A case on one device: `sample` as often as `wanted`, then `result`."""

    unit = "ms"
    calls = 1

    def __init__(self, case: Case, name: str, context, settings: Settings):
        self.case, self.device, self.context, self.settings = case, device_of(name), context, settings
        self.make = case.maker(name)
        self.times: list[float] = []  # for one call
        self.values: dict = {}
        self.wanted = settings.wall_samples
        with torch.autograd.enable_grad(), context():
            self.prepare()
            for _ in range(settings.warmup if case.clock != "once" else 0):
                self.function()
            synchronize(self.device)

    def prepare(self) -> None:
        self.function = self.make(self.device)
        first = _on_the_host(self.function, self.device, 1)  # pipelines are made here
        _on_the_host(self.function, self.device, 1 if first > 1000 else 2)

    def measure(self) -> float:
        return _on_the_host(self.function, self.device, self.calls)

    def sample(self) -> None:
        if len(self.times) < self.wanted:
            with self.context():
                self.times.append(self.measure())

    def result(self) -> Result:
        case = self.case
        if case.values:
            with torch.autograd.enable_grad(), self.context():
                self.values = {**case.values(self.device, self.function), **self.values}
        return Result.of_times([t / case.ops for t in self.times], self.unit, flops=case.flops, moved=case.bytes,
                               calls=self.calls * case.ops, values=self.values)  # fmt: skip


class WallRunner(Runner):
    def sample(self) -> None:
        if self.settings.exact or len(self.times) < 3 or sum(self.times) < self.settings.wall_budget_s * 1e3:
            super().sample()


class HostRunner(Runner):
    """Microseconds of the host for one call. The device's work is waited for between the samples."""

    unit = "us"

    def prepare(self) -> None:
        self.function = self.make(self.device)
        self.wanted = self.settings.host_samples
        for _ in range(2):
            estimate = _on_the_host(self.function, self.device, min(100, self.settings.host_calls))
        self.calls = min(self.settings.host_calls, max(20, int(200 / estimate)))  # a sample takes 0.2 s at most

    def measure(self) -> float:
        microseconds = _on_the_host(self.function, self.device, self.calls, wait=False) * 1e3
        synchronize(self.device)
        return microseconds


class OnceRunner(Runner):
    """`make` returns a function that returns a `Result`."""

    wanted = 1

    def prepare(self) -> None:
        self.wanted = 1
        self.answer = self.make(self.device)()

    def sample(self) -> None:
        pass

    def result(self) -> Result:
        return self.answer


class EventRunner(Runner):
    def __init__(self, case: Case, name: str, context, settings: Settings, blockers: dict[str, Blocker]):
        self.blockers = blockers
        super().__init__(case, name, context, settings)

    def prepare(self) -> None:
        case, settings = self.case, self.settings
        self.function = self.make(self.device)
        if case.needed_bytes and self.device == "aule":
            _, peak = peak_mib(self.device, self.function)
            self.values = {"peak_mib": round(peak, 1), "needed_mib": round(case.needed_bytes / 2**20, 1)}
        else:
            self.function()
        synchronize(self.device)
        start = Stopwatch()
        self.function()
        host = start.seconds * 1e3
        synchronize(self.device)
        estimate = _between_events(self.function, self.device, 1)
        self.calls = max(1, min(100, round(settings.sample_ms / max(estimate, 1e-3)))) if case.ops == 1 else 1
        self.rest = settings.rest_s if case.flops and self.device != "cpu" else 0.0
        few = min(settings.samples, 3 if estimate < 1000 else 1)
        self.wanted = settings.samples if settings.exact or estimate < 200 else few
        self.block = None
        if case.queued and self.device in self.blockers and host * 3 > estimate:
            length = host * self.calls * 1.5 + 0.3
            self.block = lambda: self.blockers[self.device](length)

    def measure(self) -> float:
        time.sleep(self.rest)
        return _between_events(self.function, self.device, self.calls, self.block)


RUNNERS = {"wall": WallRunner, "host": HostRunner, "once": OnceRunner}


def runner(case: Case, name: str, context, settings: Settings, blockers: dict[str, Blocker]) -> Runner:
    """`case` on the device of the runner `name`, made and run in `context`."""
    if case.clock == "events":
        return EventRunner(case, name, context, settings, blockers)
    return RUNNERS[case.clock](case, name, context, settings)
