"""Operators that ran on the CPU for want of a kernel: the report, and refusing them (strict mode)."""

from __future__ import annotations

from contextlib import contextmanager
from typing import NamedTuple

from torch_aule import _C

__all__ = ["FallbackEntry", "fallback_report", "is_strict", "reset_fallback_report", "set_strict", "strict"]


class FallbackEntry(NamedTuple):
    """One operator of :func:`fallback_report`.

    Attributes
    ----------
    op : str
        Full name, such as ``"aten::_fft_r2c"``.
    count : int
        Calls that ran on the CPU.
    first_arguments : str
        Names, dtypes and shapes of what the first of them was given.
    """

    op: str
    count: int  # type: ignore[assignment]  # tuples have a method of this name
    first_arguments: str


def fallback_report() -> list[FallbackEntry]:
    """Operators that ran on the CPU since the start, or the last reset: name, calls, arguments of the first call."""
    entries = [FallbackEntry(*entry) for entry in _C.fallback_report()]
    return sorted(entries, key=lambda entry: (-entry.count, entry.op))


def reset_fallback_report() -> None:
    """Forget the counts."""
    _C.reset_fallback_report()


def is_strict() -> bool:
    """Whether an operator without a kernel raises instead of running on the CPU."""
    return _C.is_strict()


def set_strict(enabled: bool | None) -> None:
    """Turn strict mode on or off for the process.

    Parameters
    ----------
    enabled : bool, optional
        Whether an operator without a kernel raises instead of running on the CPU. None goes back to what the variable
        ``TORCH_AULE_STRICT`` said when the process began.
    """
    _C.set_strict(enabled)


@contextmanager
def strict(enabled: bool = True):
    """Context in which strict mode is on or off. The setting is the process's, not the thread's.

    Parameters
    ----------
    enabled : bool, default True
        Whether an operator without a kernel raises instead of running on the CPU.

    Returns
    -------
    context manager
        On exit the setting is what it was on entry.
    """
    before = _C.is_strict()
    _C.set_strict(enabled)
    try:
        yield
    finally:
        _C.set_strict(before)
