"""Copies between host and device beside the device's other work, with priorities.

The engine is C++ (``csrc/runtime/transfers.h``). It has a stream for each direction, stages pageable memory through
pinned memory, and cuts copies into pieces, so that a transfer of higher priority overtakes others between two pieces.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from torch_aule import _C
from torch_aule.indices import DeviceLike, checked_index

__all__ = ["Transfer", "TransferEngine"]


class Transfer:
    """A copy that an engine was given, made by :meth:`TransferEngine.enqueue`.

    Parameters
    ----------
    core : object
        The engine's C++ object.
    identity : int
        Its name for the copy.
    size : int
        Bytes.

    Attributes
    ----------
    bytes : int
        As given.
    """

    def __init__(self, core: Any, identity: int, size: int):
        self._core, self._id, self.bytes = core, identity, size

    def __repr__(self) -> str:
        return f"Transfer({self._id}, {self.bytes} bytes, {self.state})"

    @property
    def state(self) -> str:
        """QUEUED, RUNNING, COMPLETED or CANCELLED."""
        return self._core.state(self._id)

    def wait(self) -> None:
        """Wait until it has ended. Then the host, and work submitted from now on, find the copy.

        Raises
        ------
        RuntimeError
            If the device was lost, or a kernel has reported an error.
        """
        self._core.wait(self._id)

    def cancel(self) -> bool:
        """Take it out of the queue; False if a part of it was copied or is being copied."""
        return self._core.cancel(self._id)


class TransferEngine:
    """Copies tensors between host and device in the order of their priority.

    Transfers move on in each call of the engine and of its transfers, and in each step of a scheduler that has it. None
    of these waits for the device but :meth:`Transfer.wait` and :meth:`synchronize`.

    Parameters
    ----------
    device : torch.device, str or int, optional
        Default: the current device.
    piece_bytes : int, default 8 MiB
        Of one copy command, and of each staging buffer.
    depth : int, default 2
        Pieces of a direction that are on the device at the same time: one is copied while the host stages the next.

    Raises
    ------
    ValueError
        If `piece_bytes` or `depth` is below 1.
    """

    def __init__(self, device: DeviceLike = None, *, piece_bytes: int = 8 << 20, depth: int = 2):
        if piece_bytes < 1 or depth < 1:
            raise ValueError(
                f"TransferEngine: expected piece_bytes and depth of at least 1, got {piece_bytes}, {depth}"
            )
        self._core = _C.TransferEngine(checked_index(device), piece_bytes, depth)

    def enqueue(self, src: torch.Tensor, dst: torch.Tensor, priority: int = 0) -> Transfer:
        """Copy a tensor, behind the work that the current stream has been given so far.

        Parameters
        ----------
        src : torch.Tensor
            Contiguous. Not to be changed until the transfer has ended: it may be read late.
        dst : torch.Tensor
            Contiguous, of the same dtype and shape; one of the two on the device, the other on the CPU, pinned or not.
        priority : int, default 0
            Higher ones first, equal ones by age.

        Returns
        -------
        Transfer
            To wait for, or to cancel.

        Raises
        ------
        ValueError
            If the tensors are not as above.
        RuntimeError
            If `dst` requires a gradient, a tensor is lazily conjugated or negated, or the current stream captures a
            graph.
        """
        return self._enqueue(src, dst, priority, 0)

    def _enqueue(self, src: torch.Tensor, dst: torch.Tensor, priority: int, owner: int) -> Transfer:
        return Transfer(self._core, self._core.enqueue(dst, src, priority, owner), dst.nbytes)

    def advance(self) -> None:
        """Issue what may be issued, and note what has ended, without waiting."""
        self._core.advance()

    def synchronize(self) -> None:
        """Wait for all transfers.

        Raises
        ------
        RuntimeError
            If the device was lost, or a kernel has reported an error.
        """
        self._core.synchronize()

    def stats(self) -> dict[str, dict[str, Any]]:
        """Counts of each direction.

        Returns
        -------
        dict
            For ``to_device`` and ``to_host``: transfers queued, running, completed and cancelled, deepest_queue, bytes
            copied, and seconds in which the direction had work on the device, as far as calls have looked.
        """
        return self._core.stats()

    def measure_overlap(self, work: Callable[[], Any], src: torch.Tensor, dst: torch.Tensor) -> dict[str, float]:
        """The share of a copy that is hidden behind other work.

        Parameters
        ----------
        work : callable
            Enqueues work on the current stream; it should take about as long as the copy.
        src, dst : torch.Tensor
            As for :meth:`enqueue`.

        Returns
        -------
        dict
            work_ms, copy_ms and both_ms, by the host's clock after a first run of each, and hidden: the share of the
            shorter one that the other covers, 0 to 1.
        """

        def once(with_work: bool, with_copy: bool) -> float:
            torch.aule.synchronize()
            start = time.perf_counter()
            transfer = self.enqueue(src, dst) if with_copy else None
            if with_work:
                work()
            if transfer is not None:
                transfer.wait()
            torch.aule.synchronize()
            return (time.perf_counter() - start) * 1e3

        once(True, True)
        work_ms, copy_ms, both_ms = once(True, False), once(False, True), once(True, True)
        hidden = (work_ms + copy_ms - both_ms) / max(min(work_ms, copy_ms), 1e-9)
        return {
            "work_ms": work_ms,
            "copy_ms": copy_ms,
            "both_ms": both_ms,
            "hidden": min(1.0, max(0.0, hidden)),
        }
