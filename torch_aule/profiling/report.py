"""The report about a model: text, a page, and its numbers."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from torch_aule.backend.fallback import FallbackEntry
from torch_aule.measure.numbers import Statistics, bytes_text, count_text, percent_text, table, time_text
from torch_aule.measure.roof import Roof
from torch_aule.profiling import page
from torch_aule.profiling.advice import Advice, advise
from torch_aule.profiling.memory import Memory
from torch_aule.profiling.trace import Kernel, Trace

DEAREST = 10


@dataclass(frozen=True)
class Report:
    """The result of :func:`torch_aule.profiling.profile_model_inference`; printing it shows the text.

    Parameters
    ----------
    model, inputs : str
        The model's name, and its inputs in words.
    device, driver : str
        What it ran on.
    training : bool
        Whether the model was in training mode.
    wall, issue : Statistics
        Of a call until the device has done it, and of the host's part alone, in seconds.
    trace : Trace
        Kernels, copies and waits of a call.
    memory : Memory
        In bytes, by module too.
    on_cpu : list of FallbackEntry
        Operators that ran on the CPU in a call.
    roof : Roof or None
        What the device can reach, if it was measured.
    """

    model: str
    inputs: str
    device: str
    driver: str
    training: bool
    wall: Statistics
    issue: Statistics
    trace: Trace
    memory: Memory
    on_cpu: list[FallbackEntry]
    roof: Roof | None

    @property
    def dearest(self) -> list[Kernel]:
        """The ten kernels that take most of the device's time."""
        return self.trace.kernels[:DEAREST]

    @property
    def advice(self) -> list[Advice]:
        """The rules that apply (``torch_aule/profiling/advice.py``)."""
        return list(advise(self))

    def share(self, seconds: float) -> float:
        """Of the device's time.

        Parameters
        ----------
        seconds : float
            A part of it.

        Returns
        -------
        float
            From 0 to 1.
        """
        return seconds / self.trace.device_seconds if self.trace.device_seconds else 0.0

    def kernel_rows(self) -> list[list[str]]:
        """The dearest kernels as cells.

        Returns
        -------
        list of list of str
            Name, operator, launches, time, share of the device's time, GB/s, TFLOPS, share of the roof.
        """
        rows = []
        for k in self.dearest:
            rate = f"{k.flops / k.seconds / 1e12:.3f} {k.dtype}" if k.flops and k.seconds else "-"
            moved = f"{k.bytes / k.seconds / 1e9:.1f}" if k.seconds else "-"
            cells = [
                k.name,
                k.operator or "-",
                f"{k.calls:.0f}",
                time_text(k.seconds),
                percent_text(self.share(k.seconds)),
            ]
            rows.append([*cells, moved, rate, percent_text(k.roof_share)])
        return rows

    def sections(self) -> list[tuple[str, list[str], list[list[str]], list[str]]]:
        """Everything as tables.

        Returns
        -------
        list of (title, head, rows, notes)
            The head is empty where there is no table; the notes are lines of prose.
        """
        trace, memory = self.trace, self.memory
        timed = [
            [name, time_text(s.median), time_text(s.mean), time_text(s.std), time_text(s.min), time_text(s.max),
             f"{s.cv:.1f} %", s.stability]
            for name, s in (("call, until the device is done", self.wall), ("the host's part", self.issue))
        ]  # fmt: skip
        launches = count_text(round(trace.launches), "kernel")
        busy = f"the device worked {time_text(trace.device_seconds)} in a call, {launches}"
        held = [
            ["in tensors before", bytes_text(memory.before)],
            ["at the peak", bytes_text(memory.peak)],
            ["taken by the call", bytes_text(memory.peak - memory.before)],
            ["held by the allocator", bytes_text(memory.reserved)],
        ]
        modules = [
            [m.name, m.kind, str(m.calls), bytes_text(m.parameter_bytes), bytes_text(m.output_bytes),
             bytes_text(m.peak_bytes)]
            for m in memory.modules[:DEAREST]
        ]  # fmt: skip
        left_out = len(memory.modules) - len(modules)
        roof = self.roof.text().splitlines() if self.roof else [
            "not measured: `python -m torch_aule.benchmark roof` does, once"
        ]  # fmt: skip
        head = ["kernel", "operator", "calls", "time", "share", "GB/s", "TFLOPS", "of the roof"]
        sources = sorted({f"{k.name}: {k.source}" for k in self.dearest if k.source})
        copies = [[c.kind, f"{c.calls:.0f}", bytes_text(c.bytes), time_text(c.seconds)] for c in trace.copies]
        submits = count_text(trace.submits, "submission")
        waits = f"within a call {count_text(trace.waits, 'wait')} for the device, and {submits}"
        advice = [
            f"{one.finding}. {one.advice}. ({one.reason}; {one.value:.3g}, from {one.threshold:g})"
            for one in self.advice
        ]
        return [
            ("time", ["", "median", "mean", "std", "min", "max", "cv", "stability"], timed, [busy]),
            ("memory", ["", "bytes"], held, []),
            ("memory by module", ["module", "kind", "calls", "parameters", "outputs", "peak"], modules,
             [f"and {left_out} more"] if left_out > 0 else []),
            ("dearest kernels", head, self.kernel_rows(), sources),
            ("roof", [], [], roof),
            ("operators on the CPU", ["operator", "calls", "arguments"],
             [[e.op, str(e.count), e.first_arguments] for e in self.on_cpu], [] if self.on_cpu else ["none"]),
            ("copies and waits", ["kind", "calls", "bytes", "time"], copies, [waits]),
            ("advice", [], [], advice or ["none of the rules applies"]),
        ]  # fmt: skip

    @property
    def title(self) -> str:
        """One line: what ran on what."""
        return f"{self.model} ({self.inputs}) on {self.device}, {self.driver}"

    def text(self) -> str:
        """The report in plain text.

        Returns
        -------
        str
            Its sections.
        """
        lines = [self.title]
        for title, head, rows, notes in self.sections():
            lines += ["", title, *(table(head, rows) if rows else []), *("  " + note for note in notes)]
        return "\n".join(lines)

    __str__ = text

    def save_html(self, path: str | os.PathLike) -> None:
        """Write the report as one page that needs nothing else.

        Parameters
        ----------
        path : str or os.PathLike
            What is written.

        Raises
        ------
        OSError
            If it cannot be written.
        """
        plots = [page.kernels_plot(self), page.memory_plot(self)]
        Path(path).write_text(page.page(self.title, self.sections(), plots), encoding="utf-8")
