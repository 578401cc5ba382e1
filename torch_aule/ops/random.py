"""The fake kernel of ``aule::sample``."""

from __future__ import annotations

import torch


@torch.library.register_fake("aule::sample")
def _sample_fake(logits, *_args, **_kwargs):
    torch._check(logits.dim() == 2, lambda: f"sample: expected logits [rows, tokens], but got {list(logits.shape)}")
    rows = (logits.size(0),)
    return logits.new_empty(rows, dtype=torch.int64), logits.new_empty(rows, dtype=torch.float32)
