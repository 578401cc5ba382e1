"""Common parts of the pictures of ``plot`` and ``visualize``. matplotlib comes with the extra `demo`."""

from __future__ import annotations

import math
from collections.abc import Iterable

# Provider -> color, marker, width of its line
STYLES = {
    "aule": ("#d1495b", "o", 2.4),
    "composed": ("#e0a458", "v", 1.6),
    "cuda": ("#2e6f95", "s", 1.6),
    "cudnn": ("#7a9e3c", "^", 1.6),
    "cpu": ("#5b6770", "D", 1.6),
}
OTHERS = ("#8a5a9e", "#3a9188", "#a0674b", "#c06c9b")  # of providers that are not among them, in turn
DASHED = "#8a5a9e"
MOST_TICKS = 20


def pyplot(display: bool = False):
    """matplotlib.pyplot, for files only or for a window too; ends with a line where there is no matplotlib."""
    try:
        import matplotlib
    except ImportError:
        raise SystemExit("a plot needs matplotlib: pip install torch_aule[demo]") from None
    if not display:
        matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def style(provider: str, number: int = 0) -> tuple[str, str, float]:
    """Color, marker and width; `number` counts the providers that have none of their own."""
    return STYLES.get(provider, (OTHERS[number % len(OTHERS)], "P", 1.6))


def tidy(axis) -> None:
    """A light grid behind the lines, and no frame above and to the right."""
    axis.grid(True, color="#e4e4e4", linewidth=0.7)
    axis.set_axisbelow(True)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


def size_axis(axis, sizes: Iterable[float]) -> None:
    """Logarithmic, with a tick at each size, but for those that would be written over the one before."""
    from matplotlib.ticker import NullLocator

    sizes, shown = list(sizes), []
    for size in sizes:
        if not shown or math.log(size / shown[-1]) >= math.log(max(sizes) / min(sizes)) / MOST_TICKS:
            shown.append(size)
    axis.set_xscale("log", base=2)
    axis.set_xticks(shown, [f"{n / 1024:g}k" if n >= 1024 and n % 256 == 0 else f"{n:g}" for n in shown])
    axis.xaxis.set_minor_locator(NullLocator())
