"""Transfers of a simulation: the host copies, in the order of their priority, one for each step."""

from __future__ import annotations

import itertools
from typing import Any

import torch

from torch_aule.backend.transfers import Transfer


class SimulatedTransfers:
    """What :class:`torch_aule.backend.transfers.TransferEngine` offers, without a device."""

    def __init__(self):
        self._core = self  # that of its transfers
        self._waiting: dict[int, tuple] = {}  # id: (owner, priority, src, dst)
        self._states: dict[int, str] = {}
        self._ids = itertools.count(1)
        self._rows = {way: dict.fromkeys(_COUNTS, 0) | {"seconds": 0.0} for way in ("to_device", "to_host")}

    def enqueue(self, src: torch.Tensor, dst: torch.Tensor, priority: int = 0) -> Transfer:
        return self._enqueue(src, dst, priority, 0)

    def _enqueue(self, src: torch.Tensor, dst: torch.Tensor, priority: int, owner: int) -> Transfer:
        if src.shape != dst.shape or src.dtype != dst.dtype:
            raise ValueError("TransferEngine.enqueue: expected dst and src of one dtype and shape")
        identity = next(self._ids)
        self._waiting[identity] = (owner, priority, src, dst)
        self._states[identity] = "QUEUED"
        row = self._rows["to_device"]
        row["queued"] += 1
        row["deepest_queue"] = max(row["deepest_queue"], row["queued"])
        return Transfer(self, identity, dst.nbytes)

    def advance(self) -> None:
        if not self._waiting:
            return
        identity = min(self._waiting, key=lambda i: (-self._waiting[i][1], i))
        _, _, src, dst = self._waiting[identity]
        dst.copy_(src)
        self._end(identity, "COMPLETED")
        self._rows["to_device"]["bytes"] += dst.nbytes

    def _end(self, identity: int, state: str) -> None:
        del self._waiting[identity]
        self._states[identity] = state
        self._rows["to_device"]["queued"] -= 1
        self._rows["to_device"][state.lower()] += 1

    def synchronize(self) -> None:
        while self._waiting:
            self.advance()

    def stats(self) -> dict[str, dict[str, Any]]:
        return {way: dict(row) for way, row in self._rows.items()}

    def pending(self, owner: int) -> int:
        return sum(row[0] == owner for row in self._waiting.values())

    def state(self, identity: int) -> str:
        return self._states[identity]

    def wait(self, identity: int) -> None:
        while identity in self._waiting:
            self.advance()

    def cancel(self, identity: int) -> bool:
        if identity not in self._waiting:
            return False
        self._end(identity, "CANCELLED")
        return True


_COUNTS = ("queued", "running", "completed", "cancelled", "deepest_queue", "bytes")
