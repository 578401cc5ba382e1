"""FSDP2 (`fully_shard`) in its forms, against one process with the batches of all ranks."""

from __future__ import annotations

import copy
import os

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.nn import functional as F

from distributed_group import device, rank, size, start
from distributed_model import Model, batches

LONG = bool(os.environ.get("TORCH_AULE_LONG_TESTS"))
STEPS, ROWS, WIDTH = 20 if LONG else 10, 8, 30  # 30 and 10 are multiples of no number of ranks here: shards are padded


def train(model, of_rank, clip=None, accumulate=False):
    """Losses of the rank's rows, or of all rows where `of_rank` is None."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for step, (x, y) in enumerate(batches(STEPS, size * ROWS, WIDTH)):
        rows = slice(None) if of_rank is None else slice(of_rank * ROWS, (of_rank + 1) * ROWS)
        last = not accumulate or step % 2 == 1
        if accumulate and isinstance(model, FSDPModule):
            model.set_requires_gradient_sync(last)
        loss = F.cross_entropy(model(x[rows].to(device)).float(), y[rows].to(device))
        loss.backward()
        losses.append(loss.detach())
        if last:
            if clip is not None:
                torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            optimizer.zero_grad()
    return torch.stack(losses)


def compare(name, clip=None, accumulate=False, tolerance=1e-5, reference_dtype=None, blocks=None, **options):
    torch.manual_seed(0)
    reference = Model(WIDTH).to(device)
    model = copy.deepcopy(reference)
    if "offload_policy" in options:
        model = model.cpu()
    for block in model.blocks:
        fully_shard(block, **(options if blocks is None else {**options, **blocks}))
    fully_shard(model, **options)
    weight = model.blocks[0].up.weight
    assert sum(p.to_local().numel() for p in model.parameters()) < sum(p.numel() for p in reference.parameters())
    assert weight.to_local().device.type == ("cpu" if "offload_policy" in options else "aule")
    losses = train(model, rank, clip, accumulate)
    dist.all_reduce(losses, op=dist.ReduceOp.AVG)
    expected = train(reference, None, clip, accumulate)
    error = (losses - expected).abs().max().item()
    print(f"{name}: {error:.1e}")
    assert error <= tolerance, f"{name}: losses differ by {error}"
    assert expected[-1] < expected[0]
    for (key, p), q in zip(model.named_parameters(), reference.parameters(), strict=True):
        whole = p.to(device).full_tensor() if p.to_local().device.type == "cpu" else p.full_tensor()
        worst = (whole - q).abs().max().item()
        assert worst <= max(10 * tolerance, 1e-4), f"{name}: {key} differs by {worst}"


start()
mesh = init_device_mesh("aule", (size,))
half = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
compare("plain", mesh=mesh)
compare("kept after the forward", mesh=mesh, reshard_after_forward=False, clip=0.1)
compare("accumulated, without a mesh", accumulate=True)
if LONG:
    compare("without a mesh")
    compare("clipped", mesh=mesh, clip=0.1)
    compare("accumulated", mesh=mesh, accumulate=True)
compare("mixed precision", mesh=mesh, mp_policy=half, tolerance=2e-2)
compare("offloaded", mesh=mesh, offload_policy=CPUOffloadPolicy(pin_memory=True))
compare("offloaded, not pinned", mesh=mesh, offload_policy=CPUOffloadPolicy(pin_memory=False))
dist.destroy_process_group()
