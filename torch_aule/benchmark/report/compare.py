"""Two records against each other, with the noise taken from their samples."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from torch_aule.benchmark.report.record import SECONDS, Record, Result, Run, merged

SLOWER, FASTER, SAME, NOISE, FAILED = "slower", "faster", "same", "noise", "failed"
GONE, NEW = "only before", "only after"


def spread(result: Result) -> tuple[float, float]:
    """Seconds between which the middle half of the samples lies; all of them, if only the extremes are known."""
    if len(result.samples) > 1:
        low, _, high = statistics.quantiles(result.samples, n=4, method="inclusive")
    else:
        low, high = (result.median if x is None else x for x in (result.min, result.max))
    return low * SECONDS[result.unit], high * SECONDS[result.unit]


def verdict(before: Result, after: Result, threshold: float) -> str:
    """`slower` or `faster` if the medians differ by more than `threshold` and the spreads do not overlap.

    A difference of the medians that the spreads explain is `noise`.
    """
    ratio = after.seconds / before.seconds
    if 1 / (1 + threshold) <= ratio <= 1 + threshold:
        return SAME
    (low_before, high_before), (low_after, high_after) = spread(before), spread(after)
    if low_after <= high_before and low_before <= high_after:
        return NOISE
    return SLOWER if ratio > 1 else FASTER


@dataclass
class Row:
    """One case; the times are aule's, None where it was not measured."""

    group: str
    name: str
    before: Result | None
    after: Result | None
    verdict: str

    @property
    def ratio(self) -> float | None:
        """Time after over time before: above 1 is slower."""
        return self.after.seconds / self.before.seconds if self.before and self.after else None

    @property
    def ratio_of_fastest(self) -> float | None:
        if not self.before or not self.after or not self.before.min or self.after.min is None:
            return None
        return self.after.min * SECONDS[self.after.unit] / (self.before.min * SECONDS[self.before.unit])

    def cells(self) -> list[str]:
        def time(result):
            return f"{result.median:.5g} {result.unit}" if result else ""

        def number(value):
            return f"{value:.3f}" if value is not None else ""

        return [self.group, self.name, time(self.before), time(self.after), number(self.ratio),
                number(self.ratio_of_fastest), self.verdict]  # fmt: skip


@dataclass
class Comparison:
    rows: list[Row]
    baselines: dict[str, dict[str, float]]  # group -> baseline -> geometric mean of its own ratios
    about: tuple[Run, Run]
    threshold: float

    def regressions(self) -> list[Row]:
        return [row for row in self.rows if row.verdict in (SLOWER, FAILED)]

    def count(self, group: str, *verdicts: str) -> int:
        return sum(row.group == group and row.verdict in verdicts for row in self.rows)

    def summary(self) -> list[list[str]]:
        """Group, cases, slower, faster, geometric mean of the ratios, and that of the baselines' own ratios."""
        found = []
        for group in dict.fromkeys(row.group for row in self.rows):
            ratios = [row.ratio for row in self.rows if row.group == group and row.ratio]
            drift = ", ".join(f"{name} {value:.3f}" for name, value in self.baselines.get(group, {}).items())
            mean = f"{statistics.geometric_mean(ratios):.3f}" if ratios else ""
            found.append([group, str(len(ratios)), str(self.count(group, SLOWER, FAILED)),
                          str(self.count(group, FASTER)), mean, drift])  # fmt: skip
        return found

    def heading(self) -> list[str]:
        def words(run: Run) -> str:
            parts = (run.device, run.driver, f"torch {run.torch}", f"revision {run.revision or 'unknown'}", run.date)
            return ", ".join(filter(None, parts))

        return [f"Before: {words(self.about[0])}", f"After: {words(self.about[1])}",
                f"A case counts from a change of {self.threshold:.0%} of the median that the samples' spread does not "
                "explain."]  # fmt: skip

    def markdown(self) -> str:
        before, after, rule = self.heading()
        return "\n".join([f"- {before}", f"- {after}", "", rule, "", *table(SUMMARY, self.summary()), "",
                          *table(COLUMNS, [row.cells() for row in self.rows])])  # fmt: skip

    def text(self) -> str:
        return "\n".join([*self.heading(), "", *aligned([COLUMNS, *(row.cells() for row in self.rows)]), "",
                          *aligned([SUMMARY, *self.summary()])])  # fmt: skip


COLUMNS = ["group", "case", "before", "after", "ratio", "of the fastest", "verdict"]
SUMMARY = ["group", "cases", "slower or failed", "faster", "geometric mean", "baselines' own"]


def aligned(rows: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]


def table(columns: list[str], rows: Iterable[list[str]]) -> list[str]:
    """Markdown; columns that hold numbers are those of `before` to `of the fastest`, and counts."""
    left = ("group", "case", "verdict", "baselines' own")
    rule = "|".join("---" if column in left else "---:" for column in columns)
    return [f"| {' | '.join(columns)} |", f"|{rule}|", *(f"| {' | '.join(row)} |" for row in rows)]


def _timed(record: Record | None, runner: str = "aule") -> Result | None:
    result = record.results.get(runner) if record else None
    return result if result is not None and result.median else None


def compare(before: list[Record], after: list[Record], threshold: float = 0.05) -> Comparison:
    """Every case that has a time in one of the two, in the order of `before`."""
    if not before or not after:
        raise SystemExit("compare: a record is empty")
    old, new = merged(before), merged(after)
    rows, drift = [], {}
    for key in dict.fromkeys((*old, *new)):
        was, now = _timed(old.get(key)), _timed(new.get(key))
        if was and now:
            judged = verdict(was, now, threshold)
        elif was:
            judged = FAILED if key in new else GONE
        elif now:
            judged = NEW
        else:
            continue
        rows.append(Row(key[0], (old.get(key) or new[key]).name, was, now, judged))
        if was and now:
            for name in old[key].results:
                theirs = _timed(old[key], name), _timed(new[key], name)
                if name != "aule" and all(theirs):
                    drift.setdefault(key[0], {}).setdefault(name, []).append(theirs[1].seconds / theirs[0].seconds)
    means = {g: {name: statistics.geometric_mean(r) for name, r in found.items()} for g, found in drift.items()}
    return Comparison(rows, means, (before[0].run, after[0].run), threshold)
