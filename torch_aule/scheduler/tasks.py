"""Classes of service, tasks and why one is refused."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

from torch_aule import _C

if TYPE_CHECKING:
    from torch_aule.scheduler import Scheduler

_ROWS = {row[0]: row for row in _C.qos_policies}


class QoS(str, enum.Enum):
    """Classes of service, by their numbers in ``csrc/runtime/scheduler.h``.

    ``Guaranteed`` has priority 100, its tasks' estimates of memory may reach all of the memory and their shares of
    bandwidth 1; ``Burstable`` 50, 1.5 of it and 0.8; ``BestEffort`` 0, 2.0 and 0.5. The first two hold what they ask
    for from their submission on. Each is equal to its name there, such as ``"best_effort"``.
    """

    Guaranteed = "guaranteed"
    Burstable = "burstable"
    BestEffort = "best_effort"

    @property
    def priority(self) -> int:
        """Of its tasks, unless they say otherwise."""
        return _ROWS[self.value][1]

    @property
    def memory_overcommit(self) -> float:
        """Multiple of the memory that estimates may reach."""
        return _ROWS[self.value][2]

    @property
    def bandwidth(self) -> float:
        """Sum that shares of bandwidth may reach."""
        return _ROWS[self.value][3]

    @property
    def reserves(self) -> bool:
        """Whether a task holds what it asks for before it runs."""
        return _ROWS[self.value][4]


def policy_index(name: str, what: str = "scheduler") -> int:
    """The core's number of a class of service."""
    names = list(_ROWS)
    if name not in names:
        raise ValueError(f"{what}: expected policy one of {', '.join(names)}, but got {name!r}")
    return names.index(name)


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


class Task:
    """A task of a scheduler, made by :meth:`torch_aule.scheduler.Scheduler.task`.

    Parameters
    ----------
    scheduler : Scheduler
        Whose task it is.
    identity : int
        Of :meth:`torch_aule.scheduler.Scheduler.submit`.

    Attributes
    ----------
    id : int
        As given.
    """

    def __init__(self, scheduler: Scheduler, identity: int):
        self.id = identity
        self._scheduler = scheduler
        scheduler.stats(identity)  # raises if there is none

    def __repr__(self) -> str:
        return f"Task({self.id}, {self.state}, priority={self.priority})"

    @property
    def state(self) -> str:
        """PENDING (waits for others), QUEUED, RUNNING, COMPLETED, FAILED or CANCELLED."""
        return self._scheduler.stats(self.id)["state"]

    @property
    def priority(self) -> int:
        """Higher ones first."""
        return self._scheduler.stats(self.id)["priority"]

    @property
    def policy(self) -> QoS:
        """Its class of service."""
        return QoS(self._scheduler.stats(self.id)["policy"])

    @property
    def dependencies(self) -> tuple[int, ...]:
        """Tasks that must have completed before it starts."""
        return tuple(self._scheduler.stats(self.id)["dependencies"])

    @property
    def memory(self) -> int:
        """Bytes that it is estimated to need."""
        return self._scheduler.stats(self.id)["memory"]

    @property
    def wait_time(self) -> float:
        """Seconds from its submission to its start, its end or now."""
        return self._scheduler.stats(self.id)["wait_us"] * 1e-6

    @property
    def execution_time(self) -> float:
        """Seconds from its start to its end or now, by the host's clock."""
        return self._scheduler.stats(self.id)["run_us"] * 1e-6

    @property
    def result(self) -> Any:
        """See :meth:`torch_aule.scheduler.Scheduler.result`."""
        return self._scheduler.result(self.id)

    def cancel(self) -> bool:
        """Take it out of the queue; False if it has started."""
        return self._scheduler.cancel(self.id)
