"""Steps that are recorded once for each size of batch, and replayed."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch

from torch_aule.llm.slots import Slots

__all__ = ["Recorder"]

BUCKETS = (1, 2, 4, 8, 16, 32)


class Recorder:
    """Runs steps by replays of graphs that share their memory.

    A model that waits for the device, such as one that reads a length to choose its rotary angles, cannot be recorded:
    its steps run one kernel after the other, and a warning says so once.

    Parameters
    ----------
    run : callable
        ``run(batch, mode)``: a step of the first slots.
    slots : Slots
        That a step reads and writes.
    enabled : bool
        Whether steps are recorded.
    """

    def __init__(self, run: Callable[[int, str], None], slots: Slots, enabled: bool):
        self._run, self._slots, self._enabled = run, slots, enabled
        self._graphs: dict[tuple[int, str], object] = {}
        self._pool = torch.aule.graph_pool_handle() if enabled else None
        most = len(slots.requests)
        self.buckets = [*(bucket for bucket in BUCKETS if bucket < most), most]

    def bucket(self, running: int) -> int:
        """The smallest size of batch that has room.

        Parameters
        ----------
        running : int
            Slots in use.

        Returns
        -------
        int
            The size.
        """
        return next(bucket for bucket in self.buckets if bucket >= running)

    def record(self, batch: int, mode: str) -> None:
        """Record a step, unless that has been done. Sequences that run are not changed by it.

        Parameters
        ----------
        batch : int
            Size of the batch.
        mode : str
            How tokens are drawn.
        """
        if not self._enabled or (batch, mode) in self._graphs:
            return
        graph = torch.aule.Graph()
        with self._slots.nobody():
            self._run(batch, mode)  # kernels are made, and caches of constants filled
            try:
                with torch.aule.graph(graph, pool=self._pool):
                    self._run(batch, mode)
            except RuntimeError as error:
                self._enabled = False
                warnings.warn(
                    f"torch_aule.llm: this model's steps cannot be recorded, and run slower ({error})", stacklevel=2
                )
                return
        self._graphs[batch, mode] = graph

    def step(self, batch: int, mode: str) -> None:
        """Run a step, recorded or not.

        Parameters
        ----------
        batch : int
            Size of the batch.
        mode : str
            How tokens are drawn.
        """
        self.record(batch, mode)
        graph = self._graphs.get((batch, mode)) if self._enabled else None
        if graph is None:
            self._run(batch, mode)
        else:
            graph.replay()
