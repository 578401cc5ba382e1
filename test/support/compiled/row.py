"""A row is a function and how its inputs are made: small, and one idea."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

__all__ = ["INF", "NAN", "Row", "Table", "bools", "ints", "like", "normal", "uniform", "values"]

INF, NAN = float("inf"), float("nan")


@dataclass(frozen=True)
class Row:
    """A program.

    Attributes
    ----------
    name : str
        Topic and name.
    function : callable
        Takes tensors, returns a tensor, or a tuple or list of them.
    inputs : tuple
        Makers: each call gives a fresh tensor on the CPU. What is not callable is passed as it is.
    exact : bool
        The reference runs in the inputs' own dtype, not in float64.
    grad : bool
        Gradients are compared, too.
    dynamic : bool
        Also compiled with ``dynamic=True``.
    sizes : tuple of int
        The function of `inputs` takes one of these and gives the makers; one compiled function serves all of them.
    tolerance : float, optional
        Relative and absolute, instead of the dtype's.
    refused : str
        Why eager mode refuses it on the device: a part of the error.
    layout : bool
        Strides are those of eager mode on the device.
    """

    name: str
    function: Callable
    inputs: tuple
    exact: bool = False
    grad: bool = False
    dynamic: bool = True
    sizes: tuple[int, ...] = ()
    tolerance: float | None = None
    refused: str = ""
    layout: bool = True


class Table:
    """The rows of one topic, with the options that they share."""

    def __init__(self, topic: str, **options) -> None:
        self.topic = topic
        self.options = options
        self.rows: list[Row] = []

    def __call__(self, name: str, function: Callable, *inputs, **options) -> None:
        """Add a row."""
        self.rows.append(Row(f"{self.topic}: {name}", function, inputs, **{**self.options, **options}))

    def add(self, *inputs, **options):
        """Add the decorated function, under its name."""

        def decorate(function):
            self(function.__name__.replace("_", " ").strip(), function, *inputs, **options)
            return function

        return decorate


def normal(*shape, dtype=torch.float32):
    """Makes normal random numbers."""
    return lambda: torch.randn(shape).to(dtype)


def uniform(*shape, low=0.0, high=1.0, dtype=torch.float32):
    """Makes evenly distributed random numbers."""
    return lambda: (torch.rand(shape) * (high - low) + low).to(dtype)


def ints(*shape, low=-9, high=10, dtype=torch.int64):
    """Makes random integers, `high` excluded."""
    return lambda: torch.randint(low, high, shape, dtype=dtype)


def bools(*shape):
    """Makes coin flips."""
    return lambda: torch.rand(shape) < 0.5


def values(*numbers, dtype=torch.float32):
    """Makes a vector of these numbers."""
    return lambda: torch.tensor(numbers, dtype=dtype)


def like(maker, view):
    """Makes a view of what another maker makes."""
    return lambda: view(maker())
