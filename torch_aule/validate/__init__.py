"""Whether a model computes what it should: against the CPU in float64, an older variant, or itself, compiled.

Errors are relative to the largest element of the tensor that is expected, and each dtype has its tolerance.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, cast

import torch
import torch.nn as nn

from torch_aule.measure.errors import TOLERANCES, Tolerance, called
from torch_aule.measure.results import Comparison, Levels, Part, Performance
from torch_aule.measure.runs import compared, device_of, given, modes_of, on_the_cpu, placed, plain, ran, seconds_of

__all__ = [
    "LEVELS",
    "THRESHOLD",
    "TOLERANCES",
    "Comparison",
    "Levels",
    "Part",
    "Performance",
    "Tolerance",
    "at_level",
    "check_performance",
    "compare",
    "compare_levels",
]

THRESHOLD = 0.05  # slower by so much is a regression
LEVELS = {"eager": None, "compiled": "default", "graphs": "reduce-overhead"}  # the modes of torch.compile


def _module(function: str, name: str, value: Any) -> None:
    if not isinstance(value, nn.Module):
        raise TypeError(f"{function}: expected {name} to be a torch.nn.Module, got {type(value).__name__}")


def _positive(function: str, runs: int) -> None:
    if runs < 1:
        raise ValueError(f"{function}: expected runs to be positive, got {runs}")


def compare(
    model: nn.Module,
    x: Any,
    reference: nn.Module | None = None,
    *,
    gradients: bool = True,
    training: bool = False,
    computed_in: torch.dtype | None = None,
    tolerances: Mapping[torch.dtype, Tolerance | float] | None = None,
    runs: int = 3,
) -> Comparison:
    """Compare a model's outputs and gradients with those of the CPU, or of an older variant.

    The gradients are those of a sum of all outputs with fixed random weights, by the parameters and by the inputs that
    are floating point. Nothing of the model changes: modes, buffers and ``.grad`` are as before.

    Parameters
    ----------
    model : torch.nn.Module
        On any device; compiled or not.
    x : torch.Tensor, tuple, list or dict
        Its input, inputs by position, or by name; they are moved to where each side is.
    reference : torch.nn.Module, optional
        What to compare with: parameters of the same names have their gradients compared. Default: a copy of `model` on
        the CPU in float64, or in its own dtypes if it does not run in float64, which a note says.
    gradients : bool, default True
        Compare those, too.
    training : bool, default False
        Run in the modes that the modules have. By default both sides run in evaluation mode, since dropout draws other
        numbers on each side.
    computed_in : torch.dtype, optional
        A dtype that the model computes in and that neither its parameters nor its outputs show, as under autocast.
    tolerances : mapping, optional
        Dtype -> :class:`Tolerance`, or a number for both of its parts; others have those of :data:`TOLERANCES`. A
        tensor has the widest of its own dtype, the parameters' and the inputs'.
    runs : int, default 3
        Calls that are timed, after two others.

    Returns
    -------
    Comparison
        `passed`, `max_error`, `mean_error`, times, memory, and each tensor.

    Raises
    ------
    TypeError
        If `model` or `reference` is no module.
    ValueError
        If `runs` is not positive, or the model returns no tensor.

    Examples
    --------
    >>> torch_aule.validate.compare(model.to("aule"), x)
    >>> assert torch_aule.validate.compare(faster, x, reference=model).passed
    """
    _module("compare", "model", model)
    _positive("compare", runs)
    if reference is not None:
        _module("compare", "reference", reference)
    inputs, notes = given(x), list[str]()
    with modes_of(training, model, *([reference] if reference is not None else [])):
        ours = ran(model, placed(inputs, device_of(model, inputs)), gradients, runs)
        if not ours.outputs:
            raise ValueError(f"compare: {type(plain(model)).__name__} returns no tensor that could be compared")
        if reference is None:
            name, theirs = on_the_cpu(model, inputs, gradients, runs, notes)
        else:
            name = type(plain(reference)).__name__
            theirs = ran(reference, placed(inputs, device_of(reference, inputs)), gradients, runs)
    return compared(type(plain(model)).__name__, name, ours, theirs, computed_in, tolerances, notes)


def check_performance(
    model: nn.Module,
    x: Any,
    baseline: float | Comparison | nn.Module,
    *,
    threshold: float = THRESHOLD,
    runs: int = 20,
) -> Performance:
    """Whether a call of a model is at most so much slower than a baseline.

    Both run without gradients, in evaluation mode. A baseline that is a module is timed alternately with the model, so
    that what else the machine does meets both.

    Parameters
    ----------
    model : torch.nn.Module
        On any device.
    x : torch.Tensor, tuple, list or dict
        As of :func:`compare`.
    baseline : float, Comparison or torch.nn.Module
        Seconds; what a comparison without gradients took; or a variant, which is timed.
    threshold : float, default 0.05
        By how much slower it may be, as a share.
    runs : int, default 20
        Calls that are timed, after three others.

    Returns
    -------
    Performance
        `passed`, both medians and the change.

    Raises
    ------
    TypeError
        If `model` is no module, or `baseline` none of these.
    ValueError
        If `runs` or a baseline in seconds is not positive, or `threshold` is negative.

    Examples
    --------
    >>> torch_aule.validate.check_performance(torch.compile(model), x, baseline=model)
    """
    _module("check_performance", "model", model)
    _positive("check_performance", runs)
    if threshold < 0:
        raise ValueError(f"check_performance: expected threshold to be at least 0, got {threshold}")
    seconds = baseline.seconds if isinstance(baseline, Comparison) else baseline
    if not isinstance(seconds, (int, float, nn.Module)):
        raise TypeError("check_performance: expected baseline to be seconds, a Comparison or a torch.nn.Module, got "
                        f"{type(baseline).__name__}")  # fmt: skip
    if not isinstance(seconds, nn.Module) and seconds <= 0:
        raise ValueError(f"check_performance: expected a baseline above 0 seconds, got {seconds}")
    sides = [model, *([seconds] if isinstance(seconds, nn.Module) else [])]
    with modes_of(False, *sides), torch.no_grad():
        calls = []
        for side in sides:
            device = device_of(side, given(x))
            inputs = placed(given(x), device)
            calls.append((lambda side=side, inputs=inputs: called(side, inputs), device))
        times: list[list[float]] = [[] for _ in calls]
        for run in range(runs + 3):
            for (call, device), taken in zip(calls, times, strict=True):
                spent = seconds_of(call, device)
                if run >= 3:
                    taken.append(spent)
    medians = [statistics.median(taken) for taken in times]
    reference = medians[1] if isinstance(seconds, nn.Module) else float(seconds)
    return Performance(medians[0], reference, threshold)


def at_level(model: nn.Module, level: str) -> nn.Module:
    """A model at an optimization level.

    Parameters
    ----------
    model : torch.nn.Module
        Not compiled.
    level : str
        "eager", "compiled" (:func:`torch.compile`) or "graphs" (its mode "reduce-overhead").

    Returns
    -------
    torch.nn.Module
        `model` itself, or its compiled form, which shares the parameters.

    Raises
    ------
    ValueError
        If there is no such level.
    """
    if level not in LEVELS:
        raise ValueError(f"at_level: expected level to be one of {', '.join(LEVELS)}, got {level!r}")
    return model if LEVELS[level] is None else cast(nn.Module, torch.compile(model, mode=LEVELS[level]))


def compare_levels(
    model: nn.Module,
    x: Any,
    levels: Sequence[str] | Mapping[str, nn.Module] = tuple(LEVELS),
    *,
    gradients: bool = False,
    computed_in: torch.dtype | None = None,
    runs: int = 5,
) -> Levels:
    """Run a model at some optimization levels, in evaluation mode, and compare each with each.

    Parameters
    ----------
    model : torch.nn.Module
        Not compiled.
    x : torch.Tensor, tuple, list or dict
        As of :func:`compare`.
    levels : sequence of str, or mapping of str to torch.nn.Module
        Names for :func:`at_level`; or modules of your own, by name. Times are held against the first.
    gradients : bool, default False
        Compare those, too.
    computed_in : torch.dtype, optional
        As of :func:`compare`.
    runs : int, default 5
        Calls that are timed at each level.

    Returns
    -------
    Levels
        `passed`, `fastest`, and every pair's comparison.

    Raises
    ------
    TypeError
        If `model` or a level's module is no module.
    ValueError
        If there are fewer than two levels, an unknown one, or `runs` is not positive.

    Examples
    --------
    >>> torch_aule.validate.compare_levels(model, x)
    """
    _module("compare_levels", "model", model)
    _positive("compare_levels", runs)
    if len(levels) < 2:
        raise ValueError(f"compare_levels: expected at least two levels, got {len(levels)}")
    built = dict(levels) if isinstance(levels, Mapping) else {name: at_level(model, name) for name in levels}
    inputs, found = given(x), {}
    for name, one in built.items():
        _module("compare_levels", f"level {name!r}", one)
        with modes_of(False, plain(one)):
            found[name] = ran(one, placed(inputs, device_of(one, inputs)), gradients, runs)
    pairs = {
        (later, earlier): compared(later, earlier, found[later], found[earlier], computed_in, None)
        for earlier, later in combinations(found, 2)
    }
    return Levels(
        pairs, {name: run.seconds for name, run in found.items()}, {name: run.peak_bytes for name, run in found.items()}
    )
