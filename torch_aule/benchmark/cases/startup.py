"""Seconds from a process's first tensor to an attention result; the second process finds the pipeline cache."""

from __future__ import annotations

import subprocess
import sys

import torch

from torch_aule.benchmark.harness.case import Case, Sizes
from torch_aule.benchmark.harness.targets import Target
from torch_aule.benchmark.report.record import Result

FIRST_CALL = """
import time, torch, torch_aule
import torch.nn.functional as F
torch.aule.set_device({index})
start = time.perf_counter()
q, k, v = (torch.ones(1, 8, 512, 64, dtype=torch.float16, device="aule") for _ in range(3))
F.scaled_dot_product_attention(q, k, v, is_causal=True).float().sum().item()
print("seconds", time.perf_counter() - start)
"""


def startup(sizes: Sizes) -> list[Case]:
    if sizes.software:
        return []
    return [Case("startup", "first_call", "B1 H8 N512 D64", "float16", lambda device: _first_call, clock="once",
                 target=Target("s", 0.5), aule_only=True)]  # fmt: skip


def _first_call() -> Result:
    seconds = 0.0
    for _ in range(2):
        command = [sys.executable, "-c", FIRST_CALL.format(index=torch.aule.current_device())]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        except subprocess.TimeoutExpired:
            raise RuntimeError("no answer in 120 s") from None
        answer = [x.split()[1] for x in done.stdout.splitlines() if x.startswith("seconds")]
        if not answer:
            raise RuntimeError(done.stderr.strip()[-200:] or f"the process ended with {done.returncode}")
        seconds = float(answer[0])
    return Result.of_times([seconds * 1e3], "ms")
