"""Tensors that wait on the host while no task needs them.

A storage is released whole and restored in place, so that every view and every alias of it finds its values again. Raw
addresses are what makes this unsound at any time but between tasks: recorded commands hold them, so nothing is released
that a running task names or that a captured graph has used. While a storage has no memory it refuses, in C++
(``csrc/python/scheduler.cpp``), whoever asks for its address or its bytes: copies, files, capsules, other processes.
"""

from __future__ import annotations

import itertools
import sys
import weakref
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
        As given. While it is not resident, whatever needs its values raises ``RuntimeError``.
    bytes : int
        Of its storage.
    """

    def __init__(self, tensor: torch.Tensor):
        self.tensor = tensor
        self._storage = tensor.untyped_storage()
        self.bytes = self._storage.nbytes()
        self._all = _bytes_of(self._storage)  # made while it is resident: later set_ would refuse
        self._host: torch.Tensor | None = None
        self._ready: torch.Event | None = None  # behind what has written it
        self._used = 0  # when a task last started with it
        self._running: set[int] = set()
        self._registrations = 0  # of the tensor and of its views

    @property
    def resident(self) -> bool:
        """Whether its values are on the device."""
        return self._host is None


def _bytes_of(storage: torch.UntypedStorage) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


_OWN = 3  # references to an entry that nobody outside has: the pool's, a variable's and the call's that counts them
_OWN_STORAGE = 2  # the same of its storage: the entry's, and that of the tensor of its bytes


class EvictionPool:
    """The registered tensors of a scheduler, and how many bytes of them may be on the device."""

    _registered: weakref.WeakValueDictionary[int, Evictable] = weakref.WeakValueDictionary()  # by storage, of all pools

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
        if storage._cdata in self._registered:
            raise ValueError("register: another scheduler moves the tensor, or one that has a view of it")

    def register(self, tensor: torch.Tensor) -> Evictable:
        storage = tensor.untyped_storage() if tensor.layout == torch.strided else None
        if storage is None or storage._cdata not in self._entries:
            self._check(tensor)
            if storage is None:
                raise ValueError(f"register: expected a dense tensor, but got one of {tensor.layout}")
            entry = self._entries[storage._cdata] = self._registered[storage._cdata] = Evictable(tensor)
            entry._used = next(self._clock)
            self._mark(entry)
        entry = self._entries[storage._cdata]
        entry._registrations += 1
        self._shrink(0, keep=())
        return entry

    def find(self, uses: Iterable[Any]) -> tuple[Evictable, ...]:
        """The entries of tensors and of what `register` returned, each once."""
        found = {}
        for use in uses:
            storage = None
            if isinstance(use, Evictable):
                storage = use._storage
            elif isinstance(use, torch.Tensor) and use.layout == torch.strided:
                storage = use.untyped_storage()
            entry = self._entries.get(storage._cdata) if storage is not None else None
            if entry is None:
                raise ValueError("submit: expected uses of tensors that were registered and not released")
            found[id(entry)] = entry
        return tuple(found.values())

    def release(self, entry: Evictable) -> None:
        """Restore it, for the current stream too, and forget it when all of its registrations are released."""
        if not isinstance(entry, Evictable) or self._entries.get(entry._storage._cdata) is not entry:
            raise ValueError("release: expected what register returned, once for each call of it")
        if entry._running:
            raise RuntimeError(f"release: task {min(entry._running)} names the tensor and has not ended")
        self._restore(entry, ())
        self._wait_for((entry,))
        entry._registrations -= 1
        if entry._registrations == 0:
            self._forget(entry)

    def _forget(self, entry: Evictable) -> None:
        del self._entries[entry._storage._cdata]
        self._registered.pop(entry._storage._cdata, None)

    def close(self) -> None:
        """Restore all of them, above the limit too, and forget them. What does not fit stays registered."""
        for entry in self._entries.values():
            if entry._running:
                raise RuntimeError(f"close: task {min(entry._running)} names a registered tensor and has not ended")
        self._restore_all()

    def _restore_all(self) -> None:
        failure = None
        for entry in list(self._entries.values()):
            try:
                self._restore(entry, tuple(self._entries.values()))
            except Exception as error:
                failure = failure or error
                continue
            self._wait_for((entry,))
            self._forget(entry)
        if failure is not None:
            raise failure

    def __del__(self) -> None:
        """The scheduler is gone: nobody else would bring the tensors back, but what nobody has is not needed."""
        if sys.is_finalizing():
            return
        for key in list(self._entries):
            entry = self._entries[key]
            if sys.getrefcount(entry) > _OWN:
                continue  # somebody has it, and with it its tensor
            entry.tensor = entry._all
            if torch._C._storage_Use_Count(key) <= _OWN_STORAGE:
                self._forget(entry)
        self._restore_all()

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
        if not entry.resident or entry._running or not self._has_memory(entry) or self._is_held(entry):
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

    # Below, everything touches the device.

    def _mark(self, entry: Evictable) -> None:
        entry._ready = torch.aule.current_stream(self._index).record_event()

    def _wait_for(self, entries: tuple[Evictable, ...]) -> torch.Event | None:
        stream = torch.aule.current_stream(self._index)
        for entry in entries:
            stream.wait_event(entry._ready)
        return stream.record_event()

    def _has_memory(self, entry: Evictable) -> bool:
        entry.bytes = entry._storage.nbytes()  # a task may have resized it
        return entry.bytes != 0

    def _is_held(self, entry: Evictable) -> bool:
        return _C.in_a_graph(self._index, entry._storage.data_ptr(), entry.bytes)

    def _move_out(self, entry: Evictable) -> torch.Tensor:
        torch.aule.current_stream(self._index).wait_event(entry._ready)
        entry._all = _bytes_of(entry._storage)
        host = _C.pinned_bytes(entry.bytes, self._index)
        host.copy_(entry._all)  # waits: what is released below may be used by others at once
        _C.release_storage(entry._all)
        return host

    def _move_in(self, entry: Evictable) -> None:
        _C.restore_storage(entry._all)
        try:
            entry._all.copy_(entry._host)  # type: ignore[arg-type]  # it is out, and so has a copy
        except BaseException:
            _C.release_storage(entry._all)
            raise


class SimulatedPool(EvictionPool):
    """The same of a simulation: what would move is counted, and stays where it is."""

    _registered: weakref.WeakValueDictionary[int, Evictable] = weakref.WeakValueDictionary()

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
        tasks that name it in their `uses`, and their results are not to be views of it. Elsewhere whatever needs its
        values raises ``RuntimeError`` while it is not on the device: operators, copies, files, capsules, its address.
        What a captured graph has used stays on the device. A scheduler that is closed, or gone, has brought it back.

        Parameters
        ----------
        tensor : torch.Tensor
            Dense, on the scheduler's device.

        Returns
        -------
        Evictable
            For `uses`, as is the tensor itself. The same for all views; each call wants a :meth:`release`.

        Raises
        ------
        RuntimeError
            Without :meth:`enable_eviction`.
        ValueError
            If it is on another device, its storage cannot be resized, or another scheduler moves it.
        """
        return self._eviction("register").register(tensor)

    def release(self, entry: Evictable) -> None:
        """Bring a registered tensor back: for good, once it and its views have been released as often as registered.

        Parameters
        ----------
        entry : Evictable
            Of :meth:`register`.

        Raises
        ------
        RuntimeError
            If a running task uses it.
        ValueError
            If it was released that often before.
        """
        self._eviction("release").release(entry)

    def eviction_stats(self) -> dict[str, int]:
        """The number of times that tensors were moved.

        Returns
        -------
        dict
            spilled, restored, bytes_spilled, bytes_restored, and resident_bytes of registered tensors.
        """
        pool = self._eviction("eviction_stats")
        return pool.counts | {"resident_bytes": pool.resident_bytes()}
