"""Statistics of samples, and numbers as a person reads them."""

from __future__ import annotations

import importlib.util
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

EXCELLENT_CV, GOOD_CV = 5.0, 15.0  # percent


@dataclass(frozen=True)
class Statistics:
    """Of times in seconds.

    Attributes
    ----------
    mean, median, std, min, max : float
        Seconds; std is that of a sample (n - 1).
    cv : float
        std in percent of the mean.
    count : int
        How many samples.
    """

    mean: float
    median: float
    std: float
    min: float
    max: float
    cv: float
    count: int

    @property
    def stability(self) -> str:
        """``"excellent"`` up to a cv of 5 percent, ``"good"`` up to 15, else ``"poor"``."""
        return "excellent" if self.cv < EXCELLENT_CV else "good" if self.cv <= GOOD_CV else "poor"


def statistics_of(samples: Sequence[float]) -> Statistics:
    """Statistics of at least one sample."""
    mean = statistics.fmean(samples)
    std = statistics.stdev(samples) if len(samples) > 1 else 0.0
    cv = 100 * std / mean if mean else 0.0
    return Statistics(mean, statistics.median(samples), std, min(samples), max(samples), cv, len(samples))


def time_text(seconds: float) -> str:
    """In the unit that suits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}" if seconds / size < 1000 else f"{seconds / size:.0f} {unit}"
    return f"{seconds * 1e6:.3g} us"


def bytes_text(count: float) -> str:
    """In the unit that suits it."""
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if abs(count) >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count:.0f} B"


def count_text(count: float, noun: str, plural: str | None = None) -> str:
    """A number with its noun: 1 kernel, 2 kernels; three digits of what is no whole number."""
    text = f"{count:.0f}" if count == round(count) else f"{count:.3g}"
    return f"{text} {noun if text == '1' else plural or noun + 's'}"


def percent_text(share: float | None) -> str:
    """A share of 1; ``"-"`` if unknown."""
    return "-" if share is None else f"{100 * share:.1f} %"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], indent: str = "  ") -> list[str]:
    """Lines of a table in plain text: the first column to the left, numbers to the right."""
    everything = [list(head), *(list(row) for row in rows)]
    widths = [max(len(row[i]) for row in everything) for i in range(len(head))]
    lines = []
    for row in everything:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))]
        lines.append((indent + "  ".join(cells)).rstrip())
    return lines


def writer() -> Callable[[str], object]:
    """A function that prints a line: by rich where it is installed, which folds no words, or plainly."""
    if importlib.util.find_spec("rich") is None:
        return print
    from rich.console import Console

    console = Console(soft_wrap=True)
    return lambda line: console.print(line, markup=False)
