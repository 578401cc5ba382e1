"""``torch.aule.profiler``: where the device's time goes, and names for stretches of it.

The profiler itself is PyTorch's: ``torch.profiler.profile`` with ``ProfilerActivity.PrivateUse1`` shows the device time
of operators and kernels, and exports a trace with a row for each stream. This module has the short forms, under the
names of ``torch.cuda.nvtx``, ``torch.cuda.profiler`` and ``torch.mps.profiler``.
"""

from __future__ import annotations

import builtins
import contextlib
import threading
from collections.abc import Iterator

import torch

from torch_aule import _C

__all__ = ["mark", "profile", "range", "range_pop", "range_push", "start", "stop"]

_open = threading.local()
_running: list[tuple[torch.profiler.profile, str | None]] = []


def profile(**options) -> torch.profiler.profile:
    """``torch.profiler.profile`` of the host and of this device.

    Parameters
    ----------
    **options
        Of ``torch.profiler.profile``; `activities` is ``{CPU, PrivateUse1}`` unless given.

    Returns
    -------
    torch.profiler.profile
        A context. ``key_averages().table(sort_by="self_device_time_total")`` prints device times in microseconds,
        ``export_chrome_trace(path)`` writes a trace for https://ui.perfetto.dev or ``chrome://tracing``. Its kernels
        say their share of what the device can reach, if ``python -m torch_aule.benchmark roof`` has measured that.

    Examples
    --------
    >>> with torch.aule.profiler.profile() as p:
    ...     model(x).sum().backward()
    >>> print(p.key_averages().table(sort_by="self_device_time_total", row_limit=10))
    """
    kinds = torch.profiler.ProfilerActivity
    options.setdefault("activities", [kinds.CPU, kinds.PrivateUse1])
    _tell_roofs()
    return torch.profiler.profile(**options)


def _tell_roofs() -> None:
    """Give traces what was measured of each device, so that kernels say their share of it."""
    from torch_aule.measure import roof

    for index in builtins.range(_C.device_count()):
        found = roof.load(index)
        _C.set_roof(index, found.bandwidth if found else 0.0, found.rates if found else {})


def start(path: str | None = None) -> None:
    """Begin a trace of the host and of this device; :func:`stop` ends it.

    Parameters
    ----------
    path : str, optional
        Where :func:`stop` writes the trace (``.json`` or ``.json.gz``).

    Raises
    ------
    RuntimeError
        If a trace was started and not stopped.
    """
    if _running:
        raise RuntimeError("torch.aule.profiler.start: a trace is being taken; call stop() first")
    trace = profile()
    trace.start()
    _running.append((trace, path))


def stop() -> torch.profiler.profile:
    """End the trace that :func:`start` began, and write it if a path was given.

    Returns
    -------
    torch.profiler.profile
        With the results: ``key_averages()``, ``events()``.

    Raises
    ------
    RuntimeError
        If none was started.
    """
    if not _running:
        raise RuntimeError("torch.aule.profiler.stop: no trace is being taken; call start() first")
    trace, path = _running.pop()
    trace.stop()
    if path is not None:
        trace.export_chrome_trace(path)
    return trace


def range_push(name: str) -> int:
    """Open a range on this thread: a label around what it records from now on.

    It is a row of ``torch.profiler``'s trace, on the host and on each stream that worked in it, and a region of the
    command buffers for RenderDoc, Nsight and RGP (where VK_EXT_debug_utils is enabled).

    Parameters
    ----------
    name : str
        What is shown.

    Returns
    -------
    int
        How many ranges are open around it.
    """
    ranges = _open.__dict__.setdefault("ranges", [])
    context = torch.autograd.profiler.record_function(name)
    context.__enter__()
    _C.push_label(name)
    ranges.append(context)
    return len(ranges) - 1


def range_pop() -> int:
    """Close the range that was opened last on this thread.

    Returns
    -------
    int
        How many ranges are open around it.

    Raises
    ------
    RuntimeError
        If no range is open.
    """
    ranges = _open.__dict__.setdefault("ranges", [])
    if not ranges:
        raise RuntimeError("torch.aule.profiler.range_pop: no range is open on this thread")
    _C.pop_label()
    ranges.pop().__exit__(None, None, None)
    return len(ranges)


@contextlib.contextmanager
def range(name: str) -> Iterator[None]:
    """A range around a block, as a context or a decorator.

    Parameters
    ----------
    name : str
        What is shown.

    Returns
    -------
    context manager
        On exit the range is closed.
    """
    range_push(name)
    try:
        yield
    finally:
        range_pop()


def mark(name: str) -> None:
    """A moment: an empty range.

    Parameters
    ----------
    name : str
        What is shown.
    """
    range_push(name)
    range_pop()
