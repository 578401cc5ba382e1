"""A model's time and memory, as a report with advice; and a profiler for functions.

    python -m torch_aule.profiling MODEL [--html PAGE]

MODEL is a name that torchvision or transformers knows, with random weights, or ``path.py:factory`` or
``module:factory``, a function that returns a model and its inputs.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn as nn

from torch_aule.backend.fallback import FallbackEntry, fallback_report
from torch_aule.indices import DeviceLike, checked_index
from torch_aule.measure import roof as roofs
from torch_aule.measure.models import add_model_options, model_named, moved
from torch_aule.measure.numbers import Statistics, bytes_text, statistics_of, table, time_text
from torch_aule.measure.timing import Stopwatch
from torch_aule.profiling import memory, trace
from torch_aule.profiling.report import Report

__all__ = ["Profiler", "Report", "Result", "profile_model_inference"]

TRACED_CALLS = 3


def _where(model: nn.Module, inputs: Sequence[Any] | Mapping[str, Any]) -> torch.device:
    devices = {t.device for t in [*model.parameters(), *model.buffers(), *memory._tensors(inputs)]}
    if len(devices) != 1 or next(iter(devices)).type != "aule":
        found = ", ".join(sorted(map(str, devices))) or "none"
        raise ValueError(f"profile_model_inference: model and x must be on one aule device, but are on: {found}")
    return devices.pop()


def _words(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{'x'.join(map(str, value.shape)) or 'scalar'} {str(value.dtype).removeprefix('torch.')}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_words(one)}" for name, one in value.items())
    return ", ".join(map(_words, value)) if isinstance(value, (tuple, list)) else type(value).__name__


def _on_the_cpu(function: Callable[[], object]) -> list[FallbackEntry]:
    before = {entry.op: entry.count for entry in fallback_report()}
    function()
    entries = [entry._replace(count=entry.count - before.get(entry.op, 0)) for entry in fallback_report()]
    return [entry for entry in entries if entry.count > 0]


def _timed(function: Callable[[], object], runs: int, device: torch.device) -> tuple[list[float], list[float]]:
    """Seconds of each call until the device has done it, and of the host's part."""
    wall, issue = [], []
    for _ in range(runs):
        torch.aule.synchronize(device)
        start = Stopwatch()
        result = function()
        issue.append(start.seconds)
        torch.aule.synchronize(device)
        wall.append(start.seconds)
        del result
    return wall, issue


def profile_model_inference(
    model: nn.Module,
    x: Any,
    *,
    runs: int = 20,
    warmup: int = 3,
    name: str | None = None,
    roof: roofs.Roof | None = None,
) -> Report:
    """Run a model without gradients, and tell where its time and memory go.

    Parameters
    ----------
    model : torch.nn.Module
        On an aule device, in the mode (training or not) in which it is to be seen.
    x : torch.Tensor, tuple, list or dict
        Its input, inputs by position, or by name; on the same device.
    runs : int, default 20
        Calls that are timed. Three more are traced, and one has its memory watched.
    warmup : int, default 3
        Calls before, in which pipelines are made.
    name : str, optional
        What the report calls the model; default the name of its class.
    roof : torch_aule.measure.roof.Roof, optional
        What the device can reach; default what was measured once and kept.

    Returns
    -------
    Report
        ``print(report)`` shows it, ``report.save_html(path)`` writes a page.

    Raises
    ------
    ValueError
        If model and inputs are not on one aule device, or `runs` is not positive.

    Examples
    --------
    >>> report = torch_aule.profiling.profile_model_inference(model.eval(), x)
    >>> print(report)
    >>> report.save_html("model.html")
    """
    if runs < 1 or warmup < 0:
        raise ValueError(f"profile_model_inference: runs must be positive, got {runs} (and warmup {warmup})")
    inputs = dict(x) if isinstance(x, Mapping) else tuple(x) if isinstance(x, (tuple, list)) else (x,)
    device = _where(model, inputs)

    def call():
        with torch.no_grad():
            return model(**inputs) if isinstance(inputs, dict) else model(*inputs)

    with torch.aule.device(device):
        on_cpu = _on_the_cpu(call)
        for _ in range(max(warmup - 1, 0)):
            call()
        wall, issue = _timed(call, runs, device)
        roof = roof or roofs.load(device)
        properties = torch.aule.get_device_properties(device)
        return Report(
            model=name or type(model).__name__,
            inputs=_words(inputs),
            device=properties.name,
            driver=f"{properties.driver_name} {properties.driver_info}",
            training=any(module.training for module in model.modules()),
            wall=statistics_of(wall),
            issue=statistics_of(issue),
            trace=trace.take(call, TRACED_CALLS, roof),
            memory=memory.watch(model, call, device),
            on_cpu=on_cpu,
            roof=roof,
        )


@dataclass(frozen=True)
class Result:
    """The measurements of a :class:`Profiler` of one function or block.

    Parameters
    ----------
    name : str
        What it is called.
    statistics : Statistics
        Of a call until the device has done it: mean, median, std, min, max in seconds, cv in percent, count.
    peak_bytes : int
        At most in tensors beyond what was there before.
    """

    name: str
    statistics: Statistics
    peak_bytes: int

    @property
    def throughput(self) -> float:
        """Calls in a second, by the mean."""
        return 1 / self.statistics.mean

    @property
    def stability(self) -> str:
        """``"excellent"`` up to a cv of 5 percent, ``"good"`` up to 15, else ``"poor"``."""
        return self.statistics.stability

    def cells(self) -> list[str]:
        """The result as a line of a table.

        Returns
        -------
        list of str
            Name, mean, median, std, min, max, cv, calls a second, memory, stability.
        """
        s = self.statistics
        times = [time_text(x) for x in (s.mean, s.median, s.std, s.min, s.max)]
        return [self.name, *times, f"{s.cv:.1f} %", f"{self.throughput:.4g}", bytes_text(self.peak_bytes), s.stability]


_HEAD = ["", "mean", "median", "std", "min", "max", "cv", "calls/s", "memory", "stability"]


class Profiler:
    """Measures blocks and functions on one device, and keeps what it found for a report.

    Parameters
    ----------
    device : torch.device, str or int, optional
        Default: the current device.

    Raises
    ------
    RuntimeError
        If the device does not exist.

    Examples
    --------
    >>> p = torch_aule.profiling.Profiler()
    >>> with p.profile("load"):
    ...     x = host.to("aule")
    >>> p.benchmark_function(torch.softmax, (x, -1)).throughput
    >>> p.generate_report("report.txt")
    """

    def __init__(self, device: DeviceLike = None):
        self.device = torch.device("aule", checked_index(device))
        self.results: list[Result] = []
        self._notes: list[tuple[str, list[str]]] = []

    @contextlib.contextmanager
    def profile(self, name: str) -> Iterator[None]:
        """Measure a block, from before it until the device has done it.

        Parameters
        ----------
        name : str
            What the report calls it; it is a range of traces, too.

        Yields
        ------
        None
            The result is the last of ``results`` afterwards.
        """
        torch.aule.synchronize(self.device)
        torch.aule.reset_peak_memory_stats(self.device)
        before = torch.aule.memory_allocated(self.device)
        start = Stopwatch()
        with torch.aule.profiler.range(name):
            yield
        torch.aule.synchronize(self.device)
        seconds = start.seconds
        peak = torch.aule.max_memory_allocated(self.device) - before
        self.results.append(Result(name, statistics_of([seconds]), peak))

    def benchmark_function(
        self,
        func: Callable[..., object],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        num_iterations: int = 100,
        warmup_iterations: int = 10,
        name: str | None = None,
    ) -> Result:
        """Time calls of a function, each until the device has done it.

        Parameters
        ----------
        func : callable
            What is called.
        args : sequence, default ()
            Its arguments by position.
        kwargs : mapping, optional
            Its arguments by name.
        num_iterations : int, default 100
            Calls that are timed.
        warmup_iterations : int, default 10
            Calls before.
        name : str, optional
            What the report calls it; default the function's name.

        Returns
        -------
        Result
            Also the last of ``results``.

        Raises
        ------
        ValueError
            If `num_iterations` is not positive, or `warmup_iterations` negative.
        """
        result = self._measure(func, args, kwargs, num_iterations, warmup_iterations, name)
        self.results.append(result)
        return result

    def _measure(self, func, args, kwargs, num_iterations, warmup_iterations, name) -> Result:
        if num_iterations < 1 or warmup_iterations < 0:
            raise ValueError(
                f"benchmark_function: num_iterations must be positive and warmup_iterations not negative, got "
                f"{num_iterations} and {warmup_iterations}"
            )
        given = dict(kwargs or {})
        with torch.aule.device(self.device):
            for _ in range(warmup_iterations):
                func(*args, **given)
            torch.aule.synchronize(self.device)
            torch.aule.reset_peak_memory_stats(self.device)
            before = torch.aule.memory_allocated(self.device)
            wall, _ = _timed(lambda: func(*args, **given), num_iterations, self.device)
        peak = torch.aule.max_memory_allocated(self.device) - before
        return Result(name or getattr(func, "__name__", type(func).__name__), statistics_of(wall), peak)

    def compare_implementations(
        self,
        implementations: Mapping[str, Callable[..., object]],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        num_iterations: int = 100,
        warmup_iterations: int = 10,
    ) -> dict[str, Result]:
        """Time functions on the same arguments.

        Parameters
        ----------
        implementations : mapping
            Name -> function.
        args, kwargs
            As of :meth:`benchmark_function`, for each.
        num_iterations, warmup_iterations : int
            As there.

        Returns
        -------
        dict
            Name -> Result, the fastest by the median first.

        Raises
        ------
        ValueError
            If there is none, or for a number as in :meth:`benchmark_function`.
        """
        if not implementations:
            raise ValueError("compare_implementations: implementations must have a function")
        found = [
            self._measure(func, args, kwargs, num_iterations, warmup_iterations, name)
            for name, func in implementations.items()
        ]
        found.sort(key=lambda result: result.statistics.median)
        self.results += found
        best = found[0].statistics.median
        lines = [f"{one.name}: {one.statistics.median / best:.2f} x the time of {found[0].name}" for one in found[1:]]
        self._notes.append(("comparison", [f"{found[0].name} is the fastest", *lines]))
        return {one.name: one for one in found}

    def profile_memory_usage(
        self, func: Callable[..., object], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> dict[str, int]:
        """Memory of one call.

        Parameters
        ----------
        func : callable
            What is called.
        args, kwargs
            As of :meth:`benchmark_function`.

        Returns
        -------
        dict
            Bytes in tensors: ``"before"``, ``"peak"``, ``"taken"`` (at the peak beyond before), ``"kept"`` (by the
            result).
        """
        torch.aule.synchronize(self.device)
        torch.aule.reset_peak_memory_stats(self.device)
        before = torch.aule.memory_allocated(self.device)
        with torch.aule.device(self.device):
            result = func(*args, **dict(kwargs or {}))
        torch.aule.synchronize(self.device)
        peak = torch.aule.max_memory_allocated(self.device)
        kept = torch.aule.memory_allocated(self.device) - before
        del result
        return {"before": before, "peak": peak, "taken": peak - before, "kept": kept}

    def analyze_kernel_efficiency(
        self,
        make: Callable[[int], Callable[[], object]],
        sizes: Sequence[int],
        num_iterations: int = 20,
        warmup_iterations: int = 3,
        name: str | None = None,
    ) -> list[dict[str, float | None]]:
        """The growth of a call's time with its size.

        Parameters
        ----------
        make : callable
            Size -> a function without arguments, its inputs made.
        sizes : sequence of int
            Growing.
        num_iterations, warmup_iterations : int
            Of each size, as in :meth:`benchmark_function`.
        name : str, optional
            What the report calls it; default the name of `make`.

        Returns
        -------
        list of dict
            For each size ``"size"``, ``"seconds"`` (median), ``"device_seconds"``, ``"exponent"`` (the power of the
            size by which time grew since the one before; None for the first) and ``"roof_share"`` (None if the
            device's roof was not measured).

        Raises
        ------
        ValueError
            If the sizes are none, not positive, or do not grow.
        """
        if not sizes or sizes[0] < 1 or any(b <= a for a, b in zip(sizes, sizes[1:])):
            raise ValueError(f"analyze_kernel_efficiency: sizes must be positive and grow, got {list(sizes)}")
        name = name or getattr(make, "__name__", type(make).__name__)
        roof = roofs.load(self.device)
        rows: list[dict[str, Any]] = []
        for size in sizes:
            with torch.aule.device(self.device):
                func = make(size)
            result = self._measure(func, (), None, num_iterations, warmup_iterations, f"{name}, {size}")
            self.results.append(result)
            seen = trace.take(func, TRACED_CALLS, roof)
            seconds, exponent = result.statistics.median, None
            if rows:
                exponent = math.log(seconds / rows[-1]["seconds"]) / math.log(size / rows[-1]["size"])
            least = sum(kernel.roof_seconds for kernel in seen.kernels)
            share = least / seen.device_seconds if least and seen.device_seconds else None
            rows.append({"size": size, "seconds": seconds, "device_seconds": seen.device_seconds,
                         "exponent": exponent, "roof_share": share})  # fmt: skip
        grown = [f"{row['size']}: time grows with the size to the power {row['exponent']:.2f}" for row in rows[1:]]
        self._notes.append((f"{name} by size", grown))
        return rows

    def generate_report(self, save_path: str | os.PathLike | None = None) -> str:
        """Everything that was measured, as text.

        Parameters
        ----------
        save_path : str or os.PathLike, optional
            Where it is written, too.

        Returns
        -------
        str
            A table of the results, then what was compared.

        Raises
        ------
        OSError
            If the file cannot be written.
        """
        p = torch.aule.get_device_properties(self.device)
        lines = [f"{p.name}, {p.driver_name} {p.driver_info}", ""]
        lines += table(_HEAD, [one.cells() for one in self.results]) if self.results else ["nothing was measured"]
        for title, notes in self._notes:
            lines += ["", title, *("  " + note for note in notes)]
        text = "\n".join(lines) + "\n"
        if save_path is not None:
            Path(save_path).write_text(text, encoding="utf-8")
        return text


def main(arguments: list[str] | None = None) -> int:
    """The command line.

    Parameters
    ----------
    arguments : list of str, optional
        Default: those of this process.

    Returns
    -------
    int
        The exit status: 0, or 2 without a device.
    """
    parser = argparse.ArgumentParser(prog="python -m torch_aule.profiling", description=__doc__.split("\n\n")[0])
    parser.add_argument("model", metavar="MODEL", help="of torchvision or transformers, or FILE_OR_MODULE:factory")
    add_model_options(parser, runs=20)
    parser.add_argument("--html", metavar="PAGE", help="write the report as a page, too")
    parser.add_argument("--device", type=int, default=0, help="index of the aule device")
    options = parser.parse_args(arguments)
    if not torch.aule.is_available():
        print(f"no aule device: {torch.aule.unavailable_reason()}", file=sys.stderr)
        return 2
    device = torch.device("aule", options.device)
    dtype = getattr(torch, options.dtype) if options.dtype else None
    model, x = model_named(options.model, options.batch, options.length)
    report = profile_model_inference(
        model.eval().to(device, dtype), moved(x, device, dtype), runs=options.runs, name=options.model
    )
    print(report)
    if options.html:
        report.save_html(options.html)
    return 0
