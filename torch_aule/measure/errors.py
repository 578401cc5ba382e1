"""Comparison of results: tolerances of dtypes, relative errors, and what a call of a model returns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
import torch.nn as nn
from torch.utils._pytree import tree_leaves


class Tolerance(NamedTuple):
    """The tolerance of an error, relative to the largest element.

    Attributes
    ----------
    outputs, gradients : float
        Of each; a backward pass rounds more often.
    """

    outputs: float
    gradients: float


EXACT = Tolerance(0.0, 0.0)  # integers and bool
TOLERANCES = {
    torch.float64: Tolerance(1e-10, 1e-9),
    torch.float32: Tolerance(1e-4, 1e-3),
    torch.float16: Tolerance(5e-3, 2e-2),
    torch.bfloat16: Tolerance(4e-2, 1e-1),
}


def tolerance_of(dtypes: Iterable[torch.dtype], given: Mapping[torch.dtype, Tolerance] = {}) -> Tolerance:  # noqa: B006
    """The widest of some dtypes, as given or listed; a complex one has that of its parts."""
    parts = {dtype.to_real() if dtype.is_complex else dtype for dtype in dtypes}
    return max((given.get(dtype, TOLERANCES.get(dtype, EXACT)) for dtype in parts), default=EXACT)


def called(model: nn.Module, inputs: tuple | dict) -> Any:
    """The model's outputs for inputs by position or by name."""
    return model(**inputs) if isinstance(inputs, dict) else model(*inputs)


@contextmanager
def evaluating(model: nn.Module):
    """Evaluation mode, and each module's own mode afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def host_tensors(outputs: Any) -> list[torch.Tensor]:
    """All tensors of nested outputs, on the CPU, copies."""
    return [t.detach().to("cpu", copy=True) for t in tree_leaves(outputs) if isinstance(t, torch.Tensor)]


def errors(actual: torch.Tensor, expected: torch.Tensor, least_scale: float = 0.0) -> tuple[float, float]:
    """Largest and mean difference, relative to the largest finite element expected, at least to `least_scale`.

    Infinite where shapes differ, a NaN or an infinity meets something else.
    """
    if actual.shape != expected.shape:
        return float("inf"), float("inf")
    wide = torch.complex128 if actual.is_complex() or expected.is_complex() else torch.float64
    a, e = actual.detach().cpu().to(wide), expected.detach().cpu().to(wide)
    same = (a == e) | (a.isnan() & e.isnan())
    if bool(same.all()):
        return 0.0, 0.0
    finite = e[e.isfinite()].abs()
    scale = max(finite.max().item() if finite.numel() else 0.0, least_scale, 1e-30)
    distance = ((a - e).abs() / scale).masked_fill(same, 0.0)
    distance = distance.masked_fill(distance.isnan(), float("inf"))
    return distance.max().item(), distance.mean().item()


def difference(actual: list[torch.Tensor], expected: list[torch.Tensor]) -> float:
    """The largest error of some tensors; infinite if there are more or fewer."""
    if len(actual) != len(expected):
        return float("inf")
    return max((errors(a, e)[0] for a, e in zip(actual, expected, strict=True)), default=0.0)
