"""The allocator's history, and snapshots with it, for PyTorch's memory viewer; ``torch.aule.memory`` has the names."""

from __future__ import annotations

import atexit
import os
import pickle
import sys
from typing import Any

import torch

from torch_aule import _C
from torch_aule.indices import DeviceLike, checked_index

__all__ = ["dump_snapshot", "record_memory_history", "snapshot"]

_CONTEXTS = (None, "state", "alloc", "all")  # in the order of csrc/runtime/memory_history.h
_watched = False


def _one_of(name: str, value: Any, known: tuple) -> None:
    if value not in known:
        raise ValueError(f"record_memory_history: {name} must be one of {known}, got {value!r}")


def record_memory_history(
    enabled: str | None = "all",
    context: str | None = "all",
    stacks: str = "all",
    max_entries: int = sys.maxsize,
    device: DeviceLike = None,
    clear_history: bool = False,
    skip_actions: list[str] | None = None,
) -> None:
    """Keep what the allocator does from now on, with the call stacks that asked for it, on every device.

    Parameters
    ----------
    enabled : {"all", "state", None}, default "all"
        ``"all"``: events, and the stacks of memory in use. ``"state"``: the stacks of memory in use alone. None:
        nothing any more; events are forgotten.
    context : {"all", "alloc", "state", None}, default "all"
        What has a stack: allocations and frees, allocations, memory in use, nothing.
    stacks : {"all", "python"}, default "all"
        ``"all"`` has frames of C++ too, which take PyTorch's unwinder (Linux on x86-64).
    max_entries : int, default sys.maxsize
        Of each device; beyond it an event takes the place of the oldest. One with its stack is some hundred bytes.
    device : torch.device, str or int, optional
        Checked, and otherwise passed over, as ``torch.cuda`` does: all devices are watched.
    clear_history : bool, default False
        Forget events from before.
    skip_actions : list of str, optional
        Actions that make no event: of alloc, free_requested, free_completed, segment_alloc, segment_free, oom and
        snapshot.

    Raises
    ------
    ValueError
        If an argument is none of those named.
    RuntimeError
        If the device does not exist, or frames of C++ cannot be had here.

    Notes
    -----
    Gathering the stack of an allocation takes some 2 us with frames of Python alone. Without a history the allocator
    looks at one flag.

    Examples
    --------
    >>> torch.aule.memory._record_memory_history(stacks="python", max_entries=100_000)
    >>> model(x).sum().backward()
    >>> torch.aule.memory._dump_snapshot("memory.pickle")  # python -m torch.cuda._memory_viz trace memory.pickle
    >>> torch.aule.memory._record_memory_history(None)
    """
    _one_of("enabled", enabled, (None, "state", "all"))
    _one_of("context", context, _CONTEXTS)
    _one_of("stacks", stacks, ("python", "all"))
    for action in skip_actions or ():
        _one_of("each of skip_actions", action, tuple(_C.memory_actions))
    if not isinstance(max_entries, int) or isinstance(max_entries, bool) or max_entries < 1:
        raise ValueError(f"record_memory_history: max_entries must be a number of events from 1, got {max_entries!r}")
    if device is not None:
        checked_index(device)
    if enabled is None:
        _C.stop_memory_history()
        return
    global _watched
    if not _watched:  # no stack can be gathered once the interpreter is gone, and tensors may go later
        atexit.register(_C.stop_memory_history)
        _watched = True
    level = _CONTEXTS.index(context)
    if enabled == "state":
        level, max_entries = min(level, 1), 0
    _C.start_memory_history(level, stacks == "all", max_entries, skip_actions or [], not clear_history)


def snapshot(device: DeviceLike = None, augment_with_fx_traces: bool = False) -> dict[str, Any]:
    """The allocator's segments and what is kept of its history, in the form of ``torch.cuda.memory._snapshot``.

    Parameters
    ----------
    device : torch.device, str or int, optional
        Checked, and otherwise passed over: a snapshot has all devices.
    augment_with_fx_traces : bool, default False
        Add the model's own lines to frames of code that torch.fx generated.

    Returns
    -------
    dict
        segments (as :func:`memory_snapshot`, with the frames of those that were allocated while the history was
        kept), device_traces (a list of events for each device, each with action, addr, size, stream, pool_id, time_us
        and frames; of ``"oom"`` device_free in place of addr), allocator_settings and external_annotations.

    Raises
    ------
    RuntimeError
        If the device does not exist.
    """
    if device is not None:
        checked_index(device)
    segments, traces = _C.memory_history(_C.device_count() if _C.is_initialized() else 0)
    found = {
        "segments": segments,
        "device_traces": traces,
        "allocator_settings": {"expandable_segments": False},
        "external_annotations": [],
    }
    if augment_with_fx_traces:
        found = dict(torch._utils._augment_memory_snapshot_stack_traces(found))  # type: ignore[arg-type]
    return found


def dump_snapshot(filename: str | os.PathLike = "dump_snapshot.pickle", augment_with_fx_traces: bool = False) -> None:
    """Write :func:`snapshot` for https://pytorch.org/memory_viz or ``python -m torch.cuda._memory_viz``.

    Parameters
    ----------
    filename : str or os.PathLike, default "dump_snapshot.pickle"
        What is written.
    augment_with_fx_traces : bool, default False
        As there.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    with open(filename, "wb") as file:
        pickle.dump(snapshot(augment_with_fx_traces=augment_with_fx_traces), file)
