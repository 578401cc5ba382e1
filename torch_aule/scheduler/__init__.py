"""The device as a shared resource: tasks wait their turn by class, within quotas, and every decision is kept.

Admission, order, reservation and pacing are decided in C++ (``csrc/runtime/scheduler.h``); here tasks are started, each
on the stream of its context, and found ended without waiting for the device. With ``simulate=True`` no device takes
part: a task's function says how many milliseconds it would take, and time is counted, not waited for.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_map_only

from torch_aule import _C
from torch_aule.backend.transfers import TransferEngine
from torch_aule.indices import DeviceLike, checked_index
from torch_aule.scheduler.contexts import Context, ContextOptions, Partition
from torch_aule.scheduler.devices import Device, Simulation
from torch_aule.scheduler.eviction import Evictable, Evicting
from torch_aule.scheduler.tasks import AdmissionError, QoS, Task, policy_index
from torch_aule.scheduler.transfers import SimulatedTransfers

__all__ = ["AdmissionError", "Context", "Evictable", "Partition", "QoS", "Scheduler", "Task"]

_SIMULATED_BYTES = 16 << 30
_NO_CONTEXT = -1  # the core's name for tasks of no context, which start one after the other like those of one
_UNLIMITED = 1 << 62


def _fail(error: Exception) -> None:
    raise error


class _Waiting(NamedTuple):
    function: Callable
    streams: tuple  # one of which it runs on
    ready: list  # events of the stream that submitted it
    uses: tuple[Evictable, ...]


class Scheduler(Evicting):
    """Runs functions in the order of their priority, as far as memory, bandwidth and shares of time allow.

    Classes of service: see :class:`QoS`. A task is what its function enqueues on the stream of its context; tasks of
    different contexts run at the same time. Not for several threads at a time.

    Parameters
    ----------
    device : torch.device, str or int, optional
        Default: the current device.
    memory : int, optional
        Bytes that estimates are held against; default: the device's, 16 GiB in a simulation.
    max_queued : int, default 1024
        Tasks that may wait.
    max_running : int, default 16
        Tasks that may have started and not ended.
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
        max_running: int = 16,
        window_ms: float = 10.0,
        simulate: bool = False,
    ):
        self.simulated = simulate
        self._index = 0 if simulate else checked_index(device)
        if memory is None:
            memory = _SIMULATED_BYTES if simulate else torch.aule.mem_get_info(self._index)[1]
        self._memory = memory
        self._core = _C.TaskScheduler(memory, max_queued, max_running, max(1, round(window_ms * 1e3)))
        self._core.add_context(_NO_CONTEXT, _UNLIMITED, 0, max_running=1)
        self._device = Simulation() if simulate else Device(self._index)
        self._functions: dict[int, _Waiting] = {}
        self._owners: dict[int, Context] = {}
        self._results: dict[int, Any] = {}
        self._contexts: dict[int, Context] = {}
        self._on: dict[int, Any] = {}  # streams of tasks that run
        self._uses: dict[int, tuple[Evictable, ...]] = {}  # of tasks that run
        self._transfers: Any = None
        self._pool = None
        self._starting: int | None = None  # the task whose function is being called

    def now(self) -> int:
        """The scheduler's clock: counted in a simulation, else the host's, microseconds."""
        return self._device.now()

    @property
    def transfers(self) -> Any:
        """A :class:`torch_aule.transfers.TransferEngine` that each step moves on; in a simulation, the host copies."""
        if self._transfers is None:
            self._transfers = SimulatedTransfers() if self.simulated else TransferEngine(self._index)
        return self._transfers

    def create_context(
        self,
        name: str,
        max_vram: int | None = None,
        base_vram: int = 0,
        qos: str = "best_effort",
        share: float = 1.0,
        bandwidth: float = 1.0,
        streams: int = 1,
        max_running: int | None = None,
        in_flight: int | None = None,
        on_pressure: Callable[[Context], None] | None = None,
    ) -> Context:
        """A part of the device with streams, a quota of memory and shares of time and bandwidth of its own.

        Parameters
        ----------
        name : str
            For messages. No two open contexts have the same.
        max_vram : int, optional
            Bytes that its tensors may hold; an allocation above raises ``torch.OutOfMemoryError``, and other contexts
            go on. Default: no quota.
        base_vram : int, default 0
            Bytes that are its own from now on.
        qos : str, default "best_effort"
            Class of its tasks.
        share : float, default 1.0
            Of the device's time, at most.
        bandwidth : float, default 1.0
            What the shares of bandwidth that its tasks ask for may come to, while they run.
        streams : int, default 1
            Streams of its own. A task starts on the one with the fewest.
        max_running : int, optional
            Tasks of it that may have started and not ended; default: as many as it has streams.
        in_flight : int, optional
            Limit of each stream, see :func:`torch_aule.backend.streams.set_in_flight_limit`.
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
            If `qos` is none, `name` is taken, a share is not in (0, 1], or a number is below 1.
        RuntimeError
            If too many streams belong to contexts.
        """
        policy_index(qos, "create_context")
        if not isinstance(name, str) or any(name == other.name for other in self._contexts.values()):
            raise ValueError(f"create_context: expected a name that no open context has, but got {name!r}")
        if not 0 < share <= 1:
            raise ValueError(f"create_context: expected share above 0 and at most 1, but got {share}")
        if streams < 1 or (in_flight is not None and in_flight < 1):
            raise ValueError(
                f"create_context: expected streams and in_flight of at least 1, but got {streams} and {in_flight}"
            )
        identity = max(self._contexts, default=0) + 1
        most = _UNLIMITED if max_vram is None else max_vram
        running = streams if max_running is None else max_running
        if not self._core.add_context(identity, most, base_vram, max_running=running, max_bandwidth=bandwidth):
            raise AdmissionError(f"create_context: no room for {base_vram} bytes of context '{name}'", "memory")
        options = ContextOptions(max_vram, share, bandwidth, streams, in_flight, on_pressure)
        try:
            context = Context(self, identity, name, qos, options)
        except Exception:
            self._core.remove_context(identity)
            raise
        self._contexts[identity] = context
        self._core.set_share(identity, share, self.now())
        return context

    def _close(self, context: Context) -> None:
        if context._id not in self._contexts:
            return
        self._core.remove_context(context._id)  # raises while it has tasks
        del self._contexts[context._id]
        context._release()

    def submit(
        self,
        fn: Callable[[], Any],
        memory: int | None = None,
        bandwidth: float | None = None,
        policy: str | None = None,
        priority: int | None = None,
        after: Iterable[int] = (),
        context: Context | None = None,
        device_ms: float | None = None,
        uses: Iterable[Evictable | torch.Tensor] = (),
    ) -> int:
        """Add a task. On the device it follows the work that the current stream has been given so far.

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
            Whose streams, quota and share it has; default: the current stream.
        device_ms : float, optional
            Time on the device that its context is charged when it starts, until what it took is known; default: as the
            context's last tasks took.
        uses : iterable of Evictable or torch.Tensor
            Registered tensors that it reads or writes: see :meth:`register`.

        Returns
        -------
        int
            The task, for :meth:`stats`, :meth:`result` and :meth:`cancel`.

        Raises
        ------
        AdmissionError
            If it can never run, or the queue is full.
        TypeError
            If `fn` cannot be called.
        ValueError
            If `policy` is none, `context` is no open context of this scheduler, an estimate is below 0, or a tensor
            that it uses is not registered.
        """
        if not callable(fn):
            raise TypeError(f"submit: expected a function of no arguments, but got {fn!r}")
        if context is not None and not (isinstance(context, Context) and self._contexts.get(context._id) is context):
            raise ValueError(f"submit: expected an open context of this scheduler, but got {context!r}")
        for name, number in (("memory", memory), ("bandwidth", bandwidth), ("device_ms", device_ms)):
            if number is not None and not number >= 0:
                raise ValueError(f"submit: expected {name} of at least 0, but got {number}")
        entries = () if not (uses := tuple(uses)) else self._eviction("submit").find(uses)
        qos = policy_index(policy or (context.policy if context else QoS.BestEffort))
        owner = context._id if context else _NO_CONTEXT
        decision = self._core.submit(
            qos, priority, memory or 0, bandwidth or 0.0, list(after), owner, owner, self.now(),
            device_us=round((device_ms or 0.0) * 1e3),
        )  # fmt: skip
        if decision["verdict"] == "reject":
            raise AdmissionError(f"scheduler: task rejected: {decision['reason']}", decision["reason"])
        streams, ready = tuple[Any, ...](), []
        if not self.simulated:
            current = torch.aule.current_stream(self._index)
            streams = context.streams if context else (current,)
            ready = [current.record_event()] if streams != (current,) else []
        self._functions[decision["task"]] = _Waiting(fn, streams, ready, entries)
        if context is not None:
            self._owners[decision["task"]] = context
        return decision["task"]

    def step(self) -> list[int]:
        """Note which tasks have ended, and start every task that may start. The device is not waited for.

        In a simulation time passes when nothing else has changed: until the next task ends, but at most 1 ms.

        Returns
        -------
        list of int
            The tasks that were started. What they raise is in :meth:`result`.
        """
        started, changed = self._step()
        if self.simulated and not changed:
            self._device.rest()
        return started

    def _step(self) -> tuple[list[int], bool]:
        if self._transfers is not None:
            self._transfers.advance()
        ended = self._device.poll()
        for done in ended:
            self._results[done.task] = done.error or done.result
            self._core.finish(done.task, done.error is not None, done.device_us, self.now())
            self._owners.pop(done.task, None)
            self._on.pop(done.task)
            if (uses := self._uses.pop(done.task, None)) and self._pool is not None:
                self._pool.end(done.task, uses)
            if done.error is not None:
                self._drop_cancelled()
        started = []
        while (task := self._core.next(self.now())) is not None:
            started.append(task)
            waiting, context = self._functions.pop(task), self._owners.get(task)
            busy = list(self._on.values())
            self._on[task] = min(waiting.streams, key=busy.count, default=None)
            self._starting = task
            try:
                error = self._device.start(task, *self._prepared(task, waiting))
            finally:
                self._starting = None
            if isinstance(error, torch.OutOfMemoryError) and context is not None and context._options.on_pressure:
                context._options.on_pressure(context)
        return started, bool(ended or started)

    def _prepared(self, task: int, waiting: _Waiting) -> tuple[Callable, Any, list]:
        function, ready = waiting.function, waiting.ready
        if waiting.uses and self._pool is not None:
            try:
                restored = self._pool.begin(task, waiting.uses)
                self._uses[task] = waiting.uses
                ready = ready + [restored] if restored is not None else ready
            except Exception as error:  # no memory to restore them
                function = functools.partial(_fail, error)
        return function, self._on[task], ready

    def run(self) -> None:
        """Run tasks until none is left; waits where all that are left are over their share of time.

        Raises
        ------
        RuntimeError
            If tasks are left that can never start, or if a task calls it.
        """
        self._refuse_in_a_task("run")
        idle_since = None
        while (counts := self._core.global_stats())["waiting"] or counts["running"]:
            if self._step()[1]:
                idle_since = None
                continue
            if counts["running"]:
                idle_since = None
            elif idle_since is None:
                idle_since = self.now()
            elif self.now() - idle_since > 100_000_000:
                raise RuntimeError("scheduler: tasks are left that can never start")
            self._device.rest()

    def _refuse_in_a_task(self, what: str) -> None:
        if self._starting is not None:
            raise RuntimeError(f"Scheduler.{what}: task {self._starting} called it, and would wait for its own end")

    def close(self) -> None:
        """Bring registered tensors back, and close the contexts. A scheduler that is gone has brought them back too.

        Raises
        ------
        RuntimeError
            If tasks have not ended.
        torch.OutOfMemoryError
            If the device has no room for all registered tensors. Those that found none still wait on the host.
        """
        self._refuse_in_a_task("close")
        if left := sum(self._core.global_stats()[state] for state in ("waiting", "running")):
            raise RuntimeError(f"Scheduler.close: {left} tasks have not ended: run() or cancel() them")
        for context in list(self._contexts.values()):
            context.close()
        if self._pool is not None:
            self._pool.close()

    def cancel(self, task: int) -> bool:
        """Take a task out of the queue.

        Parameters
        ----------
        task : int
            Of :meth:`submit`.

        Returns
        -------
        bool
            False if it has started.
        """
        done = self._core.cancel(task, self.now())
        if done:
            self._drop_cancelled()
        return done

    def _drop_cancelled(self) -> None:  # a task that ended, and those that waited for it
        for task in [t for t in self._functions if self.stats(t)["state"] == "CANCELLED"]:
            self._functions.pop(task)
            self._owners.pop(task, None)

    def task(self, task: int) -> Task:
        """A task as an object.

        Parameters
        ----------
        task : int
            Of :meth:`submit`.

        Returns
        -------
        Task
            Its state, times and what it was submitted with.

        Raises
        ------
        IndexError
            If there is no such task.
        """
        return Task(self, task)

    def result(self, task: int) -> Any:
        """The return value of a task's function.

        Parameters
        ----------
        task : int
            Of :meth:`submit`.

        Returns
        -------
        object
            Ready for the current stream. None in a simulation.

        Raises
        ------
        Exception
            What it raised.
        KeyError
            If it has not ended.
        """
        value = self._results[task]
        if isinstance(value, Exception):
            raise value

        def keep(tensor):  # its memory belongs to its context's stream, and is now used by this one
            if tensor.device.type == "aule" and tensor.layout == torch.strided and not self.simulated:
                tensor.record_stream(torch.aule.current_stream(self._index))
            return tensor

        return tree_map_only(torch.Tensor, keep, value)

    def forget(self, task: int) -> None:
        """Let go of a task that has ended: what it returned, whose memory can be used again, and its record.

        Parameters
        ----------
        task : int
            Of :meth:`submit`. Tasks that wait for it still run; new ones cannot be submitted after it.

        Raises
        ------
        ValueError
            If it has not ended.
        IndexError
            If there is no such task, or it has been forgotten.
        """
        state = self.stats(task)["state"]
        if state in ("PENDING", "QUEUED", "RUNNING"):
            raise ValueError(f"Scheduler.forget: task {task} has not ended, it is {state}")
        self._results.pop(task, None)
        self._core.forget(task)

    def stats(self, task: int) -> dict[str, Any]:
        """State and times of a task.

        Parameters
        ----------
        task : int
            Of :meth:`submit`.

        Returns
        -------
        dict
            state (PENDING, QUEUED, RUNNING, COMPLETED, FAILED or CANCELLED), policy, priority, memory, bandwidth,
            dependencies, and microseconds: wait_us, run_us (of the host's clock), and device_us, where time that tasks
            run at once is divided among them.
        """
        return self._core.stats(task, self.now())

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
