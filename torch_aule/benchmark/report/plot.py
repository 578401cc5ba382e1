"""Draws attention's rate over sequence length: a panel each for forward and backward, plain and causal."""

from __future__ import annotations

import re
from collections import Counter

from torch_aule.benchmark.report import figure as figures
from torch_aule.benchmark.report.record import Record

SERIES = {
    "aule": "torch_aule (Vulkan)", "cuda": "CUDA FlashAttention-2", "cudnn": "cuDNN attention",
    "cpu": "PyTorch on the CPU",
}  # fmt: skip
PANELS = {
    "sdpa_forward": "forward", "sdpa_forward_causal": "forward, causal",
    "sdpa_backward": "backward", "sdpa_backward_causal": "backward, causal",
}  # fmt: skip
Points = dict[str, dict[int, float]]  # runner -> length -> TFLOPS


def points(records: list[Record], case: str, dim: int, dtype: str) -> Points:
    """Of the cases with as many key heads as query heads and a power of two as length."""
    found: Points = {name: {} for name in SERIES}
    for record in records:
        shape = re.fullmatch(r"B\d+ H(\d+)/(\d+) N(\d+) D(\d+)", record.shapes)
        if record.case != case or record.dtype != dtype or not shape:
            continue
        heads, kv_heads, length, width = map(int, shape.groups())
        if heads != kv_heads or width != dim or length & (length - 1):
            continue
        for name in SERIES:
            if name in record.results and record.results[name].tflops is not None:
                found[name][length] = record.results[name].tflops
    return found


def dims(records: list[Record]) -> list[int]:
    """Head dims of the attention in a record."""
    shapes = [re.search(r" D(\d+)", record.shapes) for record in records if record.group == "attention"]
    return [int(shape[1]) for shape in shapes if shape]


def chosen_dtype(records: list[Record]) -> str:
    count = Counter(record.dtype for record in records)
    return "float16" if "float16" in count else count.most_common(1)[0][0]


def draw(records: list[Record], path: str, dtype: str | None = None, dims: list[int] | None = None,
         marks: dict[str, float] | None = None) -> None:  # fmt: skip
    """Writes the picture to `path`. `marks` are dashed lines in the first panel, in TFLOPS."""
    plt = figures.pyplot()
    records = [record for record in records if record.group == "attention"]
    dtype = dtype or (chosen_dtype(records) if records else "float16")
    series = {(dim, case): points(records, case, dim, dtype) for dim in dims or [64, 128] for case in PANELS}
    series = {place: found for place, found in series.items() if any(found.values())}
    if not series:
        raise SystemExit(f"plot: the record has no attention in {dtype} over sequence lengths")
    rows = sorted({dim for dim, _ in series})
    columns = [case for case in PANELS if any(case == c for _, c in series)]
    figure, axes = plt.subplots(len(rows), len(columns), figsize=(max(7.5, 3.7 * len(columns)), 3.3 * len(rows) + 1.0),
                                sharey=True, sharex=True, squeeze=False)  # fmt: skip
    shown = {}
    for (dim, case), found in series.items():
        axis = axes[rows.index(dim)][columns.index(case)]
        for name, values in found.items():
            label, (color, marker, width) = SERIES[name], figures.style(name)
            if values:
                lengths = sorted(values)
                speeds = [values[n] for n in lengths]
                (shown[label],) = axis.plot(lengths, speeds, color=color, marker=marker, markersize=5, linewidth=width,
                                            zorder=3 if name == "aule" else 2)  # fmt: skip
    for label, value in (marks or {}).items():
        shown[label] = axes[0][0].axhline(value, color=figures.DASHED, linestyle="--", linewidth=2.2, clip_on=False)
        axes[0][0].annotate(f"{label}: {value:g}", (1, value), (-2, 5), ha="right", fontsize=8, color=figures.DASHED,
                            xycoords=("axes fraction", "data"), textcoords="offset points")  # fmt: skip
    for row, dim in enumerate(rows):
        for column, case in enumerate(columns):
            axis = axes[row][column]
            axis.set_visible((dim, case) in series)
            axis.set_title(f"{PANELS[case]}, D {dim}", fontsize=10)
            figures.tidy(axis)
            if not any((dim, other) in series for other in columns[:column]):
                axis.set_ylabel("TFLOPS")
                axis.tick_params(labelleft=True)
            if not any((other, case) in series for other in rows[row + 1 :]):
                axis.set_xlabel("sequence length, tokens")
                axis.tick_params(labelbottom=True)
    lengths = sorted({n for found in series.values() for values in found.values() for n in values})
    for axis in axes.flat:
        figures.size_axis(axis, lengths)
    axes[0][0].set_ylim(bottom=0)
    run = records[0].run
    about = [run.driver, run.torch and f"torch {run.torch}", run.revision and f"revision {run.revision}", run.date]
    figure.suptitle(f"Attention in {dtype} on {run.device}\n{', '.join(filter(None, about))}", fontsize=11)
    figure.legend(shown.values(), shown.keys(), loc="lower center", ncols=len(shown), frameon=False, fontsize=10)
    figure.tight_layout(rect=(0, 0.06 if len(rows) > 1 else 0.09, 1, 1))
    figure.savefig(path, dpi=130)
    plt.close(figure)
