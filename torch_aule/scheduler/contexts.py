"""Contexts of a scheduler: streams, quotas and shares of their own."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from torch_aule import _C
from torch_aule.backend.streams import Stream, in_flight, set_in_flight_limit
from torch_aule.scheduler.tasks import QoS

if TYPE_CHECKING:
    from torch_aule.scheduler import Scheduler

_POOL = 32


@dataclasses.dataclass(frozen=True)
class Partition:
    """A context's share of the device and its pending work: :attr:`Context.partition`.

    Parameters
    ----------
    memory_quota : int or None
        Bytes.
    memory_used : int
        Bytes that tensors of its streams hold.
    compute_share, bandwidth_share : float
        Of the device's time, and of the sum of its running tasks' bandwidth; 0 to 1.
    streams : tuple of torch.Stream
        Its own; empty in a simulation.
    pending_kernels : int
        Commands that its streams have recorded or submitted and not finished.
    pending_transfers : int
        Transfers that have not ended.
    """

    memory_quota: int | None
    memory_used: int
    compute_share: float
    bandwidth_share: float
    streams: tuple
    pending_kernels: int
    pending_transfers: int


@dataclasses.dataclass(frozen=True)
class ContextOptions:
    """The arguments of :meth:`torch_aule.scheduler.Scheduler.create_context`."""

    max_vram: int | None
    share: float
    bandwidth: float
    streams: int
    in_flight: int | None
    on_pressure: Callable[[Context], None] | None


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
    options : ContextOptions
        The rest.

    Attributes
    ----------
    name : str
        As given.
    policy : str
        Class of service of its tasks, unless they say otherwise.
    streams : tuple of torch.Stream
        Its own; empty in a simulation. Those of a guaranteed context have high priority.
    stream : torch.Stream or None
        The first of them, for ``with``.
    """

    def __init__(self, scheduler: Scheduler, identity: int, name: str, policy: str, options: ContextOptions):
        self.name, self.policy = name, policy
        self.streams: tuple = ()
        self._scheduler, self._id, self._options = scheduler, identity, options
        self._entered: list = []
        self._limits: dict[Any, int] = {}  # of batches in flight, before this context
        if not scheduler.simulated:
            self.streams = _own_streams(scheduler, options.streams, -1 if policy == QoS.Guaranteed else 0)
            if options.in_flight is not None:
                for stream in self.streams:
                    self._limits[stream] = in_flight(stream)["limit"]
                    set_in_flight_limit(options.in_flight, stream)
            if options.max_vram is not None:
                ids = [stream.stream_id for stream in self.streams]
                _C.set_stream_quota(scheduler._index, ids, options.max_vram, f"context '{name}'")
        self.stream = self.streams[0] if self.streams else None

    def usage(self) -> int:
        """Bytes that its tensors hold.

        Returns
        -------
        int
            Of tensors that were allocated on its streams; 0 in a simulation.
        """
        return sum(_C.stream_bytes(self._scheduler._index, stream.stream_id) for stream in self.streams)

    @property
    def partition(self) -> Partition:
        """The context's share of the device, and its pending work."""
        options, transfers = self._options, self._scheduler._transfers
        return Partition(
            options.max_vram,
            self.usage(),
            options.share,
            options.bandwidth,
            self.streams,
            sum(in_flight(stream)["commands"] for stream in self.streams),
            transfers._core.pending(self._id) if transfers is not None else 0,
        )

    def transfer(self, src: torch.Tensor, dst: torch.Tensor, priority: int | None = None) -> Any:
        """Copy a tensor between host and device, as :meth:`torch_aule.backend.transfers.TransferEngine.enqueue` does.

        Parameters
        ----------
        src, dst : torch.Tensor
            One on the device, one on the CPU. In a simulation both may be on the CPU.
        priority : int, optional
            Default: of the context's class.

        Returns
        -------
        torch_aule.backend.transfers.Transfer
            Each step of the scheduler moves it on.

        Raises
        ------
        ValueError
            If the tensors are not as the engine expects.
        """
        priority = QoS(self.policy).priority if priority is None else priority
        return self._scheduler.transfers._enqueue(src, dst, priority, self._id)

    def close(self) -> None:
        """End its quota and give its reservation back. Its tensors stay."""
        self._scheduler._close(self)

    def _release(self) -> None:
        for stream in self.streams:
            _C.clear_stream_quota(self._scheduler._index, stream.stream_id)
        for stream, limit in self._limits.items():
            set_in_flight_limit(limit, stream)

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


def _own_streams(scheduler: Scheduler, count: int, priority: int) -> tuple:
    used = {stream.stream_id for context in scheduler._contexts.values() for stream in context.streams}
    own: dict[int, torch.Stream] = {}
    for _ in range(2 * _POOL):  # PyTorch hands streams of a pool out in turn
        stream = Stream(scheduler._index, priority)
        if stream.stream_id not in used:
            own[stream.stream_id] = stream
        if len(own) == count:
            return tuple(own.values())
    raise RuntimeError(f"scheduler: fewer than {count} streams of the device's pool belong to no context")
