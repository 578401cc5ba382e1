"""The host's clock."""

from __future__ import annotations

import time

import torch

__all__ = ["Stopwatch", "synchronize"]


def synchronize(device: torch.device) -> None:
    """Wait for what a device was given; the CPU has done it."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


class Stopwatch:
    """Seconds since it was made.

    Parameters
    ----------
    device : torch.device, optional
        The device is waited for now and before each reading, so that the time is that of its work too.

    Examples
    --------
    >>> watch = Stopwatch(torch.device("aule"))
    >>> model(x)
    >>> watch.seconds
    """

    def __init__(self, device: torch.device | None = None):
        self._device = device
        self._wait()
        self._start = time.perf_counter()

    def _wait(self) -> None:
        if self._device is not None:
            synchronize(self._device)

    @property
    def seconds(self) -> float:
        """Seconds until now."""
        self._wait()
        return time.perf_counter() - self._start
