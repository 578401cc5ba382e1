"""Transfers of a simulation: the host copies at once."""

from __future__ import annotations

from typing import Any

import torch

from torch_aule.backend.transfers import Transfer


class SimulatedTransfers:
    """The interface of :class:`torch_aule.transfers.TransferEngine`, without a device: each transfer has ended."""

    def __init__(self) -> None:
        self._completed = self._bytes = 0

    def enqueue(self, src: torch.Tensor, dst: torch.Tensor, priority: int = 0) -> Transfer:
        return self._enqueue(src, dst, priority, 0)

    def _enqueue(self, src: torch.Tensor, dst: torch.Tensor, priority: int, owner: int) -> Transfer:
        if src.shape != dst.shape or src.dtype != dst.dtype:
            raise ValueError("TransferEngine.enqueue: expected dst and src of one dtype and shape")
        dst.copy_(src)
        self._completed += 1
        self._bytes += dst.nbytes
        return Transfer(self, self._completed, dst.nbytes)

    def stats(self) -> dict[str, dict[str, Any]]:
        row = dict.fromkeys(("queued", "running", "completed", "cancelled", "deepest_queue", "bytes"), 0)
        rows: dict[str, dict[str, Any]] = {way: {**row, "seconds": 0.0} for way in ("to_device", "to_host")}
        rows["to_device"].update(completed=self._completed, bytes=self._bytes)
        return rows

    def advance(self) -> None:
        pass

    synchronize = advance

    # Asked by transfers and by a context's partition, of the engine's core.
    @property
    def _core(self) -> SimulatedTransfers:
        return self

    def pending(self, owner: int) -> int:
        return 0

    def state(self, identity: int) -> str:
        return "COMPLETED"

    def wait(self, identity: int) -> None:
        pass

    def cancel(self, identity: int) -> bool:
        return False
