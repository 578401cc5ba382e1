"""Whether device, driver, compiler and kernels work, and what bounds a model.

    python -m torch_aule.doctor [--model module:factory]

The self-test runs one small call of each kind of kernel and compares it with the CPU. A model is held against what the
device can reach: copies in bytes, products in operations per second.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn as nn
import torch.nn.functional as F

from torch_aule import info, profiling
from torch_aule.backend.fallback import strict
from torch_aule.doctor import bound, pretend
from torch_aule.doctor.kernels import KERNELS
from torch_aule.glsl.compiler import CompilerMissing, find_compiler
from torch_aule.indices import DeviceLike, checked_index
from torch_aule.measure import roof as roofs
from torch_aule.measure.errors import errors, tolerance_of
from torch_aule.measure.models import add_model_options, model_named, moved
from torch_aule.measure.numbers import bytes_text, percent_text, table, time_text, writer
from torch_aule.measure.runs import given
from torch_aule.measure.timing import Stopwatch

__all__ = ["Check", "Diagnosis", "diagnose", "main", "self_test"]

REPEATS = 200  # of a call; on a phone 23 of 100 were wrong elsewhere
MEMORY_BYTES = 1 << 24


class _Skipped(Exception):
    """A check has nothing to look at."""


@dataclass(frozen=True)
class Check:
    """One check of :func:`self_test`.

    Parameters
    ----------
    name : str
        What was looked at.
    passed : bool or None
        None if it is not there to be looked at, which is no failure.
    detail : str
        What was found, or what went wrong.
    seconds : float
        How long it took.
    """

    name: str
    passed: bool | None
    detail: str
    seconds: float

    @property
    def verdict(self) -> str:
        """In a word: "ok", "skipped" or "FAILED"."""
        return "skipped" if self.passed is None else "ok" if self.passed else "FAILED"


@dataclass(frozen=True)
class Diagnosis:
    """The findings of :func:`diagnose`; printing them shows everything.

    Parameters
    ----------
    bound : str
        "compute", "bandwidth", or "host": the device waits for work.
    shares : dict
        "compute" and "bandwidth": the kernels' part of the device's time that is bound by each.
    host_share : float
        Of a call: the time in which the device has nothing to do.
    roof_share : float
        The least time for the work by the device's roof, of the device's time.
    hints : list of str
        What to do, the first thing first.
    report : torch_aule.profiling.Report
        What it was read from.
    """

    bound: str
    shares: dict[str, float]
    host_share: float
    roof_share: float
    hints: list[str]
    report: profiling.Report

    def __str__(self) -> str:
        r = self.report
        means = {
            "compute": "most of the device's time is arithmetic",
            "bandwidth": "most of the device's time is reading and writing memory",
            "host": "the device waits for the host",
        }
        return "\n".join(
            [
                f"{r.model} ({r.inputs}): {self.bound}-bound, {means[self.bound]}",
                f"  a call takes {time_text(r.wall.median)}, {percent_text(self.host_share)} of it without the device",
                f"  of the device's time {percent_text(self.shares['compute'])} is bound by arithmetic, "
                f"{percent_text(self.shares['bandwidth'])} by memory; "
                f"the roof's part is {percent_text(self.roof_share)}",
                *(f"  - {hint}" for hint in self.hints),
            ]
        )


def _driver(device: torch.device) -> str:
    p = torch.aule.get_device_properties(device)
    kind = "a software device: right, but slow" if p.kind == "cpu" else p.kind
    return f"{p.driver_name} {p.driver_info}, Vulkan {'.'.join(map(str, p.vulkan_version))}, {kind}"


def _memory(device: torch.device) -> str:
    free, total = torch.aule.mem_get_info(device)
    count = max(1, min(MEMORY_BYTES, free // 8) // 4)
    before = torch.aule.memory_allocated(device)
    pattern = torch.arange(count, dtype=torch.int32) * 40503
    x = pattern.to(device)
    if not torch.equal(x.clone().cpu(), pattern):
        raise RuntimeError(f"{bytes_text(4 * count)} come back changed")
    del x
    left = torch.aule.memory_allocated(device) - before
    if left:
        raise RuntimeError(f"{bytes_text(left)} are still taken after they were given back")
    return f"{bytes_text(4 * count)} there and back; {bytes_text(free)} of {bytes_text(total)} free"


def _compiler(device: torch.device) -> str:
    try:
        found = find_compiler()
    except CompilerMissing as missing:
        raise _Skipped(str(missing)) from missing
    x, y = torch.randn(37, 41), torch.randn(41)

    def function(x, y):
        return torch.tanh(x * y + 1).sum(-1)

    compiled = torch.compile(function, fullgraph=True)(x.to(device), y.to(device))
    return f"{found.identity}; torch.compile: {_agree([(compiled, function(x.double(), y.double()))])}"


def _agree(pairs) -> str:
    worst = 0.0
    for actual, expected in pairs:
        limit = tolerance_of({actual.dtype}).outputs
        error = errors(actual, expected)[0]
        if error > limit:
            raise RuntimeError(f"off by {error:.1e} of the largest element, may be {limit:.0e}")
        worst = max(worst, error)
    return f"largest relative difference {worst:.1e}"


def _run(kernel: Callable, to: Callable) -> str:
    return _agree(kernel(to))


def _repeated(device: torch.device) -> str:
    """A product, an attention and a convolution many times: one call does not show a driver that is wrong now and then.

    Kernels add in an order of their own that does not change, so all bits are the same.
    """
    q, image = torch.randn(2, 4, 97, 64, device=device), torch.randn(2, 8, 23, 19, device=device)
    weight, filters = torch.randn(64, 64, device=device), torch.randn(8, 8, 3, 3, device=device)
    calls: dict[str, Callable[[], torch.Tensor]] = {
        "linear": lambda: F.linear(q, weight),
        "attention": lambda: F.scaled_dot_product_attention(q, q, q),
        "convolution": lambda: F.conv2d(image, filters, padding=1),
    }
    for name, call in calls.items():
        first = call().view(torch.int32)
        changed = torch.stack([(call().view(torch.int32) != first).any() for _ in range(REPEATS)]).sum().item()
        if changed:
            raise RuntimeError(f"{name}: {changed} of {REPEATS} calls gave other bits than the first")
    return f"{', '.join(calls)}: the same bits in {REPEATS} calls each"


def _checked(name: str, look: Callable[[], str]) -> Check:
    start = Stopwatch()
    passed: bool | None = True
    try:
        with strict():
            detail = look()
    except _Skipped as reason:
        passed, detail = None, str(reason)
    except Exception as error:  # whatever it is: it is what the doctor was asked to find, and the other checks go on
        passed, detail = False, f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
    return Check(name, passed, detail, start.seconds)


def self_test(device: DeviceLike = None) -> list[Check]:
    """Check a device, its driver, memory, the compiler, a kernel of each kind, and that calls repeat their results.

    Every check runs in strict mode: an operator that would run on the CPU fails it.

    Parameters
    ----------
    device : torch.device, str or int, optional
        Default: the current device.

    Returns
    -------
    list of Check
        In the order in which they ran. Without any device there is one, which failed.

    Examples
    --------
    >>> assert all(check.passed is not False for check in torch_aule.doctor.self_test())
    """
    if not torch.aule.is_available():
        return [Check("device", False, torch.aule.unavailable_reason(), 0.0)]
    where = torch.device("aule", checked_index(device))

    def to(t: torch.Tensor) -> torch.Tensor:
        return t.to(where)

    with torch.aule.device(where):
        found = [_checked("device", lambda: torch.aule.get_device_name(where))]
        for name, look in (("driver", _driver), ("memory", _memory), ("compiler", _compiler)):
            found.append(_checked(name, functools.partial(look, where)))
        for name, kernel in KERNELS.items():
            found.append(_checked(name, functools.partial(_run, kernel, to)))
        found.append(_checked("repeated calls", functools.partial(_repeated, where)))
    return found


def diagnose(
    model: nn.Module, x: Any, *, roof: roofs.Roof | None = None, runs: int = 10, name: str | None = None
) -> Diagnosis:
    """Tell whether a model's inference is bound by arithmetic, by memory or by the host, and what to do.

    The model runs without gradients in the mode that it has, with operators on the CPU allowed.

    Parameters
    ----------
    model : torch.nn.Module
        On an aule device.
    x : torch.Tensor, tuple, list or dict
        Its input, inputs by position, or by name; on the same device.
    roof : torch_aule.measure.roof.Roof, optional
        What the device can reach. Default: what was measured and kept, else it is measured, which takes some seconds.
    runs : int, default 10
        Calls that are timed.
    name : str, optional
        What the result calls the model; default the name of its class.

    Returns
    -------
    Diagnosis
        What bounds it, and hints.

    Raises
    ------
    ValueError
        If model and inputs are not on one aule device, or `runs` is not positive.

    Examples
    --------
    >>> print(torch_aule.doctor.diagnose(model.eval(), x))
    """
    if runs < 1:
        raise ValueError(f"diagnose: expected runs to be positive, got {runs}")
    inputs = given(x)
    device = profiling._where(model, inputs)
    with strict(False), torch.aule.device(device):
        roof = roof or roofs.load(device) or roofs.measure(device)
        report = profiling.profile_model_inference(model, inputs, runs=runs, roof=roof, name=name)
        hints = bound.hints(report, model, inputs, runs)
    least = sum(kernel.roof_seconds for kernel in report.trace.kernels)
    spent = sum(kernel.seconds for kernel in report.trace.kernels)
    return Diagnosis(
        bound=bound.bound_of(report),
        shares=bound.shares(report),
        host_share=bound.host_share(report),
        roof_share=min(1.0, least / spent) if spent else 0.0,
        hints=hints,
        report=report,
    )


def main(arguments: list[str] | None = None) -> int:
    """The command line.

    Parameters
    ----------
    arguments : list of str, optional
        Default: those of this process.

    Returns
    -------
    int
        The exit status: 1 if a check failed, 2 if there is no such set of limits, else 0.
    """
    parser = argparse.ArgumentParser(prog="python -m torch_aule.doctor", description=__doc__.split("\n\n")[0])
    parser.add_argument("--model", help="of torchvision or transformers, path.py:factory or module:factory")
    add_model_options(parser, runs=10)
    parser.add_argument("--device", type=int, default=0, help="index of the aule device")
    parser.add_argument("--report", action="store_true", help="begin with the environment, as collect_env prints it")
    parser.add_argument(
        "--as", dest="pretended", metavar="SET", help="pretend another device: its limits, and without what it lacks"
    )
    options = parser.parse_args(arguments)
    if options.pretended is not None:
        sets = pretend.sets()
        if options.pretended not in sets:
            print(pretend.unknown(options.pretended), file=sys.stderr)
            return 2
        if not sets[options.pretended]["active"]:
            return pretend.run(options.pretended, sys.argv[1:] if arguments is None else arguments)
    write = writer()
    if options.report:
        from torch_aule import collect_env

        collect_env.main()
    else:
        write(info.backend_info())
    if torch.aule.is_available():
        for line in pretend.lines(options.device):
            write(line)
    checks = self_test(options.device)
    rows = [[check.name, check.verdict, time_text(check.seconds), check.detail] for check in checks]
    for line in ("", "self-test", *_aligned(["check", "", "time", "found"], rows)):
        write(line)
    failed = [check.name for check in checks if check.passed is False]
    write("")
    write(f"{len(failed)} of {len(checks)} checks failed: {', '.join(failed)}" if failed else "every check passed")
    if failed:
        write("python -m torch_aule.doctor --report has what a report about this needs")
    if options.model and torch.aule.is_available():
        device = torch.device("aule", options.device)
        dtype = getattr(torch, options.dtype) if options.dtype else None
        model, x = model_named(options.model, options.batch, options.length)
        model, x = model.eval().to(device, dtype), moved(x, device, dtype)
        for line in ("", *str(diagnose(model, x, runs=options.runs, name=options.model)).splitlines()):
            write(line)
    return 1 if failed else 0


def _aligned(head: list[str], rows: list[list[str]]) -> list[str]:
    """A table whose last column is prose, to the left."""
    lines = table(head[:-1], [row[:-1] for row in rows])
    width = max(map(len, lines))
    return [f"{line:{width}}  {row[-1]}".rstrip() for line, row in zip(lines, [head, *rows], strict=True)]
