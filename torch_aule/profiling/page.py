"""One page of HTML with plots in SVG, without scripts and without anything from elsewhere."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from torch_aule.measure.numbers import bytes_text, percent_text, time_text

if TYPE_CHECKING:
    from torch_aule.profiling.report import Report

STYLE = """
body { font: 14px/1.45 system-ui, sans-serif; max-width: 70em; margin: 2em auto; padding: 0 1em; color: #222; }
h1 { font-size: 1.3em; } h2 { font-size: 1.05em; margin-top: 1.8em; }
table { border-collapse: collapse; } td, th { padding: .2em .8em .2em 0; text-align: right; vertical-align: top; }
td:first-child, th:first-child { text-align: left; } th { border-bottom: 1px solid #aaa; font-weight: 600; }
tr:nth-child(even) td { background: #f6f6f6; } svg { max-width: 100%; height: auto; }
@media (prefers-color-scheme: dark) {
  body { background: #1b1b1b; color: #ddd; } tr:nth-child(even) td { background: #252525; } svg text { fill: #ddd; }
}
"""
TAKEN, AT_ROOF = "#7aa6d6", "#1f4e86"
WIDTH, ROW, LABELS, NUMBERS = 900, 24, 300, 170


def bars(title: str, legend: list[tuple[str, str]], rows: list[tuple[str, str, list[tuple[float, str]]]]) -> str:
    """Horizontal bars as SVG.

    Parameters
    ----------
    title : str
        Above them.
    legend : list of (colour, text)
        What the colours are.
    rows : list of (label, number, [(length, colour), ...])
        A bar's parts lie over each other from the left; lengths are in any one unit.

    Returns
    -------
    str
        The element; "" without rows.
    """
    if not rows:
        return ""
    longest = max((length for _, _, parts in rows for length, _ in parts), default=0.0) or 1.0
    scale = (WIDTH - LABELS - NUMBERS) / longest
    height = 48 + ROW * len(rows)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" font-family="system-ui, sans-serif" font-size="12"><title>{escape(title)}</title>',
        f'<text x="0" y="14" font-weight="600">{escape(title)}</text>',
    ]
    x = LABELS
    for colour, text in legend:
        out.append(f'<rect x="{x}" y="24" width="10" height="10" fill="{colour}"/>')
        out.append(f'<text x="{x + 14}" y="33">{escape(text)}</text>')
        x += 34 + 7 * len(text)
    for i, (label, number, parts) in enumerate(rows):
        y = 44 + ROW * i
        short = label if len(label) <= 44 else label[:43] + "..."
        out.append(f'<text x="{LABELS - 8}" y="{y + 13}" text-anchor="end">{escape(short)}</text>')
        for length, colour in parts:
            out.append(
                f'<rect x="{LABELS}" y="{y}" width="{max(length * scale, 0.5):.1f}" height="{ROW - 8}" fill="{colour}">'
                f"<title>{escape(label)}: {escape(number)}</title></rect>"
            )
        end = LABELS + max((length for length, _ in parts), default=0.0) * scale
        out.append(f'<text x="{end + 6:.1f}" y="{y + 13}">{escape(number)}</text>')
    return "\n".join([*out, "</svg>"])


def kernels_plot(report: Report) -> str:
    """The dearest kernels: their time, and in it the time at the roof."""
    rows = []
    for k in report.dearest:
        parts = [(k.seconds, TAKEN)]
        if k.roof_seconds:
            parts.append((min(k.roof_seconds, k.seconds), AT_ROOF))
        number = f"{time_text(k.seconds)}, {percent_text(report.share(k.seconds))}"
        rows.append((k.name, number, parts))
    legend = [(TAKEN, "time taken"), *([(AT_ROOF, "at the roof")] if report.roof else [])]
    return bars("Kernels by device time, of a call", legend, rows)


def memory_plot(report: Report) -> str:
    """The largest modules: outputs over parameters."""
    rows = []
    for m in report.memory.modules[:10]:
        both = m.parameter_bytes + m.output_bytes
        number = f"{bytes_text(m.parameter_bytes)} + {bytes_text(m.output_bytes)}"
        rows.append((f"{m.name} {m.kind}", number, [(float(both), TAKEN), (float(m.parameter_bytes), AT_ROOF)]))
    return bars("Memory by module", [(AT_ROOF, "parameters"), (TAKEN, "outputs")], rows)


def page(title: str, sections: list, plots: list[str]) -> str:
    """The whole page."""
    out = ['<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">', f"<title>{escape(title)}</title>"]
    out += [f"<style>{STYLE}</style></head><body>", f"<h1>{escape(title)}</h1>", *plots]
    for name, head, rows, notes in sections:
        out.append(f"<h2>{escape(name)}</h2>")
        if rows:
            cells = "".join(f"<th>{escape(cell)}</th>" for cell in head)
            lines = ("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
            out.append("\n".join([f"<table><tr>{cells}</tr>", *lines, "</table>"]))
        out += [f"<p>{escape(note)}</p>" for note in notes]
    return "\n".join([*out, "</body></html>", ""])
