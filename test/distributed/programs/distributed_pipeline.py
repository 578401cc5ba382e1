"""Pipeline stages of torch.distributed.pipelining, one on each rank, against the whole model."""

from __future__ import annotations

import copy

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.nn import functional as F

from distributed_group import device, rank, size, start

STEPS, MICROBATCHES, ROWS, WIDTH = 5, 4, 16, 24


def stages():
    torch.manual_seed(0)
    return [torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh()).to(device) for _ in range(size)]


def compare(schedule):
    whole = stages()
    ours = copy.deepcopy(whole[rank])
    reference = torch.nn.Sequential(*whole)
    stage = PipelineStage(ours, rank, size, device)
    run = schedule(stage, n_microbatches=MICROBATCHES, loss_fn=F.mse_loss)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.5) for m in (ours, reference)]
    for step in range(STEPS):
        x = torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(step)).to(device)
        y = x.roll(1, 1)
        losses = []
        if rank == 0:
            run.step(x)
        elif rank == size - 1:
            run.step(target=y, losses=losses)
        else:
            run.step()
        loss = F.mse_loss(reference(x), y)
        loss.backward()
        if rank == size - 1:
            assert len(losses) == MICROBATCHES
            assert abs(torch.stack(losses).mean() - loss).item() <= 1e-5
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    for p, q in zip(ours.parameters(), whole[rank].parameters(), strict=True):
        assert (p - q).abs().max().item() <= 1e-5


start()
compare(ScheduleGPipe)
compare(Schedule1F1B)
dist.destroy_process_group()
