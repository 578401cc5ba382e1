"""A long training loop: what it reserves after ten steps must be what it reserves after a thousand."""

from __future__ import annotations

import torch
import torch.nn as nn
import torch.nn.functional as F

from torch_aule.benchmark.harness.case import Case, Sizes
from torch_aule.benchmark.report.record import Result
from torch_aule.measure.timing import Stopwatch


def memory(sizes: Sizes) -> list[Case]:
    steps = sizes.training_steps
    return [Case("memory", "training_loop", f"{steps} steps, sequences of 16 to 23", "float32",
                 lambda device: lambda: _training_loop(steps), clock="once", aule_only=True)]  # fmt: skip


def _held() -> dict[str, int]:
    return {"reserved": torch.aule.memory_reserved(), "allocated": torch.aule.memory_allocated()}


def _training_loop(steps: int) -> Result:
    """Batches of changing length through attention, dropout, clipping and AdamW."""
    torch.manual_seed(0)
    embed = nn.Embedding(64, 32)
    block = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True, norm_first=True)
    model = nn.Sequential(embed, block, nn.Linear(32, 64)).to("aule")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    tenth = {}
    start = Stopwatch()
    for step in range(1, steps + 1):
        codes = torch.randint(64, (2, 17 + step % 8), device="aule")
        optimizer.zero_grad()
        F.cross_entropy(model(codes[:, :-1]).flatten(0, 1), codes[:, 1:].flatten()).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step == 10:
            tenth = _held()
    torch.aule.synchronize()
    ms_per_step = round(start.seconds / steps * 1e3, 3)
    return Result(values={"after_step_10": tenth, "after_last_step": _held(), "ms_per_step": ms_per_step})
