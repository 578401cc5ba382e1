"""Statistics of the caching allocator, and its control. Names and keys are those of ``torch.cuda``."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from torch_aule import _C
from torch_aule.backend.memory_history import dump_snapshot, record_memory_history, snapshot
from torch_aule.indices import DeviceLike, checked_index

__all__ = [
    "dump_snapshot",
    "empty_cache",
    "get_per_process_memory_fraction",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
    "ipc_collect",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "recommended_max_memory",
    "record_memory_history",
    "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_max_memory_reserved",
    "reset_peak_host_memory_stats",
    "reset_peak_memory_stats",
    "set_per_process_memory_fraction",
    "snapshot",
]

# As torch.cuda.memory has them.
_record_memory_history = record_memory_history
_snapshot = snapshot
_dump_snapshot = dump_snapshot


def empty_cache() -> None:
    """Give segments that hold no tensor back to the driver, on every device."""
    if _C.is_initialized():
        for index in range(_C.device_count()):
            _C.empty_cache(index)


def ipc_collect() -> None:
    """Does nothing: memory of this device is never shared between processes. Here for programs that call it."""


def memory_stats(device: DeviceLike = None) -> dict[str, Any]:
    """Statistics of the allocator, with the keys of ``torch.cuda.memory_stats``.

    Parameters
    ----------
    device : torch.device, str or int, optional
        Default: the current device.

    Returns
    -------
    dict
        Such as ``"allocated_bytes.all.peak"`` (bytes) and ``"num_ooms"``, sorted; empty before a device is first used.

    Raises
    ------
    RuntimeError
        If the device does not exist.
    TypeError, ValueError
        If `device` names no device of this backend.
    """
    if not _C.is_initialized():
        return OrderedDict()
    return OrderedDict(sorted(_C.memory_stats(checked_index(device)).items()))


def memory_stats_as_nested_dict(device: DeviceLike = None) -> dict[str, Any]:
    """The same numbers as :func:`memory_stats`, nested at the dots of their keys.

    Parameters
    ----------
    device : torch.device, str or int, optional
        Default: the current device.

    Returns
    -------
    dict
        Such as ``stats["allocated_bytes"]["all"]["peak"]``; empty before a device is first used.

    Raises
    ------
    RuntimeError
        If the device does not exist.
    TypeError, ValueError
        If `device` names no device of this backend.
    """
    return _nested(memory_stats(device))


def _nested(stats: dict[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for key, value in stats.items():
        *path, last = key.split(".")
        place = nested
        for part in path:
            place = place.setdefault(part, {})
        place[last] = value
    return nested


def _stat(key: str, device: DeviceLike) -> int:
    return memory_stats(device).get(key, 0)


def memory_allocated(device: DeviceLike = None) -> int:
    """Bytes that tensors hold on a device now.

    Parameters
    ----------
    device : torch.device, str or int, optional
        Default: the current device.

    Returns
    -------
    int
        Bytes, with what the allocator adds to round blocks up; 0 before a device is first used. See
        :func:`memory_reserved` for what the process holds.

    Raises
    ------
    RuntimeError
        If the device does not exist.
    TypeError, ValueError
        If `device` names no device of this backend.
    """
    return _stat("allocated_bytes.all.current", device)


def max_memory_allocated(device: DeviceLike = None) -> int:
    """Most bytes that tensors have held since the start or the last :func:`reset_peak_memory_stats`.

    Parameters
    ----------
    device : torch.device, str or int, optional
        Default: the current device.

    Returns
    -------
    int
        Bytes; 0 before a device is first used.

    Raises
    ------
    RuntimeError
        If the device does not exist.
    TypeError, ValueError
        If `device` names no device of this backend.
    """
    return _stat("allocated_bytes.all.peak", device)


def memory_reserved(device: DeviceLike = None) -> int:
    """Bytes that the allocator holds from the driver, used or cached.

    Parameters
    ----------
    device : torch.device, str or int, optional
        Default: the current device.

    Returns
    -------
    int
        Bytes; 0 before a device is first used. :func:`empty_cache` gives back what no tensor uses.

    Raises
    ------
    RuntimeError
        If the device does not exist.
    TypeError, ValueError
        If `device` names no device of this backend.
    """
    return _stat("reserved_bytes.all.current", device)


def max_memory_reserved(device: DeviceLike = None) -> int:
    """Most bytes held from the driver since the start or the last :func:`reset_peak_memory_stats`.

    Parameters
    ----------
    device : torch.device, str or int, optional
        Default: the current device.

    Returns
    -------
    int
        Bytes; 0 before a device is first used.

    Raises
    ------
    RuntimeError
        If the device does not exist.
    TypeError, ValueError
        If `device` names no device of this backend.
    """
    return _stat("reserved_bytes.all.peak", device)


def reset_peak_memory_stats(device: DeviceLike = None) -> None:
    """Set every peak of a device's statistics to the current value.

    Parameters
    ----------
    device : torch.device, str or int, optional
        Default: the current device.

    Raises
    ------
    RuntimeError
        If the device does not exist.
    TypeError, ValueError
        If `device` names no device of this backend.
    """
    if _C.is_initialized():
        _C.reset_peak_stats(checked_index(device))


def reset_accumulated_memory_stats(device: DeviceLike = None) -> None:
    """Set the counters that only grow (allocated, freed, retries, out-of-memory errors) to zero.

    Parameters
    ----------
    device : torch.device, str or int, optional
        Default: the current device.

    Raises
    ------
    RuntimeError
        If the device does not exist.
    TypeError, ValueError
        If `device` names no device of this backend.
    """
    if _C.is_initialized():
        _C.reset_accumulated_stats(checked_index(device))


reset_max_memory_allocated = reset_peak_memory_stats
reset_max_memory_reserved = reset_peak_memory_stats
# The names that torch.cuda had before "reserved", which old programs still call.
memory_cached = memory_reserved
max_memory_cached = max_memory_reserved
reset_max_memory_cached = reset_peak_memory_stats


def host_memory_stats() -> dict[str, Any]:
    """Statistics of pinned host memory.

    Returns
    -------
    dict
        ``"allocations"`` and ``"allocated_bytes"`` (held from the driver), ``"active_requests"`` and
        ``"active_bytes"`` (in tensors), each with ``.current``, ``.peak``, ``.allocated`` and ``.freed``; sorted.
    """
    return OrderedDict(sorted(_C.host_memory_stats().items()))


def host_memory_stats_as_nested_dict() -> dict[str, Any]:
    """The same numbers as :func:`host_memory_stats`, nested at the dots of their keys.

    Returns
    -------
    dict
        Such as ``stats["allocated_bytes"]["peak"]``.
    """
    return _nested(host_memory_stats())


def reset_peak_host_memory_stats() -> None:
    """Set the peaks of :func:`host_memory_stats` to the current values."""
    _C.reset_peak_host_stats()


def reset_accumulated_host_memory_stats() -> None:
    """Set the counters of :func:`host_memory_stats` that only grow to zero."""
    _C.reset_accumulated_host_stats()


def mem_get_info(device: DeviceLike = None) -> tuple[int, int]:
    """Free and total memory of a device.

    Parameters
    ----------
    device : torch.device, str or int, optional
        Default: the current device.

    Returns
    -------
    (int, int)
        Bytes. What is free is the driver's budget less what is in use; a driver without VK_EXT_memory_budget does not
        tell what other programs take, and this process alone is counted.

    Raises
    ------
    RuntimeError
        If the device does not exist.
    TypeError, ValueError
        If `device` names no device of this backend.
    """
    free, total = _C.mem_get_info(checked_index(device))
    return free, total


def recommended_max_memory(device: DeviceLike = None) -> int:
    """Bytes that can be used without pushing other programs out: the total that the driver reports.

    Parameters
    ----------
    device : torch.device, str or int, optional
        Default: the current device.

    Returns
    -------
    int
        The second number of :func:`mem_get_info`.

    Raises
    ------
    RuntimeError
        If the device does not exist.
    TypeError, ValueError
        If `device` names no device of this backend.
    """
    return mem_get_info(device)[1]


def set_per_process_memory_fraction(fraction: float, device: DeviceLike = None) -> None:
    """Let this process reserve at most a fraction of the device's memory.

    An allocation beyond it raises ``torch.OutOfMemoryError``, after cached segments have been given back.

    Parameters
    ----------
    fraction : float
        From 0, where nothing more can be reserved, to 1.
    device : torch.device, str or int, optional
        Default: the current device.

    Raises
    ------
    TypeError, ValueError
        If `fraction` is no number, or not between 0 and 1, or if `device` names no device of this backend.
    RuntimeError
        If the device does not exist.
    """
    if not isinstance(fraction, (int, float)) or isinstance(fraction, bool):
        raise TypeError(f"fraction must be a number, got {type(fraction).__name__}")
    if not 0 <= fraction <= 1:
        raise ValueError(f"fraction must be between 0 and 1, got {fraction}")
    _C.set_memory_fraction(float(fraction), checked_index(device))


def get_per_process_memory_fraction(device: DeviceLike = None) -> float:
    """The fraction of memory that :func:`set_per_process_memory_fraction` allows this process.

    Parameters
    ----------
    device : torch.device, str or int, optional
        Default: the current device.

    Returns
    -------
    float
        From 0 to 1; 1.0 if none was set.

    Raises
    ------
    RuntimeError
        If the device does not exist.
    TypeError, ValueError
        If `device` names no device of this backend.
    """
    return _C.get_memory_fraction(checked_index(device))


def memory_snapshot(device: DeviceLike = None) -> list[dict[str, Any]]:
    """The allocator's segments and their blocks.

    Parameters
    ----------
    device : torch.device, str or int, optional
        Default: all devices.

    Returns
    -------
    list of dict
        Each segment has device, address, total_size, allocated_size, active_size (bytes), stream, segment_type
        (``"small"`` or ``"large"``) and blocks, each with address, size, requested_size, state and frames (see
        :func:`record_memory_history`). Empty before a device is first used.

    Raises
    ------
    RuntimeError
        If the device does not exist.
    TypeError, ValueError
        If `device` names no device of this backend.
    """
    if not _C.is_initialized():
        return []
    indices = range(_C.device_count()) if device is None else [checked_index(device)]
    return [segment for index in indices for segment in _C.memory_snapshot(index)]


def _bytes(n: int) -> str:
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if abs(n) >= 10 * size or (unit == "KiB" and abs(n) >= size):
            return f"{n / size:.1f} {unit}"
    return f"{n} B"


def memory_summary(device: DeviceLike = None, abbreviated: bool = False) -> str:
    """The allocator's state as a table.

    Parameters
    ----------
    device : torch.device, str or int, optional
        Default: the current device.
    abbreviated : bool, default False
        Only the totals, without the split into small and large blocks.

    Returns
    -------
    str
        Lines for a person to read.

    Raises
    ------
    RuntimeError
        If the device does not exist.
    TypeError, ValueError
        If `device` names no device of this backend.
    """
    index = checked_index(device)
    stats = memory_stats(index)
    rows: list[tuple[str, str, Callable[[int], str]]] = [
        ("allocated memory", "allocated_bytes", _bytes),
        ("active memory", "active_bytes", _bytes),
        ("requested memory", "requested_bytes", _bytes),
        ("reserved memory", "reserved_bytes", _bytes),
        ("inactive split memory", "inactive_split_bytes", _bytes),
        ("allocations", "allocation", str),
        ("active blocks", "active", str),
        ("segments", "segment", str),
        ("inactive splits", "inactive_split", str),
    ]
    pools = [("all", "")] if abbreviated else [("all", ""), ("small_pool", "  small"), ("large_pool", "  large")]
    head = f"{'':24}{'current':>14}{'peak':>14}{'total':>14}{'freed':>14}"
    line = "-" * len(head)
    out = [f"Memory of aule:{index} ({_C.device_properties(index)['name']})", line, head, line]
    for title, key, show in rows:
        if f"{key}.all.current" not in stats:
            continue
        for pool, label in pools:
            cells = (stats.get(f"{key}.{pool}.{what}", 0) for what in ("current", "peak", "allocated", "freed"))
            out.append(f"{label or title:24}" + "".join(f"{show(cell):>14}" for cell in cells))
    out.append(line)
    out.append(
        f"out of memory: {stats.get('num_ooms', 0)}   "
        f"retries after releasing the cache: {stats.get('num_alloc_retries', 0)}"
    )
    return "\n".join(out)
