"""Rows of measurements in a CSV file, each found by what was measured; a script of your own can add to one.

A row is one point of a plot. It is written once; a second measurement of the same replaces it only if that is asked
for, so that a file holds what was published until someone decides otherwise.
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import datetime
import io
import json
import os
import statistics
import tempfile
from collections.abc import Iterable
from pathlib import Path

__all__ = ["COLUMNS", "Row", "folder", "read", "update"]

COLUMNS = (
    "kernel_name", "kernel_provider", "kernel_operation_mode", "metric_name", "metric_unit", "x_name", "x_label",
    "x_value", "y_value_50", "y_value_20", "y_value_80", "extra_config", "gpu_name", "timestamp",
)  # fmt: skip
NUMBERS = ("x_value", "y_value_50", "y_value_20", "y_value_80")
VALUES = ("y_value_50", "y_value_20", "y_value_80", "timestamp")  # all else is the key


def folder() -> Path:
    """``benchmarks`` of the checkout that the package lies in; of the current directory where it is installed."""
    own = Path(__file__).resolve().parents[3] / "benchmarks"
    return own if (own / "reference.py").is_file() else Path("benchmarks")


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclasses.dataclass(frozen=True)
class Row:
    """One measurement.

    Parameters
    ----------
    kernel_name, kernel_provider, kernel_operation_mode : str
        What ran, whose it is (``aule``, ``cuda``, ...), and ``forward``, ``backward`` or ``full``.
    metric_name, metric_unit : str
        Such as ``speed`` in ``ms``, ``memory`` in ``MiB``.
    x_name, x_label : str
        The size that varies, such as ``H``, and words for an axis.
    x_value : float
        Its value.
    y_value_50, y_value_20, y_value_80 : float
        Median, 20th and 80th percentile of the samples, in `metric_unit`.
    extra_config : dict
        What else decides the result: the other sizes, the dtype. Keys are text, values JSON's scalars.
    gpu_name : str
        The device that it was measured on, or beside.
    timestamp : str, optional
        UTC, ISO 8601; default: now.
    """

    kernel_name: str
    kernel_provider: str
    kernel_operation_mode: str
    metric_name: str
    metric_unit: str
    x_name: str
    x_label: str
    x_value: float
    y_value_50: float
    y_value_20: float
    y_value_80: float
    extra_config: dict
    gpu_name: str
    timestamp: str = dataclasses.field(default_factory=_now)

    @property
    def key(self) -> tuple:
        """All columns but the three y values and the time."""
        return tuple(text for name, text in zip(COLUMNS, self.cells()) if name not in VALUES)

    @classmethod
    def of_samples(cls, samples: Iterable[float], **columns) -> Row:
        """A row whose y values are the percentiles of samples.

        Parameters
        ----------
        samples : iterable of float
            At least one, in the unit of the metric.
        **columns
            The other columns.

        Returns
        -------
        Row

        Raises
        ------
        ValueError
            If there is no sample.
        """
        found = [float(value) for value in samples]
        if not found:
            raise ValueError("Row.of_samples: expected one sample at least in samples, got none")
        tenths = statistics.quantiles(found * (2 if len(found) == 1 else 1), n=10, method="inclusive")
        y = {f"y_value_{10 * n}": float(f"{tenths[n - 1]:.6g}") for n in (2, 5, 8)}
        return cls(**y, **columns)

    def cells(self) -> list[str]:
        """The row's text, in the order of `COLUMNS`."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        for name in NUMBERS:
            value = float(values[name])
            values[name] = str(int(value)) if value.is_integer() else repr(value)
        values["extra_config"] = json.dumps(self.extra_config, sort_keys=True)
        return [str(values[name]) for name in COLUMNS]

    @classmethod
    def of_cells(cls, cells: list[str]) -> Row:
        """The row of a line's text.

        Parameters
        ----------
        cells : list of str
            In the order of `COLUMNS`.

        Returns
        -------
        Row

        Raises
        ------
        ValueError
            If they are too few or too many, or one is no number or no JSON object.
        """
        if len(cells) != len(COLUMNS):
            raise ValueError(f"expected {len(COLUMNS)} columns, got {len(cells)}")
        values: dict = dict(zip(COLUMNS, cells))
        for name in NUMBERS:
            values[name] = float(values[name])
        values["extra_config"] = json.loads(values["extra_config"])
        if not isinstance(values["extra_config"], dict):
            raise ValueError(f"extra_config: expected a JSON object, got {cells[COLUMNS.index('extra_config')]}")
        return cls(**values)


def read(path: str | os.PathLike) -> list[Row]:
    """All rows of a file.

    Parameters
    ----------
    path : path
        A file that `update` wrote, or one with the same header.

    Returns
    -------
    list of Row
        In the file's order.

    Raises
    ------
    OSError
        If it cannot be read.
    ValueError
        With the line's number, if it is no such table.
    """
    with open(path, newline="", encoding="utf-8") as file:
        lines = csv.reader(file)
        header = next(lines, None)
        if header != list(COLUMNS):
            raise ValueError(f"{path}:1: expected the columns {','.join(COLUMNS)}")
        rows = []
        for cells in lines:
            try:
                rows.append(Row.of_cells(cells))
            except ValueError as error:
                raise ValueError(f"{path}:{lines.line_num}: {error}") from None
    return rows


def update(path: str | os.PathLike, rows: Iterable[Row], overwrite: bool = False) -> list[Row]:
    """Add rows to a file, which is made with its folder where it is missing, and replaced in one step.

    Parameters
    ----------
    path : path
        The table.
    rows : iterable of Row
        What was measured. Of several with the same key the last counts.
    overwrite : bool, default False
        Replace rows that have the key of a new one. Without it they stay as they are.

    Returns
    -------
    list of Row
        The rows of the file that stayed although a new one has their key; none with `overwrite`.

    Raises
    ------
    OSError, ValueError
        As `read`, and if the file cannot be written.
    """
    path = Path(path)
    table = {row.key: row for row in read(path)} if path.exists() else {}
    known, kept = dict(table), []
    for row in rows:
        if row.key in known and not overwrite:
            kept.append(known[row.key])
        else:
            table[row.key] = row
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(COLUMNS)
    lines.writerows(row.cells() for row in table.values())
    _replace(path, text.getvalue())
    return kept


def _replace(path: Path, text: str) -> None:
    """A reader finds the old file or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask()
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
