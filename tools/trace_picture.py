"""Draws a trace that torch.profiler exported, and the table of its dearest operators and kernels, as one picture.

python tools/trace_picture.py trace.json table.txt picture.png
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt  # noqa: E402

COLORS = {
    "kernel": "tab:blue", "gpu_memcpy": "tab:orange", "gpu_memset": "tab:olive", "gpu_user_annotation": "tab:green",
    "cpu_op": "lightgray", "user_annotation": "tab:green", "privateuse1_runtime": "tab:red",
}  # fmt: skip


def rows_of(events: list[dict]) -> dict[tuple, list[dict]]:
    """Complete events by row: the host's threads, then the device's streams."""
    rows: dict[tuple, list[dict]] = {}
    for event in events:
        if event.get("ph") == "X" and event.get("cat") in COLORS:
            on_device = event["cat"] in ("kernel", "gpu_memcpy", "gpu_memset")
            if event["cat"] == "gpu_user_annotation":
                continue  # around the others
            kind = "device" if on_device else "driver" if event["cat"] == "privateuse1_runtime" else "host"
            rows.setdefault((kind, event["pid"], event["tid"]), []).append(event)
    order = {"host": 0, "driver": 1, "device": 2}
    return dict(sorted(rows.items(), key=lambda item: (order[item[0][0]], str(item[0][1:]))))


def draw(trace: Path, table: Path, picture: Path) -> None:
    """Write the picture."""
    events = json.loads(trace.read_text())["traceEvents"]
    rows = rows_of(events)
    start = min(event["ts"] for row in rows.values() for event in row)
    figure, (above, below) = plt.subplots(2, 1, figsize=(13, 7), height_ratios=[1, 1.1])
    names = []
    for y, ((kind, _pid, tid), row) in enumerate(rows.items()):
        names.append({"host": f"host, thread {tid}", "driver": "submit, wait", "device": f"device, stream {tid}"}[kind])
        # Ranges lie around operators.
        for category in sorted({event["cat"] for event in row}, key=lambda name: name != "user_annotation"):
            bars = [((e["ts"] - start) / 1e3, max(e["dur"], 1) / 1e3) for e in row if e["cat"] == category]
            height = 0.9 if category == "user_annotation" else 0.7
            above.broken_barh(
                bars, (y - height / 2, height), facecolors=COLORS[category], edgecolor="white", linewidth=0.2
            )
    above.set_yticks(range(len(names)), names)
    above.invert_yaxis()
    above.set_xlabel("ms")
    shown = dict.fromkeys(event["cat"] for row in rows.values() for event in row)
    handles = [plt.Rectangle((0, 0), 1, 1, color=COLORS[name]) for name in shown]
    above.legend(handles, shown, ncols=len(shown), loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
    below.axis("off")
    below.text(0, 1, table.read_text().rstrip(), family="monospace", fontsize=8, va="top", transform=below.transAxes)
    figure.tight_layout()
    figure.savefig(picture, dpi=90)


if __name__ == "__main__":
    draw(*(Path(argument) for argument in sys.argv[1:4]))
