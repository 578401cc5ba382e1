"""Rules: what to do about a report's numbers. Each has its threshold, and says the number that it went by."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch_aule.measure.numbers import bytes_text, count_text, percent_text, time_text

if TYPE_CHECKING:
    from torch_aule.profiling.report import Report


@dataclass(frozen=True)
class Rule:
    """One rule.

    Attributes
    ----------
    name : str
        Its short name.
    threshold : float
        From here on it applies.
    what : str
        What the threshold is a number of.
    reason : str
        Why that is worth a change.
    measure : callable
        Report -> (number, the finding in words, what to do), or None where it says nothing.
    """

    name: str
    threshold: float
    what: str
    reason: str
    measure: Callable[[Report], tuple[float, str, str] | None]


@dataclass(frozen=True)
class Advice:
    """A rule that applied.

    Attributes
    ----------
    rule, finding, advice, reason : str
        Its name, what was found, what to do, and why.
    value, threshold : float
        The number that it went by, and that from which it applies.
    """

    rule: str
    finding: str
    advice: str
    reason: str
    value: float
    threshold: float


def _on_the_cpu(r: Report):
    names = ", ".join(entry.op for entry in r.on_cpu[:5]) + (", ..." if len(r.on_cpu) > 5 else "")
    return (
        len(r.on_cpu),
        f"ran on the CPU: {names}",
        "take another operator (docs/use/operators.md), or keep that part there",
    )


def _waits(r: Report):
    return (
        r.trace.waits,
        f"the host waits for the device {count_text(r.trace.waits, 'time')} in a call",
        "look for .item(), .cpu(), bool(tensor) and masks as indices; "
        'torch.aule.set_sync_debug_mode("warn") names their lines',
    )


def _host_bound(r: Report):
    wall = r.wall.median
    idle = max(0.0, 1 - r.trace.device_seconds / wall)
    finding = f"the device worked {time_text(r.trace.device_seconds)} of {time_text(wall)}"
    return idle, finding, 'a larger batch, or torch.compile(model, mode="reduce-overhead")'


def _small_kernels(r: Report):
    if not r.trace.launches:
        return None
    mean = sum(k.seconds for k in r.trace.kernels) / r.trace.launches
    if mean > SMALL_KERNEL_S:
        return None
    finding = f"{count_text(round(r.trace.launches), 'launch', 'launches')} of {time_text(mean)} on the average"
    return r.trace.launches, finding, "torch.compile(model), which makes one kernel of several operators"


def _float32_products(r: Report):
    seconds = sum(k.seconds for k in r.trace.kernels if k.flops and k.dtype == "float32")
    share = seconds / r.trace.device_seconds if r.trace.device_seconds else 0.0
    if r.roof is None or "float32" not in r.roof.rates:
        return None
    faster = {d: r.roof.rates[d] / r.roof.rates["float32"] for d in ("bfloat16", "float16") if d in r.roof.rates}
    best = max(faster, key=lambda d: faster[d], default=None)
    if best is None or faster[best] < FASTER_DTYPE:
        return None
    finding = f"float32 products take {percent_text(share)} of the device's time; {best} ones are {faster[best]:.1f} x"
    return share, finding, f'torch.autocast("aule", dtype=torch.{best})'


def _moving(r: Report):
    seconds = sum(k.seconds for k in r.trace.kernels if not k.flops and not k.source)
    share = seconds / r.trace.device_seconds if r.trace.device_seconds else 0.0
    finding = f"kernels without products take {percent_text(share)} of the device's time"
    return share, finding, "torch.compile(model): neighbouring operators then read and write memory once"


def _below_the_roof(r: Report):
    far = [k for k in r.trace.kernels if k.roof_share is not None and k.roof_share < FAR_BELOW
           and k.seconds / k.calls >= SMALL_KERNEL_S]  # fmt: skip
    seconds = sum(k.seconds for k in far)
    share = seconds / r.trace.device_seconds if r.trace.device_seconds else 0.0
    names = ", ".join(k.name for k in far[:3])
    finding = f"{names}: below {percent_text(FAR_BELOW)} of the roof"
    return share, finding, "larger sizes, 16-byte aligned rows, or `python -m torch_aule.tune` for attention"


def _copies(r: Report):
    seconds = sum(c.seconds for c in r.trace.copies if "host" in c.kind)
    moved = sum(c.bytes for c in r.trace.copies if "host" in c.kind)
    share = seconds / r.trace.device_seconds if r.trace.device_seconds else 0.0
    finding = f"copies between host and device take {percent_text(share)}, {bytes_text(moved)} a call"
    return share, finding, "make inputs on the device, or copy them from pinned memory with non_blocking=True"


def _memory(r: Report):
    share = r.memory.peak / r.memory.total if r.memory.total else 0.0
    finding = f"{bytes_text(r.memory.peak)} of {bytes_text(r.memory.total)} at the peak"
    return share, finding, "16-bit weights or a smaller batch; torch.aule.memory._record_memory_history says who has it"


def _training(r: Report):
    finding = "the model is in training mode"
    return (
        float(r.training),
        finding,
        "model.eval(): dropout and the statistics of batch norm take time and change results",
    )


SMALL_KERNEL_S = 20e-6
FASTER_DTYPE = 1.5
FAR_BELOW = 0.2

RULES = (
    Rule("cpu_operators", 1, "operators", "each waits for the device and copies both ways", _on_the_cpu),
    Rule("training_mode", 1, "modules", "inference needs neither", _training),
    Rule("waits", 1, "waits in a call", "the host prepares nothing meanwhile, and the device then has nothing to do",
         _waits),
    Rule("host_bound", 0.4, "of a call without the device", "the host gives work slower than the device does it",
         _host_bound),
    Rule("small_kernels", 100, "launches", "a launch costs the host some microseconds, and the device about one",
         _small_kernels),
    Rule("float32_products", 0.3, "of the device's time", "16 bits halve what is read, and matrix units take them",
         _float32_products),
    Rule("memory_bound", 0.5, "of the device's time", "they wait for memory, once for each operator", _moving),
    Rule("below_the_roof", 0.25, "of the device's time", "the device can do the same work faster", _below_the_roof),
    Rule("copies", 0.1, "of the device's time", "the link to the host is slower than the device's memory", _copies),
    Rule("memory", 0.9, "of the device's memory", "the next allocation may find none", _memory),
)  # fmt: skip


def advise(report: Report) -> Iterator[Advice]:
    """The rules that apply, in their order."""
    for rule in RULES:
        found = rule.measure(report)
        if found is not None and found[0] >= rule.threshold:
            value, finding, advice = found
            yield Advice(rule.name, finding, advice, rule.reason, float(value), rule.threshold)
