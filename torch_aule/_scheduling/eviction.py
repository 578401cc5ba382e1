"""Tensors that wait on the host while no task needs them.

A storage is released whole and restored in place, so that every view and every alias of it finds its values again. Raw
addresses are what makes this unsound at any time but between tasks: recorded commands hold them, so nothing is released
that a running task names or that a captured graph has used.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import torch

from torch_aule import _C


class Evictable:
    """A tensor that a scheduler may move to the host and back, made by :meth:`Scheduler.register`.

    Parameters
    ----------
    tensor : torch.Tensor
        Its storage is what moves, with all of its views.

    Attributes
    ----------
    tensor : torch.Tensor
        As given. While it is not resident, operators on it raise ``RuntimeError``.
    bytes : int
        Of its storage.
    """

    def __init__(self, tensor: torch.Tensor):
        self.tensor = tensor
        self._storage = tensor.untyped_storage()
        self.bytes = self._storage.nbytes()
        self._host: torch.Tensor | None = None
        self._ready: torch.Event | None = None  # behind what has written it
        self._used = 0  # when a task last started with it
        self._running: set[int] = set()

    @property
    def resident(self) -> bool:
        """Whether its values are on the device."""
        return self._host is None

    def _bytes_on_device(self) -> torch.Tensor:
        empty = torch.empty(0, dtype=torch.uint8, device=self.tensor.device)
        return empty.set_(self._storage)


class EvictionPool:
    """The registered tensors of a scheduler, and how many bytes of them may be on the device."""

    def __init__(self, index: int, limit: int):
        self._index, self.limit = index, limit
        self._entries: dict[int, Evictable] = {}  # by storage
        self._clock = itertools.count(1)
        self.counts = {"spilled": 0, "restored": 0, "bytes_spilled": 0, "bytes_restored": 0}

    def _check(self, tensor: torch.Tensor) -> None:
        if tensor.device.type != "aule" or tensor.device.index != self._index or tensor.layout != torch.strided:
            raise ValueError(
                f"register: expected a dense tensor of aule:{self._index}, but got one of {tensor.device} with layout "
                f"{tensor.layout}"
            )
        storage = tensor.untyped_storage()
        if not storage.resizable() or storage.nbytes() == 0:
            raise ValueError("register: expected a tensor with memory of its own, whose storage can be resized")

    def register(self, tensor: torch.Tensor) -> Evictable:
        storage = tensor.untyped_storage() if tensor.layout == torch.strided else None
        if storage is None or storage._cdata not in self._entries:
            self._check(tensor)
            entry = self._entries[storage._cdata] = Evictable(tensor)
            entry._used = next(self._clock)
            self._mark(entry)
        self._shrink(0, keep=())
        return self._entries[storage._cdata]

    def find(self, uses: Iterable[Any]) -> tuple[Evictable, ...]:
        """The entries of tensors and of what `register` returned, each once."""
        found = {}
        for use in uses:
            tensor = use.tensor if isinstance(use, Evictable) else use
            entry = self._entries.get(tensor.untyped_storage()._cdata)
            if entry is None:
                raise ValueError("submit: expected uses of tensors that were registered and not released")
            found[id(entry)] = entry
        return tuple(found.values())

    def release(self, entry: Evictable) -> None:
        """Restore it, for the current stream too, and forget it."""
        if self._entries.get(entry._storage._cdata) is not entry:
            raise ValueError("release: expected what register returned, once")
        if entry._running:
            raise RuntimeError(f"release: task {min(entry._running)} names the tensor and has not ended")
        self._restore(entry, ())
        self._wait_for((entry,))
        del self._entries[entry._storage._cdata]

    def begin(self, task: int, entries: tuple[Evictable, ...]) -> torch.Event | None:
        """Restore what a task names, and keep it until :meth:`end`; what the task has to wait for on the device."""
        for entry in entries:
            entry._running.add(task)
            entry._used = next(self._clock)
        try:
            for entry in entries:
                self._restore(entry, entries)
        except Exception:
            self.end(task, entries)
            raise
        self._shrink(0, entries)
        return self._wait_for(entries)

    def end(self, task: int, entries: tuple[Evictable, ...]) -> None:
        for entry in entries:
            entry._running.discard(task)

    def resident_bytes(self) -> int:
        return sum(entry.bytes for entry in self._entries.values() if entry.resident)

    def _shrink(self, coming: int, keep: tuple) -> None:
        """Spill the least recently used ones until there is room under the limit, as far as tasks allow it."""
        for entry in sorted(self._entries.values(), key=lambda e: e._used):
            if self.resident_bytes() + coming <= self.limit:
                return
            if entry not in keep:
                self._spill(entry)

    def _spill(self, entry: Evictable) -> bool:
        if not entry.resident or entry._running or self._is_held(entry):
            return False
        entry._host = self._move_out(entry)
        self.counts["spilled"] += 1
        self.counts["bytes_spilled"] += entry.bytes
        return True

    def _restore(self, entry: Evictable, keep: tuple) -> None:
        if entry.resident:
            return
        self._shrink(entry.bytes, keep)
        try:
            self._move_in(entry)
        except torch.OutOfMemoryError:
            idle = [self._spill(other) for other in self._entries.values() if other not in keep]
            if not any(idle):
                raise
            self._move_in(entry)
        entry._host = None
        self._mark(entry)
        self.counts["restored"] += 1
        self.counts["bytes_restored"] += entry.bytes

    # What touches the device.

    def _mark(self, entry: Evictable) -> None:
        entry._ready = torch.aule.current_stream(self._index).record_event()

    def _wait_for(self, entries: tuple[Evictable, ...]) -> torch.Event | None:
        stream = torch.aule.current_stream(self._index)
        for entry in entries:
            stream.wait_event(entry._ready)
        return stream.record_event()

    def _is_held(self, entry: Evictable) -> bool:
        return _C.in_a_graph(self._index, entry._storage.data_ptr(), entry.bytes)

    def _move_out(self, entry: Evictable) -> torch.Tensor:
        torch.aule.current_stream(self._index).wait_event(entry._ready)
        host = torch.empty(entry.bytes, dtype=torch.uint8, pin_memory=True)
        host.copy_(entry._bytes_on_device())  # waits: what is released below may be used by others at once
        entry._storage.resize_(0)
        return host

    def _move_in(self, entry: Evictable) -> None:
        entry._storage.resize_(entry.bytes)
        entry._bytes_on_device().copy_(entry._host)


class SimulatedPool(EvictionPool):
    """The same of a simulation: what would move is counted, and stays where it is."""

    def _check(self, tensor: torch.Tensor) -> None:
        pass

    def _mark(self, entry: Evictable) -> None:
        pass

    def _wait_for(self, entries: tuple[Evictable, ...]) -> None:
        return None

    def _is_held(self, entry: Evictable) -> bool:
        return False

    def _move_out(self, entry: Evictable) -> torch.Tensor:
        return entry.tensor

    def _move_in(self, entry: Evictable) -> None:
        pass


class Evicting:
    """The part of a scheduler that has registered tensors."""

    simulated: bool
    _index: int
    _memory: int
    _pool: EvictionPool | None

    def _eviction(self, what: str) -> EvictionPool:
        if self._pool is None:
            raise RuntimeError(f"{what}: expected enable_eviction() to have been called")
        return self._pool

    def enable_eviction(self, limit: int | None = None) -> None:
        """Let registered tensors wait on the host while no task needs them.

        Parameters
        ----------
        limit : int, optional
            Bytes of registered tensors that may stay on the device; default: half of the scheduler's memory. The
            least recently used ones go first. Those that running tasks use stay, even above the limit.

        Raises
        ------
        ValueError
            If `limit` is below 0.
        """
        if limit is None:
            limit = self._memory // 2
        if limit < 0:
            raise ValueError(f"enable_eviction: expected limit of at least 0, but got {limit}")
        if self._pool is None:
            self._pool = SimulatedPool(self._index, limit) if self.simulated else EvictionPool(self._index, limit)
        self._pool.limit = limit

    def register(self, tensor: torch.Tensor) -> Evictable:
        """Let a tensor be moved to the host and back, in place, between the tasks that name it.

        Its storage is released and restored, so all of its views move with it. From now on it is to be used only in
        tasks that name it in their `uses`, and their results are not to be views of it. Elsewhere operators on it raise
        ``RuntimeError`` while it is not on the device. What a captured graph has used stays on the device.

        Parameters
        ----------
        tensor : torch.Tensor
            Dense, on the scheduler's device.

        Returns
        -------
        Evictable
            For `uses`, as is the tensor itself.

        Raises
        ------
        RuntimeError
            Without :meth:`enable_eviction`.
        ValueError
            If it is on another device, or its storage cannot be resized.
        """
        return self._eviction("register").register(tensor)

    def release(self, entry: Evictable) -> None:
        """Bring a registered tensor back for good.

        Parameters
        ----------
        entry : Evictable
            Of :meth:`register`.

        Raises
        ------
        RuntimeError
            If a running task uses it.
        ValueError
            If it was released before.
        """
        self._eviction("release").release(entry)

    def eviction_stats(self) -> dict[str, int]:
        """How often tensors were moved.

        Returns
        -------
        dict
            spilled, restored, bytes_spilled, bytes_restored, and resident_bytes of registered tensors.
        """
        pool = self._eviction("eviction_stats")
        return pool.counts | {"resident_bytes": pool.resident_bytes()}
