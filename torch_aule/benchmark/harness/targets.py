"""Targets of cases, and whether they are met."""

from __future__ import annotations

from dataclasses import dataclass

from torch_aule.benchmark.report.record import Record, Verdict


@dataclass(frozen=True)
class Target:
    """A number to reach, and what it is a number of.

    `of` is one of

    - ``cuda``: speed, CUDA's being 1
    - ``tflops``
    - ``copy``: bandwidth, that of x + 1 being 1
    - ``twin``: arithmetic rate, that of the case `twin` being 1
    - ``cpu``: time, the CPU's being 1
    - ``us``, ``s``: time in this unit
    """

    of: str
    bound: float  # at least; at most for times
    stretch: float | None = None  # what is wanted after that
    twin: tuple[str, str, str, str] | None = None  # key of a case


TIMES = ("cpu", "us", "s")


def judge(record: Record, target: Target | None, by_key: dict[tuple, Record], copy: float) -> None:
    """Writes into `record` what its target says about it; `copy` is the bandwidth of x + 1 in GB/s."""
    if target is None:
        return
    verdict = record.target = Verdict(of=target.of, bound=target.bound, stretch=target.stretch, met=False)
    got = record.results.get("aule")
    if got is None or got.median is None:
        return
    if target.of == "cuda":
        value = record.speed("cuda")
    elif target.of == "tflops":
        value = got.tflops
    elif target.of == "copy":
        value = got.rate / copy if copy else None
    elif target.of == "us":
        value = got.seconds * 1e6
    elif target.of == "s":
        value = got.seconds
    elif target.of == "cpu":
        speed = record.speed("cpu")
        value = 1 / speed if speed else None
    else:
        twin = by_key[target.twin].results.get("aule") if target.twin in by_key else None
        value = got.tflops / twin.tflops if twin else None
    if value is None:
        verdict.met = None  # nothing to judge by
        return
    verdict.reached = float(f"{value:.4g}")
    verdict.met = value <= target.bound if target.of in TIMES else value >= target.bound


# Attention on matrix units. (backward, D, causal) -> speed beside CUDA's FlashAttention-2 at N 2048, at N 8192; stretch
ATTENTION = {
    (False, 64, False): (1.08, 1.12, 1.2), (False, 64, True): (1.05, 1.10, 1.2),
    (False, 128, False): (0.90, 0.98, 1.1), (False, 128, True): (0.80, 0.92, 1.0),
    (True, 64, False): (1.03, 0.96, 1.15), (True, 64, True): (1.10, 1.0, 1.15),
    (True, 128, False): (1.0, 0.97, 1.1), (True, 128, True): (1.1, 0.97, 1.1),
}  # fmt: skip

# (form, backward, causal) -> as above
ATTENTION_FORMS = {
    ("opaque", False, False): (0.45, 0.45, 0.6), ("opaque", False, True): (0.45, 0.45, 0.6),
    ("two_passes", True, False): (0.85, 0.83, 1.0), ("two_passes", True, True): (0.88, 0.82, 1.0),
}  # fmt: skip

GEMM_NT = ((330, 340), 400)  # TFLOPS at 4096 and 8192; stretch
GEMM = ((295, 305), 340)
MEMORY_BOUND = Target("copy", 0.85, 0.95)
