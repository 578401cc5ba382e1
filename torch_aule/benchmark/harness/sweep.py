"""Speed and memory of a reference kernel over one of its sizes, into a table; benchmarks/reference.py calls `main`.

Cases and timing are those of ``python -m torch_aule.benchmark --kernel``: providers in alternating samples, each result
held against the others'.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Callable
from pathlib import Path

import torch

from torch_aule.backend.fallback import strict
from torch_aule.benchmark.cases.chosen import kernel_cases
from torch_aule.benchmark.harness import options, run, timing
from torch_aule.benchmark.harness.case import GPU, SOFTWARE, Sizes, Wanted
from torch_aule.benchmark.harness.kernels import KERNELS, MODES
from torch_aule.benchmark.report import table
from torch_aule.benchmark.report.record import SECONDS, Record
from torch_aule.measure import roof

__all__ = ["main", "measure"]

SPEED_OF_LIGHT = "speed_of_light"  # a provider whose time is that of the bytes
LARGE = (1024, 2048, 4096, 8192, 16384)
SMALL = (64, 128, 256)


def measure(
    name: str, sizes: Sizes, settings: timing.Settings, providers: list[str], bandwidth: float | None = None,
    emit: Callable[[list[table.Row]], None] = lambda rows: None,
) -> tuple[list[table.Row], list[str]]:  # fmt: skip
    """Measure the cases of a kernel on the current device.

    Parameters
    ----------
    name : str
        Of `kernels.KERNELS`.
    sizes : Sizes
        With `wanted`: which sizes, modes and dtypes.
    settings : timing.Settings
        How often.
    providers : list of str
        What is timed beside aule: ``composed``, ``cpu``, ``cuda``.
    bandwidth : float, optional
        Bytes per second. With it each case has a row of the provider ``speed_of_light`` too.
    emit : callable, optional
        Gets the rows of each case as soon as it is measured.

    Returns
    -------
    rows : list of Row
        ``speed`` in ms and, of devices with a memory of their own, ``memory`` in MiB: the most that a call takes
        beyond what was held before it.
    failures : list of str
        A line for each provider that failed, or whose result differs from the others'.

    Raises
    ------
    ValueError
        If the kernel has no such size.
    """
    described = {case.key: (extents, mode, case) for extents, mode, case in kernel_cases(sizes, sizes.wanted, name)}
    kernel, rows, failures = KERNELS[name], [], []
    gpu = torch.aule.get_device_properties().name

    def of_record(record: Record) -> None:
        extents, mode, case = described[record.key]
        about = {
            "kernel_name": name, "kernel_operation_mode": mode, "x_name": kernel.x, "x_label": kernel.label,
            "x_value": float(extents[kernel.x]), "gpu_name": gpu,
            "extra_config": {**{size: extents[size] for size in kernel.other}, "dtype": case.dtype},
        }  # fmt: skip
        speed = {**about, "metric_name": "speed", "metric_unit": "ms"}
        found = []
        for provider, result in record.results.items():
            if provider in record.errors:
                continue
            to_ms = SECONDS[result.unit] * 1e3
            found.append(table.Row.of_samples((s * to_ms for s in result.samples), kernel_provider=provider, **speed))
            if "peak_mib" in result.values:
                memory = {**about, "metric_name": "memory", "metric_unit": "MiB", "kernel_provider": provider}
                found.append(table.Row.of_samples([result.values["peak_mib"]], **memory))
        if bandwidth:
            least = [case.bytes / bandwidth * 1e3]
            found.append(table.Row.of_samples(least, kernel_provider=SPEED_OF_LIGHT, **speed))
        failures.extend(f"{record.name}: {provider}: {error}" for provider, error in record.errors.items())
        rows.extend(found)
        emit(found)

    with strict():  # a number must never be the CPU's in disguise
        run.run([case for *_, case in described.values()], run.environment(settings), of_record,
                baselines=providers, sizes=sizes, settings=settings, quiet=True)  # fmt: skip
    return rows, failures


def _kept_lines(rows: list[table.Row]) -> list[str]:
    """One for each line of a plot."""
    lines: dict[str, list[str]] = {}
    for row in rows:
        extra = ", ".join(f"{name}={value}" for name, value in row.extra_config.items())
        line = f"{row.kernel_name} {row.kernel_operation_mode} {row.metric_name} of {row.kernel_provider} ({extra})"
        lines.setdefault(f"{line}: kept for {row.x_name}", []).append(f"{row.x_value:g}")
    return [f"{line} {', '.join(values)}; --overwrite replaces it" for line, values in lines.items()]


def _modes(text: str) -> tuple[str, ...]:
    found = tuple(part for part in text.replace(" ", ",").split(",") if part)
    if not found or set(found) - set(MODES):
        raise argparse.ArgumentTypeError(f"expected some of {', '.join(MODES)}, got {text!r}")
    return found


def _parser(name: str) -> argparse.ArgumentParser:
    kernel = KERNELS[name]
    p = argparse.ArgumentParser(description=f"Measure {name} over its {kernel.label}, and keep it in a table.")
    p.add_argument("--overwrite", action="store_true", help="replace what the table has of the same")
    p.add_argument("--modes", type=_modes, default=MODES, metavar="A,B", help=f"of {', '.join(MODES)} (default: all)")
    p.add_argument("--sizes", type=options.numbers, default=(), metavar="N,N", help=f"of {kernel.x}")
    p.add_argument("--config", type=options.pairs, default={}, metavar="NAME=N", help=f"of {', '.join(kernel.other)}")
    p.add_argument("--dtypes", type=options.dtypes, default=("float32",), metavar="A,B", help="default: float32")
    p.add_argument("--providers", type=options.providers, metavar="A,B", help="of aule, composed, cpu, cuda")
    p.add_argument("--iterations", type=int, default=20, metavar="N", help="samples of each (default %(default)s)")
    p.add_argument("--warmup", type=int, default=0, metavar="N", help="further calls before a case is timed")
    p.add_argument("--sol", action="store_true", help="the time of the bytes at the measured copy bandwidth too")
    p.add_argument("--bandwidth", type=float, metavar="GB/S", help="--sol with this instead")
    p.add_argument("--max-memory", type=float, metavar="GIB", help="a case that needs more of the device fails")
    p.add_argument("--small", action="store_true", help="the sizes of a software device, also on a GPU")
    p.add_argument("--device", type=int, default=0, help="index of the aule device")
    p.add_argument("--folder", type=Path, default=table.folder(), help="the table is in its data/ (%(default)s)")
    return p


def _wanted(p: argparse.ArgumentParser, given: argparse.Namespace, name: str, software: bool) -> Sizes:
    try:
        other = {size: int(value) for size, value in given.config.items()}
        KERNELS[name].sizes(1, other)
    except ValueError as error:
        p.error(f"--config: {error}")
    if min(other.values(), default=1) < 1:
        p.error("--config: expected positive sizes")
    wanted = Wanted(kernels=(name,), sizes=given.sizes or (SMALL if software else LARGE), dtypes=given.dtypes,
                    modes=given.modes, other=other)  # fmt: skip
    return dataclasses.replace(SOFTWARE if software else GPU, wanted=wanted)


def main(name: str, arguments: list[str] | None = None) -> int:
    """The command line of benchmarks/reference.py for a kernel.

    Parameters
    ----------
    name : str
        Of `kernels.KERNELS`.
    arguments : list of str, optional
        Default: those of the process.

    Returns
    -------
    int
        0; 1 if a case failed, 2 without a device.

    Raises
    ------
    SystemExit
        If the arguments are wrong.
    """
    p = _parser(name)
    given = p.parse_args(arguments)
    if given.iterations < 1 or given.warmup < 0 or given.bandwidth is not None and not given.bandwidth > 0:
        p.error("--iterations and --bandwidth must be positive, --warmup must not be negative")
    if not torch.aule.is_available():
        print(f"no aule device: {torch.aule.unavailable_reason()}", file=sys.stderr)
        return 2
    torch.aule.set_device(given.device)
    software = given.small or torch.aule.get_device_properties().kind == "cpu"
    sizes = _wanted(p, given, name, software)
    n = given.iterations
    settings = timing.Settings(samples=n, wall_samples=n, warmup=given.warmup, exact=True)
    bandwidth = given.bandwidth and given.bandwidth * 1e9
    if given.sol and not bandwidth:
        bandwidth = (roof.load() or roof.measure()).bandwidth
    # At a GPU's sizes the CPU would take hours.
    default = ["composed", *(["cpu"] if software else []), *(["cuda"] if torch.cuda.is_available() else [])]
    providers = options.baselines(given.providers) if given.providers else default
    path, kept = given.folder / "data" / f"{name}.csv", []
    with options.memory_limit(given.max_memory):
        rows, failures = measure(name, sizes, settings, providers, bandwidth,
                                 lambda found: kept.extend(table.update(path, found, given.overwrite)))  # fmt: skip
    for line in (*_kept_lines(kept), *failures):
        print(line, file=sys.stderr)
    print(f"{len(rows) - len(kept)} rows in {path}")
    return 1 if failures else 0
