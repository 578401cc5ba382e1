"""Draws attention's TFLOPS over sequence length from the JSON lines of ``python -m torch_aule.benchmark --attention``.

    python benchmarks/plot_attention.py benchmarks/results/h200.jsonl --out benchmarks/results/attention-h200.png

A panel each for forward and backward, plain and causal, D 64 and 128 side by side; float16.
"""

from __future__ import annotations

import argparse
import json
import re

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

AULE_ATTENTION = 0.25  # TFLOPS of aule-attention 0.5.0, forward, best variant, measured on the same machine
SERIES = {
    "aule": ("torch_aule (Vulkan)", "#d1495b", "o", 2.4),
    "cuda": ("CUDA FlashAttention-2", "#2e6f95", "s", 1.6),
    "cudnn": ("cuDNN attention", "#7a9e3c", "^", 1.6),
}


def points(lines: list[dict], case: str, dim: int, dtype: str) -> dict[str, dict[int, float]]:
    """name -> length -> TFLOPS, of the rows with as many key heads as query heads and a power of two as length."""
    found: dict[str, dict[int, float]] = {name: {} for name in SERIES}
    for line in lines:
        shape = re.fullmatch(r"B\d+ H(\d+)/(\d+) N(\d+) D(\d+)", line.get("shapes", ""))
        if line.get("case") != case or line.get("dtype") != dtype or not shape:
            continue
        heads, kv_heads, length, width = map(int, shape.groups())
        if heads != kv_heads or width != dim or length & (length - 1):
            continue
        for name in SERIES:
            if "tflops" in line.get(name, {}):
                found[name][length] = line[name]["tflops"]
    return found


def draw(lines: list[dict], path: str, dtype: str, dims: list[int]) -> None:
    panels = [("sdpa_forward", "forward"), ("sdpa_forward_causal", "forward, causal"),
              ("sdpa_backward", "backward"), ("sdpa_backward_causal", "backward, causal")]  # fmt: skip
    figure, axes = plt.subplots(len(dims), len(panels), figsize=(3.7 * len(panels), 3.3 * len(dims)), sharey=True,
                                sharex=True, squeeze=False)  # fmt: skip
    shown = {}
    for row, dim in enumerate(dims):
        for column, (case, title) in enumerate(panels):
            axis = axes[row][column]
            for name, values in points(lines, case, dim, dtype).items():
                label, color, marker, width = SERIES[name]
                if values:
                    lengths = sorted(values)
                    speeds = [values[n] for n in lengths]
                    (shown[label],) = axis.plot(lengths, speeds, color=color, marker=marker, markersize=5,
                                                linewidth=width, zorder=3 if name == "aule" else 2)  # fmt: skip
            if case == "sdpa_forward" and dim == 64:  # the one that was measured; head dim 128 it refuses
                label = "aule-attention 0.5.0 (Vulkan)"
                shown[label] = axis.axhline(AULE_ATTENTION, color="#8a5a9e", linestyle="--", linewidth=2.2, zorder=4,
                                            clip_on=False)  # fmt: skip
                axis.annotate(f"aule-attention 0.5.0: {AULE_ATTENTION:g}", (1, AULE_ATTENTION), (-2, 5), ha="right",
                              xycoords=("axes fraction", "data"), textcoords="offset points", fontsize=8,
                              color="#8a5a9e")  # fmt: skip
            axis.set_xscale("log", base=2)
            axis.set_title(f"{title}, D {dim}", fontsize=10)
            axis.grid(True, color="#e4e4e4", linewidth=0.7)
            axis.set_axisbelow(True)
            for side in ("top", "right"):
                axis.spines[side].set_visible(False)
            if column == 0:
                axis.set_ylabel("TFLOPS")
            if row == len(dims) - 1:
                axis.set_xlabel("sequence length")
    lengths = sorted({int(n) for n in re.findall(r" N(\d+) D", " ".join(x.get("shapes", "") for x in lines))})
    lengths = [n for n in lengths if n & (n - 1) == 0]
    axes[0][0].set_xticks(lengths, [f"{n // 1024}k" if n >= 1024 else str(n) for n in lengths])
    axes[0][0].xaxis.set_minor_locator(matplotlib.ticker.NullLocator())
    axes[0][0].set_ylim(bottom=0)
    about = next(x for x in lines if "device" in x)
    figure.suptitle(f"Attention, {dtype}: {about['device']}, {about['driver']}, torch {about['torch']}, "
                    f"{about.get('date', '')}", fontsize=11)  # fmt: skip
    figure.legend(shown.values(), shown.keys(), loc="lower center", ncols=len(shown), frameon=False, fontsize=10)
    figure.tight_layout(rect=(0, 0.05, 1, 0.98))
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", help="JSON lines that the benchmark saved")
    parser.add_argument("--out", default="benchmarks/results/attention.png", help="picture to write (.png or .svg)")
    parser.add_argument("--dtype", default="float16")
    parser.add_argument("--dims", type=int, nargs="+", default=[64, 128])
    options = parser.parse_args()
    with open(options.results) as file:
        lines = [x for x in map(json.loads, file) if x.get("group") == "attention"]
    draw(lines, options.out, options.dtype, options.dims)
    print(options.out)


if __name__ == "__main__":
    main()
