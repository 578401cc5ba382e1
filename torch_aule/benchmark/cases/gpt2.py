"""A training step of GPT-2 small: forward, loss, backward, fused AdamW, under autocast, eager."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from torch_aule.benchmark.harness.case import Case, Sizes
from torch_aule.benchmark.harness.gpt2 import GPT2
from torch_aule.benchmark.harness.targets import Target


def gpt2(sizes: Sizes) -> list[Case]:
    if sizes.software:
        return []
    config = sizes.gpt2

    def make(device):
        torch.manual_seed(0)
        with torch.device(device):
            net = GPT2(config)
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4, weight_decay=0.1, fused=True)
        tokens = torch.randint(config.vocabulary, (config.batch, config.context + 1)).to(device)
        x, y = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()

        def step():
            with torch.autocast(device, dtype=torch.bfloat16):
                logits = net(x)
                loss = F.cross_entropy(logits.view(-1, config.vocabulary), y.view(-1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        return step

    tokens = config.batch * config.context
    flops = 6.0 * config.matrix_parameters() * tokens + 6.0 * config.layers * tokens * config.context * config.width
    shapes = f"B{config.batch} N{config.context} vocabulary {config.vocabulary}"
    return [Case("gpt2", "gpt2_small_step", shapes, "bfloat16 autocast", make, flops=flops, queued=False, autograd=True,
                 target=Target("cuda", 0.7, 1.0))]  # fmt: skip
