"""Draws the table of a kernel: a line for each provider, from the 20th to the 80th percentile, and the speed of light.

    python -m torch_aule.benchmark.visualize --kernel-name layer_norm --metric-name speed --kernel-operation-mode full

The pictures are made of the table alone; no device is needed.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from pathlib import Path

from torch_aule.benchmark.harness import options
from torch_aule.benchmark.harness.sweep import SPEED_OF_LIGHT
from torch_aule.benchmark.report import figure as figures
from torch_aule.benchmark.report import table

__all__ = ["draw", "main", "selected"]

LABELS = {
    "aule": "torch_aule (Vulkan)", "composed": "PyTorch's operators on aule", "cuda": "PyTorch on CUDA",
    "cpu": "PyTorch on the CPU", SPEED_OF_LIGHT: "speed of light: bytes / copy bandwidth",
}  # fmt: skip
WIDE = 20.0  # values that differ by more than this are drawn on a logarithmic axis


def _config(row: table.Row) -> str:
    return ",".join(f"{name}={value}" for name, value in sorted(row.extra_config.items()))


def _one(rows: list[table.Row], option: str, value: Callable[[table.Row], str]) -> None:
    found = dict.fromkeys(value(row) for row in rows)
    if len(found) > 1:
        raise ValueError(f"{option}: expected one of {'; '.join(found)}, for the table has them all")


def selected(
    rows: list[table.Row], metric: str, mode: str, config: dict[str, str] | None = None, gpu: str | None = None
) -> list[table.Row]:
    """The rows of one picture.

    Parameters
    ----------
    rows : list of Row
        Of one kernel.
    metric, mode : str
        Such as ``speed``, ``forward``.
    config : dict, optional
        Values of the extra configuration, or of the size along the axis, as text.
    gpu : str, optional
        Text that the device's name contains.

    Returns
    -------
    list of Row
        All of one device and one configuration.

    Raises
    ------
    ValueError
        If no row is left, or rows of several devices or configurations are; it says which there are.
    """
    rows = [row for row in rows if row.metric_name == metric and row.kernel_operation_mode == mode]
    if not rows:
        raise ValueError(f"the table has no {metric} of {mode}")
    config = config or {}
    known = {name for row in rows for name in (*row.extra_config, row.x_name)}
    if unknown := set(config) - known:
        raise ValueError(
            f"--extra-config-filter: no {', '.join(sorted(unknown))}; there are {', '.join(sorted(known))}"
        )
    all_of_them = dict.fromkeys(_config(row) for row in rows)
    rows = [row for row in rows if all(_has(row, name, value) for name, value in config.items())]
    if not rows:
        raise ValueError(f"--extra-config-filter: nothing has that; there are {'; '.join(all_of_them)}")
    if gpu is not None:
        there = dict.fromkeys(row.gpu_name for row in rows)
        rows = [row for row in rows if gpu in row.gpu_name]
        if not rows:
            raise ValueError(f"--gpu-name: no {gpu}; there are {'; '.join(there)}")
    _one(rows, "--gpu-name", lambda row: row.gpu_name)
    _one(rows, "--extra-config-filter", _config)
    for column in ("metric_unit", "x_name"):  # of a table that is not this program's
        _one(rows, column, lambda row, column=column: getattr(row, column))
    return rows


def _has(row: table.Row, name: str, value: str) -> bool:
    found = row.extra_config.get(name)
    if name == row.x_name:
        found = row.x_value
    try:
        return float(found) == float(value)
    except (TypeError, ValueError):
        return str(found) == value


def draw(rows: list[table.Row], path: Path | None, display: bool = False) -> None:
    """Draw rows of one metric, mode, device and configuration.

    Parameters
    ----------
    rows : list of Row
        As `selected` returns them.
    path : path or None
        Where the picture goes, by its suffix; None: nowhere.
    display : bool, default False
        Show it in a window too.

    Raises
    ------
    SystemExit
        If matplotlib is missing.
    """
    plt = figures.pyplot(display)
    picture, axis = plt.subplots(figsize=(7.5, 5.0))
    first, others, drawn = rows[0], 0, []
    unknown = {row.kernel_provider for row in rows} - {*figures.STYLES, SPEED_OF_LIGHT}
    order = [*figures.STYLES, *sorted(unknown), SPEED_OF_LIGHT]
    for provider in order:
        mine = sorted((row for row in rows if row.kernel_provider == provider), key=lambda row: row.x_value)
        if not mine:
            continue
        x, y = [row.x_value for row in mine], [row.y_value_50 for row in mine]
        label = LABELS.get(provider, provider)
        drawn.append(label)
        if provider == SPEED_OF_LIGHT:
            axis.plot(x, y, color=figures.DASHED, linestyle="--", linewidth=1.8, label=label, zorder=1)
            continue
        color, marker, width = figures.style(provider, others)
        others += provider in unknown
        below = [row.y_value_50 - row.y_value_20 for row in mine]
        above = [row.y_value_80 - row.y_value_50 for row in mine]
        axis.errorbar(x, y, yerr=[below, above] if any(below + above) else None, color=color, marker=marker,
                      markersize=5, linewidth=width, capsize=3, elinewidth=1.2, label=label,
                      zorder=3 if provider == "aule" else 2)  # fmt: skip
    figures.size_axis(axis, sorted({row.x_value for row in rows}))
    figures.tidy(axis)
    values = [value for row in rows for value in (row.y_value_20, row.y_value_80)]
    if min(values) > 0 and max(values) > WIDE * min(values):
        axis.set_yscale("log")
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    else:
        axis.set_ylim(bottom=0)
    axis.set_xlabel(f"{first.x_label}, {first.x_name}")
    axis.set_ylabel(f"{'time' if first.metric_unit in ('s', 'ms', 'us', 'ns') else first.metric_name}, "
                    f"{first.metric_unit}")  # fmt: skip
    day = max(row.timestamp for row in rows)[:10]
    about = [*(f"{name} {value}" for name, value in sorted(first.extra_config.items())), day]
    axis.set_title(f"{first.kernel_name}, {first.kernel_operation_mode}, on {first.gpu_name}", fontsize=11, pad=22)
    axis.annotate(", ".join(about), (0.5, 1), (0, 7), ha="center", fontsize=9, color="#5b6770",
                  xycoords="axes fraction", textcoords="offset points")  # fmt: skip
    handles, labels = axis.get_legend_handles_labels()  # bars come after lines there, whatever was drawn first
    shown = sorted(zip(labels, handles), key=lambda one: drawn.index(one[0]))
    picture.legend([handle for _, handle in shown], [label for label, _ in shown], loc="lower center", ncols=2,
                   frameon=False, fontsize=9)  # fmt: skip
    lines = -(-len(drawn) // 2)
    picture.tight_layout(rect=(0, 0.02 + 0.045 * lines, 1, 1))
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        picture.savefig(path, dpi=130)
    if display:
        if picture.canvas.required_interactive_framework is None:
            print("--display: matplotlib finds no display here", file=sys.stderr)
        else:
            plt.show()
    plt.close(picture)


def _file(folder: Path, row: table.Row, gpu: str | None) -> Path:
    parts = [row.kernel_name, row.metric_name, row.kernel_operation_mode, _config(row).replace("=", ""), gpu]
    return folder / (re.sub(r"[^\w.-]+", "_", "_".join(filter(None, parts))) + ".png")


def _parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(prog="python -m torch_aule.benchmark.visualize", description=__doc__.splitlines()[0])
    p.add_argument("--kernel-name", required=True, metavar="NAME", help="of data/NAME.csv")
    p.add_argument("--metric-name", metavar="NAME", help="speed or memory (default: a picture of each)")
    p.add_argument("--kernel-operation-mode", metavar="MODE", help="forward, backward or full (default: each)")
    p.add_argument("--extra-config-filter", type=options.pairs, default={}, metavar="M=4096,dtype=float32",
                   help="which of several configurations")  # fmt: skip
    p.add_argument("--gpu-name", metavar="TEXT", help="which of several devices: a part of its name")
    p.add_argument("--display", action="store_true", help="show it in a window too")
    p.add_argument("--overwrite", action="store_true", help="replace a picture that is there")
    p.add_argument("--folder", type=Path, default=table.folder(), help="with data/ and plots/ (%(default)s)")
    return p


def main(arguments: list[str] | None = None) -> int:
    """The command line.

    Parameters
    ----------
    arguments : list of str, optional
        Default: those of the process.

    Returns
    -------
    int
        0.

    Raises
    ------
    SystemExit
        If the arguments are wrong, there is no such table or row, or no matplotlib.
    """
    given = _parser().parse_args(arguments)
    source = given.folder / "data" / f"{given.kernel_name}.csv"
    if not source.is_file():
        raise SystemExit(f"--kernel-name: there is no {source}; benchmarks/reference.py makes it")
    try:
        rows = table.read(source)
        metrics = [given.metric_name] if given.metric_name else dict.fromkeys(row.metric_name for row in rows)
        modes = [given.kernel_operation_mode] if given.kernel_operation_mode else dict.fromkeys(
            row.kernel_operation_mode for row in rows
        )  # fmt: skip
        pictures = [selected(rows, metric, mode, given.extra_config_filter, given.gpu_name)
                    for metric in metrics for mode in modes]  # fmt: skip
    except ValueError as error:
        raise SystemExit(str(error)) from None
    for found in pictures:
        path = _file(given.folder / "plots", found[0], given.gpu_name)
        kept = path.exists() and not given.overwrite
        if not kept or given.display:
            draw(found, None if kept else path, given.display)
        print(f"{path} is kept; --overwrite replaces it" if kept else path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
