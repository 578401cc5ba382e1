"""Rates of products and attention that are known from other GPUs, printed beside what was measured here."""

from __future__ import annotations

import re
from dataclasses import dataclass

from torch_aule.benchmark.report.record import Record

PRODUCTS = ("gemm", "gemv")  # groups
LEAST = 1024  # rows and columns of a product that measures the matrix units


@dataclass(frozen=True)
class Anchor:
    """A rate in TFLOPS that a case is printed beside. An aim is what should be passed on any GPU."""

    case: str  # pattern of the whole name
    shapes: str  # pattern within the sizes
    dtype: str
    tflops: float
    where: str
    aim: bool = False


CUBE = r"^8192(?:\D+8192)+$"
ANCHORS = (
    Anchor(r"linear|mm.*|matmul.*", CUBE, "float32", 18.0, "RTX 3090 Ti, float32"),
    Anchor(r"linear|mm.*|matmul.*", CUBE, "float32", 27.38, "RTX 3090 Ti, TF32, 68 % of its 40"),
    Anchor(r"linear|mm.*|matmul.*", CUBE, "float32", 59.0, "RTX 3090 Ti, TF32, cuBLAS"),
    Anchor(r"linear|mm.*|matmul.*", CUBE, "float32", 5.5, "A100, float32"),
    Anchor(r"linear|mm.*|matmul.*", CUBE, "float32", 156.0, "A100, TF32"),
    Anchor(r"sdpa_forward", r"\bN2048\b", "float16", 50.0, "any GPU", aim=True),
    Anchor(r"sdpa_forward", r"\bN8192\b", "float16", 40.0, "any GPU", aim=True),
    Anchor(r"sdpa_backward", r"\bN2048\b", "float16", 30.0, "any GPU", aim=True),
)


def beside(record: Record) -> list[Anchor]:
    """Known numbers of a case."""
    return [
        anchor
        for anchor in ANCHORS
        if record.dtype == anchor.dtype and re.fullmatch(anchor.case, record.case)
        and re.search(anchor.shapes, record.shapes)
    ]  # fmt: skip


def matrix_peak(records: list[Record], dtype: str) -> float | None:
    """TFLOPS of the fastest product of a dtype in the records, of those that can fill a GPU."""
    results = [
        r.results["aule"]
        for r in records
        if r.group in PRODUCTS and r.dtype == dtype and "aule" in r.results
        and min(map(int, re.findall(r"\d+", r.shapes)), default=0) >= LEAST
    ]  # fmt: skip
    return max((result.tflops for result in results if result.tflops), default=None)


def lines(records: list[Record]) -> list[str]:
    """A line for each case that something is known of."""
    out = []
    for record in records:
        known, got = beside(record), record.results.get("aule")
        if not known or got is None or not got.tflops:
            continue
        words = [f"{got.tflops:.4g} TFLOPS"]
        if "sol" in got.values:
            words.append(f"{got.values['sol']:.0%} of the measured roof")
        elif record.group not in PRODUCTS and (peak := matrix_peak(records, record.dtype)):
            words.append(f"{got.tflops / peak:.0%} of the fastest product here")
        for anchor in known:
            passed = "passed" if got.tflops > anchor.tflops else "not passed"
            words.append(f"aim {anchor.tflops:g}: {passed}" if anchor.aim else f"{anchor.tflops:g} ({anchor.where})")
        out.append(f"- {record.name}: {'; '.join(words)}")
    return ["", "Beside rates of other GPUs, and aims:", *out] if out else []
