"""Devices of a scheduler: a device whose events are asked and never waited for, or in counted time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

_TICK_US = 1000  # the longest step of counted time, and the longest sleep between two looks at the device
_SLEEP_S = 1e-4


class Ended(NamedTuple):
    """A task that the device is done with."""

    task: int
    device_us: int
    result: Any
    error: Exception | None


class _Overlap:
    """Divides the time of a device among the tasks that run on it at the same time."""

    def __init__(self):
        self._at = self._each = 0.0
        self._running: dict[int, float] = {}

    def _move(self, at: float) -> None:
        if self._running:
            self._each += max(0.0, at - self._at) / len(self._running)
        self._at = max(at, self._at)

    def begin(self, task: int, at: float) -> None:
        self._move(at)
        self._running[task] = self._each

    def end(self, task: int, at: float) -> float:
        """The task's part of the time since it began."""
        self._move(at)
        return self._each - self._running.pop(task)


class _Running(NamedTuple):
    function: Callable  # what it captured is alive until the device is done with it
    first: torch.Event
    last: torch.Event
    began_us: float
    result: Any
    error: Exception | None


class Device:
    """A device: a task is what its function enqueues on a stream, and ends with an event of that stream.

    Where reading timestamps would wait for the device, as on software devices, times are those of the host's looks.
    """

    def __init__(self, index: int):
        self._device = torch.device("aule", index)
        self._timed = torch.aule.get_device_properties(index).kind != "cpu"
        self._base = torch.Event(self._device, enable_timing=self._timed)
        self._base.record(torch.aule.current_stream(index))
        self._overlap = _Overlap()
        self._running: dict[int, _Running] = {}
        self._not_begun: dict[int, torch.Event] = {}  # the first events of tasks that `_overlap` does not know yet

    def now(self) -> int:
        return time.perf_counter_ns() // 1000

    def start(self, task: int, function: Callable, stream, ready: list) -> Exception | None:
        """Enqueue a task behind events; what it raised. It ends like others: it may have enqueued work before."""
        first, last = (torch.Event(self._device, enable_timing=self._timed) for _ in range(2))
        result, error, began = None, None, self.now()
        with torch.aule.stream(stream):
            for event in ready:
                stream.wait_event(event)
            first.record(stream)
            try:
                result = function()
            except Exception as raised:
                error = raised
            last.record(stream)
        if self._timed:
            self._not_begun[task] = first
        else:
            self._overlap.begin(task, began)
        self._running[task] = _Running(function, first, last, began, result, error)
        return error

    def poll(self) -> list[Ended]:
        """The tasks that have ended since the last look, in the order in which they did."""
        done = [(task, running) for task, running in self._running.items() if running.last.query()]
        errors = {}
        for task, running in done:
            del self._running[task]
            try:
                running.last.synchronize()  # raises what kernels have reported, and does not wait any more
            except Exception as error:
                errors[task] = error
        if self._timed:
            us = self._divide({task: self._time_of(running.last) for task, running in done})
        else:
            now = self.now()
            us = {task: self._overlap.end(task, now) for task, _ in done}
        return [Ended(task, round(us[task]), r.result, r.error or errors.get(task)) for task, r in done]

    def _time_of(self, event: torch.Event) -> float:
        return self._base.elapsed_time(event) * 1e3

    def _divide(self, ends: dict[int, float]) -> dict[int, float]:
        """The time of each task that ended at these times. The time before them is shared with those that still run."""
        if not ends:
            return {}
        begins = {task: self._time_of(first) for task, first in self._not_begun.items() if first.query()}
        latest, took = max(ends.values()), {}
        marks = [(at, False, task) for task, at in begins.items() if at <= latest]
        for at, is_end, task in sorted(marks + [(at, True, task) for task, at in ends.items()]):
            if is_end:
                took[task] = self._overlap.end(task, at)
            else:
                self._overlap.begin(task, at)
                del self._not_begun[task]
        return took

    def rest(self) -> None:
        """Between two looks at a device where nothing has changed."""
        time.sleep(_SLEEP_S)


class Simulation:
    """Counted time: a task's function says how many milliseconds it takes, and those that run share the device."""

    def __init__(self):
        self._now = 0.0
        self._left: dict[int, float] = {}
        self._took: dict[int, float] = {}
        self._errors: dict[int, Exception] = {}

    def now(self) -> int:
        return round(self._now)

    def start(self, task: int, function: Callable, stream, ready: list) -> Exception | None:
        error = None
        try:
            self._took[task] = max(0.0, float(function()) * 1e3)
        except Exception as raised:
            error = self._errors[task] = raised
            self._took[task] = 0.0
        self._left[task] = self._took[task]
        return error

    def poll(self) -> list[Ended]:
        done = [task for task, left in self._left.items() if left <= 1e-6]
        for task in done:
            del self._left[task]
        return [Ended(task, round(self._took.pop(task)), None, self._errors.pop(task, None)) for task in done]

    def rest(self) -> None:
        """Time passes until the next task ends, but at most a tick."""
        tasks = len(self._left)
        each = min([_TICK_US / max(1, tasks), *self._left.values()])
        for task in self._left:
            self._left[task] -= each
        self._now += each * max(1, tasks)
