"""The record of a case: one JSON line. Every line can be read alone."""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

SCHEMA = 1
SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
FLOPS = {"TFLOPS": 1e12, "GFLOPS": 1e9}


@dataclass
class Result:
    """Results of one runner: times in `unit`, or other `values`."""

    unit: str | None = None  # of median, min, max and samples: s, ms, us, ns
    median: float | None = None
    min: float | None = None
    max: float | None = None
    count: int | None = None  # of samples
    samples: list[float] = field(default_factory=list)
    calls: int | None = None  # in one sample; the times are for one call
    rate: float | None = None  # at the median
    rate_unit: str | None = None  # TFLOPS, GFLOPS, GB/s
    # peak_mib, needed_mib; forward, gradients; bytes of a training loop; device_ms, commands, kernels; difference
    # (CUDA's: from ours)
    values: dict = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        return self.median * SECONDS[self.unit]

    @property
    def tflops(self) -> float | None:
        return self.rate * FLOPS[self.rate_unit] / 1e12 if self.rate_unit in FLOPS else None

    @classmethod
    def of_times(cls, times: Iterable[float], unit: str, *, flops: float = 0.0, moved: float = 0.0, **more) -> Result:
        """From samples for one call in `unit`, and what a call computes or moves."""
        samples = [float(f"{value:.5g}") for value in times]
        median = float(f"{statistics.median(samples):.5g}")
        rate = rate_unit = None
        work = flops or moved
        if work and median > 0:
            per_second = work / (median * SECONDS[unit])
            rate_unit = ("TFLOPS" if per_second >= 1e12 else "GFLOPS") if flops else "GB/s"
            rate = float(f"{per_second / FLOPS.get(rate_unit, 1e9):.4g}")
        return cls(unit=unit, median=median, min=min(samples), max=max(samples), count=len(samples), samples=samples,
                   rate=rate, rate_unit=rate_unit, **more)  # fmt: skip


@dataclass
class Verdict:
    """A case's target and what was reached; the fields are those of `targets.Target`."""

    of: str
    bound: float
    stretch: float | None = None
    reached: float | None = None
    met: bool | None = None


@dataclass
class Run:
    """The environment of a record. Fields that are unknown are absent from the line."""

    device: str | None = None
    driver: str | None = None
    host: str | None = None
    torch: str | None = None
    torch_aule: str | None = None
    revision: str | None = None
    date: str | None = None
    rest_s: float | None = None  # before each sample of attention and products


@dataclass
class Record:
    group: str
    case: str
    shapes: str = ""
    dtype: str = ""
    results: dict[str, Result] = field(default_factory=dict)  # runner (aule, cuda, cudnn, cpu) -> result
    target: Verdict | None = None
    errors: dict[str, str] = field(default_factory=dict)  # runner -> first line
    note: str | None = None
    flops: float | None = None  # of what one time is for
    bytes: float | None = None  # moved by it, at least
    clock_mhz: int | None = None  # of the GPU's multiprocessors, soon after the samples
    run: Run = field(default_factory=Run)

    @property
    def key(self) -> tuple[str, str, str, str]:
        return self.group, self.case, self.shapes, self.dtype

    @property
    def name(self) -> str:
        return " ".join(filter(None, (self.case, self.shapes, self.dtype)))

    def speed(self, baseline: str) -> float | None:
        """The baseline's time over ours: above 1 is faster."""
        ours, theirs = self.results.get("aule"), self.results.get(baseline)
        if ours is None or theirs is None or not ours.median or theirs.median is None:
            return None
        return theirs.seconds / ours.seconds

    def line(self) -> str:
        return json.dumps({"schema": SCHEMA, **_without_unknown(dataclasses.asdict(self))})

    @classmethod
    def of_line(cls, text: str) -> Record:
        fields = json.loads(text)
        if not isinstance(fields, dict) or fields.pop("schema", None) != SCHEMA:
            raise ValueError(f'expected an object with "schema": {SCHEMA}')
        try:
            return cls(**{
                **fields,
                "results": {name: Result(**values) for name, values in fields.get("results", {}).items()},
                "target": Verdict(**fields["target"]) if "target" in fields else None,
                "run": Run(**fields.get("run", {})),
            })  # fmt: skip
        except TypeError as error:  # a field that the schema does not have, or lacks one that it has
            raise ValueError(str(error)) from None


def _without_unknown(fields: dict) -> dict:
    """Fields that say nothing are left out: None, and empty lists and mappings."""
    nested = {k: _without_unknown(v) if isinstance(v, dict) else v for k, v in fields.items()}
    return {k: v for k, v in nested.items() if v is not None and v != {} and v != []}


def read(path: str) -> list[Record]:
    """All records of a file. One that is no record ends it with the line's number."""
    records = []
    try:
        lines = Path(path).read_text().splitlines()
    except OSError as error:
        raise SystemExit(f"{path}: {error.strerror}") from None
    for number, text in enumerate(lines, 1):
        try:
            records.append(Record.of_line(text))
        except ValueError as error:
            raise SystemExit(f"{path}:{number}: no record of the benchmark: {error}") from None
    return records


def merged(records: Iterable[Record]) -> dict[tuple, Record]:
    """By key; samples of a case that several processes measured are put together."""
    found: dict[tuple, Record] = {}
    for record in records:
        first = found.setdefault(record.key, record)
        if first is record:
            continue
        for name, result in record.results.items():
            known = first.results.get(name)
            if known is None:
                first.results[name] = result
            elif known.samples and result.samples and known.unit == result.unit:
                again = Result.of_times(known.samples + result.samples, known.unit)
                for part in ("samples", "count", "median", "min", "max"):
                    setattr(known, part, getattr(again, part))
        first.errors.update(record.errors)
    return found
