"""Settings with which plans are made otherwise (``TORCH_AULE_OVERRIDES``)."""

from __future__ import annotations

import contextlib

from torch_aule import _C

__all__ = ["override", "value_text"]


def value_text(value) -> str:
    """The text of a setting's value, as ``TORCH_AULE_OVERRIDES`` has it.

    Parameters
    ----------
    value : str, bool, int, float, tuple of int or None
        The value of :func:`override`.

    Returns
    -------
    str
        A flag is 0 or 1, a tuple has commas, and None is the empty text.
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(int(value))
    return value if isinstance(value, str) else ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


@contextlib.contextmanager
def override(**values):
    """Context in which kernels are planned otherwise, for measurements and tests.

    The settings are the process's, not the thread's. They begin as the variable ``TORCH_AULE_OVERRIDES`` says
    (docs/use/environment.md).

    Parameters
    ----------
    **values : str, bool, int, float, tuple of int or None
        Settings by name, such as ``attention_variant="simt"`` or ``attention_shape=(4, 2, 32, 1, 1)``; None is the
        default.

    Returns
    -------
    context manager
        Leaving it brings back the settings of before.

    Raises
    ------
    ValueError
        For a name that is none, or a value that it does not take.

    Examples
    --------
    >>> with torch_aule.tune.override(attention_variant="simt"):
    ...     torch_aule.flash_attention(q, k, v)
    """
    before, changed = _C.overrides(), _C.overrides()
    for name, value in values.items():
        changed.set(name, value_text(value))
    _C.set_overrides(changed)
    try:
        yield
    finally:
        _C.set_overrides(before)
