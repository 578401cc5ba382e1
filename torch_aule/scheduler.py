"""The device as a shared resource: tasks wait their turn by class, within quotas, and every decision is kept.

Admission, order, reservation and pacing are decided in C++ (``csrc/runtime/scheduler.h``); here tasks are run, one at a
time, on the stream of their context. With ``simulate=True`` no device takes part: a task's function says how many
milliseconds it would take, and time is counted, not waited for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import torch

from torch_aule import _C
from torch_aule._utils import DeviceLike, checked_index

__all__ = ["AdmissionError", "Context", "Scheduler"]

_POLICIES = tuple(row[0] for row in _C.qos_policies)
_SIMULATED_BYTES = 16 << 30


class AdmissionError(RuntimeError):
    """A task or a context that can never run, or for which the queue has no place.

    Parameters
    ----------
    message : str
        What is shown.
    reason : str
        See below.

    Attributes
    ----------
    reason : str
        ``"memory"``, ``"bandwidth"``, ``"queue_full"`` or ``"dependencies"``.
    """

    def __init__(self, message: str, reason: str):
        super().__init__(message)
        self.reason = reason


def _policy(name: str) -> int:
    if name not in _POLICIES:
        raise ValueError(f"scheduler: expected policy one of {', '.join(_POLICIES)}, but got {name!r}")
    return _POLICIES.index(name)


class Context:
    """A share of the device, made by :meth:`Scheduler.create_context`; ``with`` makes its stream the current one.

    Parameters
    ----------
    scheduler : Scheduler
        Whose context it is.
    identity : int
        The scheduler's name for it.
    name : str
        For messages.
    policy : str
        Class of service of its tasks.
    max_vram : int or None
        Its quota, bytes.

    Attributes
    ----------
    name : str
        As given.
    policy : str
        Class of service of its tasks, unless they say otherwise.
    stream : torch.Stream or None
        Its own; None in a simulation.
    """

    def __init__(self, scheduler: Scheduler, identity: int, name: str, policy: str, max_vram: int | None):
        self.name, self.policy, self.stream = name, policy, None
        self._scheduler, self._id = scheduler, identity
        self._entered: list = []
        if scheduler.simulated:
            return
        self.stream = scheduler._own_stream()
        if max_vram is not None:
            _C.set_stream_quota(scheduler._index, self.stream.stream_id, max_vram, f"context '{name}'")

    def usage(self) -> int:
        """Bytes that its tensors hold.

        Returns
        -------
        int
            Of tensors that were allocated on its stream; 0 in a simulation.
        """
        return _C.stream_bytes(self._scheduler._index, self.stream.stream_id) if self.stream is not None else 0

    def close(self) -> None:
        """End its quota and give its reservation back. Its tensors stay."""
        self._scheduler._close(self)

    def __enter__(self) -> Context:
        if self.stream is not None:
            self._entered.append(torch.aule.stream(self.stream))
            self._entered[-1].__enter__()
        return self

    def __exit__(self, *failure) -> None:
        if self.stream is not None:
            self._entered.pop().__exit__(*failure)

    async def __aenter__(self) -> Context:
        return self.__enter__()

    async def __aexit__(self, *failure) -> None:
        self.__exit__(*failure)


class Scheduler:
    """Runs functions in the order of their priority, as far as memory, bandwidth and shares of time allow.

    Classes of service: ``"guaranteed"`` (priority 100; estimates up to the memory), ``"burstable"`` (50; 1.5 of it) and
    ``"best_effort"`` (0; 2.0). The first two hold what they ask for from their submission on.

    Parameters
    ----------
    device : torch.device, str or int, optional
        Default: the current device.
    memory : int, optional
        Bytes that estimates are held against; default: the device's, 16 GiB in a simulation.
    max_queued : int, default 1024
        Tasks that may wait.
    window_ms : float, default 10
        Over which shares of time are kept.
    simulate : bool, default False
        Count time instead of running anything.

    Attributes
    ----------
    simulated : bool
        As given.
    """

    def __init__(
        self,
        device: DeviceLike = None,
        *,
        memory: int | None = None,
        max_queued: int = 1024,
        window_ms: float = 10.0,
        simulate: bool = False,
    ):
        self.simulated = simulate
        self._index = 0 if simulate else checked_index(device)
        if memory is None:
            memory = _SIMULATED_BYTES if simulate else torch.aule.mem_get_info(self._index)[1]
        self._core = _C.TaskScheduler(memory, max_queued, 1, max(1, round(window_ms * 1e3)))
        self._functions: dict[int, tuple[Callable, Context | None]] = {}
        self._results: dict[int, Any] = {}
        self._contexts: dict[int, Context] = {}
        self._pressure: dict[int, Callable[[Context], None]] = {}
        self._simulated_us = 0

    def _now(self) -> int:
        return self._simulated_us if self.simulated else time.perf_counter_ns() // 1000

    def _own_stream(self):
        used = {context.stream.stream_id for context in self._contexts.values()}
        for _ in range(64):  # PyTorch hands streams of a pool out in turn
            stream = torch.Stream(device=torch.device("aule", self._index))
            if stream.stream_id not in used:
                return stream
        raise RuntimeError("scheduler: every stream of the device's pool belongs to a context")

    def create_context(
        self,
        name: str,
        max_vram: int | None = None,
        base_vram: int = 0,
        qos: str = "best_effort",
        share: float = 1.0,
        on_pressure: Callable[[Context], None] | None = None,
    ) -> Context:
        """A part of the device with a stream, a quota of memory and a share of time of its own.

        Parameters
        ----------
        name : str
            For messages.
        max_vram : int, optional
            Bytes that its tensors may hold; an allocation above raises ``torch.OutOfMemoryError``, and other contexts
            go on. Default: no quota.
        base_vram : int, default 0
            Bytes that are its own from now on.
        qos : str, default "best_effort"
            Class of its tasks.
        share : float, default 1.0
            Of the device's time, at most.
        on_pressure : callable, optional
            Called with the context when one of its tasks ran out of memory.

        Returns
        -------
        Context
            To submit with, or to enter.

        Raises
        ------
        AdmissionError
            If there is no room for `base_vram`.
        ValueError
            If `qos` or `share` is none.
        """
        _policy(qos)
        if not 0 < share <= 1:
            raise ValueError(f"create_context: expected share above 0 and at most 1, but got {share}")
        identity = max(self._contexts, default=0) + 1
        most = (1 << 62) if max_vram is None else max_vram
        if not self._core.add_context(identity, most, base_vram):
            raise AdmissionError(f"create_context: no room for {base_vram} bytes of context '{name}'", "memory")
        context = Context(self, identity, name, qos, max_vram)
        self._contexts[identity] = context
        self._core.set_share(identity, share, self._now())
        if on_pressure is not None:
            self._pressure[identity] = on_pressure
        return context

    def _close(self, context: Context) -> None:
        if self._contexts.pop(context._id, None) is None:
            return
        self._pressure.pop(context._id, None)
        self._core.remove_context(context._id)
        if context.stream is not None:
            _C.clear_stream_quota(self._index, context.stream.stream_id)

    def submit(
        self,
        fn: Callable[[], Any],
        memory: int | None = None,
        bandwidth: float | None = None,
        policy: str | None = None,
        priority: int | None = None,
        after: Iterable[int] = (),
        context: Context | None = None,
    ) -> int:
        """Add a task.

        Parameters
        ----------
        fn : callable
            Called without arguments when its turn comes; in a simulation it returns the milliseconds that it takes.
        memory : int, optional
            Bytes that it will need, as an estimate to be admitted by.
        bandwidth : float, optional
            Share of the device's that it will need, 0 to 1.
        policy : str, optional
            Class of service; default: of the context, or ``"best_effort"``.
        priority : int, optional
            Default: of the class. Higher ones first, equal ones by age.
        after : iterable of int
            Tasks that must have completed.
        context : Context, optional
            Whose stream, quota and share it has.

        Returns
        -------
        int
            The task, for :meth:`stats`, :meth:`result` and :meth:`cancel`.

        Raises
        ------
        AdmissionError
            If it can never run, or the queue is full.
        ValueError
            If `policy` is none.
        """
        qos = _policy(policy or (context.policy if context else "best_effort"))
        owner = context._id if context else 0
        decision = self._core.submit(
            qos, priority, memory or 0, bandwidth or 0.0, list(after), owner, owner, self._now()
        )
        if decision["verdict"] == "reject":
            raise AdmissionError(f"scheduler: task rejected: {decision['reason']}", decision["reason"])
        self._functions[decision["task"]] = (fn, context)
        return decision["task"]

    def step(self) -> int | None:
        """Run the next task that may start, to its end on the device.

        Returns
        -------
        int or None
            The task; None if none may start now. What it raised is in :meth:`result`.
        """
        task = self._core.next(self._now())
        if task is None:
            return None
        fn, context = self._functions.pop(task)
        failed, device_us = False, 0
        try:
            if self.simulated:
                device_us = max(0, round(float(fn()) * 1e3))
                self._simulated_us += device_us
                self._results[task] = None
            else:
                device_us = self._run(task, fn, context)
        except Exception as error:
            failed = True
            self._results[task] = error
            if isinstance(error, torch.OutOfMemoryError) and context is not None and context._id in self._pressure:
                self._pressure[context._id](context)
        self._core.finish(task, failed, device_us, self._now())
        return task

    def _run(self, task: int, fn: Callable, context: Context | None) -> int:
        first, last = (torch.Event(torch.device("aule", self._index), enable_timing=True) for _ in range(2))
        stream = context.stream if context else torch.aule.current_stream(self._index)
        with torch.aule.stream(stream):
            first.record()
            self._results[task] = fn()
            last.record()
        last.synchronize()
        return round(first.elapsed_time(last) * 1e3)

    def run(self) -> None:
        """Run tasks until none is left; waits where all that are left are over their share of time.

        Raises
        ------
        RuntimeError
            If tasks are left that can never start.
        """
        idle = 0
        while self._core.global_stats()["waiting"]:
            if self.step() is not None:
                idle = 0
                continue
            idle += 1
            if idle > 100_000:
                raise RuntimeError("scheduler: tasks are left that can never start")
            if self.simulated:
                self._simulated_us += 1000
            else:
                time.sleep(1e-3)

    def cancel(self, task: int) -> bool:
        """Take a task out of the queue.

        Parameters
        ----------
        task : int
            Of :meth:`submit`.

        Returns
        -------
        bool
            False if it has run.
        """
        done = self._core.cancel(task, self._now())
        if done:
            self._functions.pop(task, None)
        return done

    def result(self, task: int) -> Any:
        """What a task's function returned.

        Parameters
        ----------
        task : int
            Of :meth:`submit`.

        Returns
        -------
        object
            None in a simulation.

        Raises
        ------
        Exception
            What it raised.
        KeyError
            If it has not run.
        """
        value = self._results[task]
        if isinstance(value, Exception):
            raise value
        return value

    def stats(self, task: int) -> dict[str, Any]:
        """State and times of a task.

        Parameters
        ----------
        task : int
            Of :meth:`submit`.

        Returns
        -------
        dict
            state (PENDING, QUEUED, RUNNING, COMPLETED, FAILED or CANCELLED), policy, priority, wait_us, run_us (of the
            host's clock) and device_us, microseconds.
        """
        return self._core.stats(task, self._now())

    def global_stats(self) -> dict[str, Any]:
        """Counts and times of each class, and what is committed.

        Returns
        -------
        dict
            For each class submitted, completed, failed, cancelled, rejected, wait_us and device_us; waiting, running,
            committed_bytes, committed_bandwidth.
        """
        return self._core.global_stats()

    def decisions(self) -> list[dict[str, Any]]:
        """Every admission, and why.

        Returns
        -------
        list of dict
            time_us, task, verdict (admit, queue or reject), reason, position in the queue and estimate_us of the wait.
        """
        return self._core.decisions()
