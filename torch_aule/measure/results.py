"""Results of comparisons, which print as tables."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field

from torch_aule.measure.numbers import bytes_text, table, time_text


@dataclass(frozen=True)
class Part:
    """One tensor that was compared.

    Parameters
    ----------
    name : str
        "output 0", "gradient of input 0", "gradient of 0.weight".
    max_error, mean_error : float
        Largest and mean difference, relative to the expected tensor's largest element; infinite where shapes differ,
        or one side has no such gradient.
    tolerance : float
        What `max_error` may be.
    """

    name: str
    max_error: float
    mean_error: float
    tolerance: float

    @property
    def passed(self) -> bool:
        """Whether the error is within the tolerance."""
        return self.max_error <= self.tolerance


@dataclass(frozen=True)
class Comparison:
    """The result of :func:`compare`; its repr is a table.

    Parameters
    ----------
    model, reference : str
        What was compared with what.
    parts : list of Part
        Outputs, then gradients.
    seconds, reference_seconds : float
        Medians of a call, with its backward pass where gradients are compared.
    peak_bytes, reference_peak_bytes : int or None
        Most memory of the device that a call took beyond what was there; None on the CPU.
    notes : list of str
        What could not be done as it was meant.
    """

    model: str
    reference: str
    parts: list[Part]
    seconds: float
    reference_seconds: float
    peak_bytes: int | None
    reference_peak_bytes: int | None
    notes: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether every part is within its tolerance."""
        return all(part.passed for part in self.parts)

    @property
    def max_error(self) -> float:
        """The largest of all parts."""
        return max((part.max_error for part in self.parts), default=0.0)

    @property
    def mean_error(self) -> float:
        """The mean of the parts' means."""
        return statistics.fmean(part.mean_error for part in self.parts) if self.parts else 0.0

    @property
    def failures(self) -> list[Part]:
        """The parts that are not within their tolerance."""
        return [part for part in self.parts if not part.passed]

    def __repr__(self) -> str:
        head = ["", "max error", "mean error", "tolerance", ""]
        worst = sorted(self.parts, key=lambda part: (part.passed, -part.max_error))
        rows = [[p.name, f"{p.max_error:.1e}", f"{p.mean_error:.1e}", f"{p.tolerance:.0e}",
                 "" if p.passed else "differs"] for p in worst[:8]]  # fmt: skip
        memory = [
            f"{name} {bytes_text(n)}"
            for name, n in (("model", self.peak_bytes), ("reference", self.reference_peak_bytes))
            if n is not None
        ]
        return "\n".join(
            [
                f"{self.model} against {self.reference}: {'passed' if self.passed else 'FAILED'}, "
                f"{len(self.parts) - len(self.failures)} of {len(self.parts)} tensors agree",
                *table(head, rows),
                *([f"  and {len(worst) - 8} more"] if len(worst) > 8 else []),
                f"  time: model {time_text(self.seconds)}, reference {time_text(self.reference_seconds)}",
                *(["  memory at the peak: " + ", ".join(memory)] if memory else []),
                *("  note: " + note for note in self.notes),
            ]
        )


@dataclass(frozen=True)
class Performance:
    """The result of :func:`check_performance`.

    Parameters
    ----------
    seconds, baseline_seconds : float
        Medians of a call, and what it is held against.
    threshold : float
        By how much slower it may be, as a share.
    """

    seconds: float
    baseline_seconds: float
    threshold: float

    @property
    def change(self) -> float:
        """By how much slower, as a share of the baseline; negative if faster."""
        return self.seconds / self.baseline_seconds - 1.0

    @property
    def passed(self) -> bool:
        """Whether it is within the threshold."""
        return self.change <= self.threshold

    def __repr__(self) -> str:
        how = f"{abs(self.change):.1%} {'slower' if self.change > 0 else 'faster'}"
        return (
            f"{'passed' if self.passed else 'FAILED'}: {time_text(self.seconds)}, baseline "
            f"{time_text(self.baseline_seconds)}, {how} (at most {self.threshold:.0%} slower)"
        )


@dataclass(frozen=True)
class Levels:
    """The result of :func:`compare_levels`; its repr is a table.

    Parameters
    ----------
    comparisons : dict
        (level, earlier level) -> Comparison, of every pair.
    seconds : dict
        Level -> median of a call.
    peak_bytes : dict
        Level -> most memory of a call, or None.
    """

    comparisons: dict[tuple[str, str], Comparison]
    seconds: dict[str, float]
    peak_bytes: dict[str, int | None]

    @property
    def passed(self) -> bool:
        """Whether every level agrees with every other."""
        return all(one.passed for one in self.comparisons.values())

    @property
    def fastest(self) -> str:
        """The level whose call takes least time."""
        return min(self.seconds, key=lambda level: self.seconds[level])

    def __repr__(self) -> str:
        names = list(self.seconds)
        rows = []
        for name in names:
            held = self.peak_bytes[name]
            found = [self.comparisons.get((name, other)) for other in names[:-1]]
            cells = ["-" if one is None else f"{one.max_error:.1e}{'' if one.passed else ' !'}" for one in found]
            speed = f"{self.seconds[names[0]] / self.seconds[name]:.2f} x"
            rows.append([name, time_text(self.seconds[name]), speed, "-" if held is None else bytes_text(held), *cells])
        head = ["level", "time", "speed", "memory", *(f"from {other}" for other in names[:-1])]
        verdict = "all levels agree" if self.passed else "FAILED: levels marked with ! differ"
        return "\n".join([*table(head, rows), f"  {verdict}"])
