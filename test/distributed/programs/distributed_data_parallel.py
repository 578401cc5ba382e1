"""DistributedDataParallel in all its forms, against one process with the batches of all ranks."""

from __future__ import annotations

import contextlib
import copy

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from distributed_group import device, rank, size, start
from distributed_model import Model, batches

STEPS, ROWS, WIDTH = 20, 8, 32


def train(model, of_rank, accumulate=False):
    """Losses of the rank's rows, or of all rows where `of_rank` is None."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for step, (x, y) in enumerate(batches(STEPS, size * ROWS, WIDTH)):
        rows = slice(None) if of_rank is None else slice(of_rank * ROWS, (of_rank + 1) * ROWS)
        x, y = x[rows].to(device), y[rows].to(device)
        last = not accumulate or step % 2 == 1
        silent = contextlib.nullcontext() if last or of_rank is None else model.no_sync()
        with silent:
            loss = F.cross_entropy(model(x), y)
            loss.backward()
        losses.append(loss.detach())
        if last:
            optimizer.step()
            optimizer.zero_grad()
    return torch.stack(losses)


def compare(name, hook=None, unused=False, accumulate=False, tolerance=1e-5, bucket_cap_mb=0.01, **options):
    torch.manual_seed(0)
    model = Model(WIDTH, unused).to(device)
    reference = copy.deepcopy(model)
    if rank:  # DDP takes rank 0's
        with torch.no_grad():
            for p in model.parameters():
                p.mul_(2)
    parallel = DistributedDataParallel(model, bucket_cap_mb=bucket_cap_mb, **options)
    if hook is not None:
        hook(parallel)
    losses = train(parallel, rank, accumulate)
    dist.all_reduce(losses, op=dist.ReduceOp.AVG)
    expected = train(reference, None, accumulate)
    error = (losses - expected).abs().max().item()
    assert error <= tolerance, f"{name}: losses differ by {error}"
    assert expected[-1] < expected[0]
    for (key, p), q in zip(parallel.module.named_parameters(), reference.parameters(), strict=True):
        assert (p - q).abs().max().item() <= max(tolerance, 1e-4), f"{name}: {key}"
    print(f"{name}: {error:.1e}")


def uneven():
    """Rank r has r + 1 batches; join() makes the others' all_reduce go on."""
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(4, 1).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with model.join(divide_by_initial_world_size=False):
        for _ in range(rank + 1):
            model(torch.ones(2, 4, device=device)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    weights = [torch.empty_like(model.module.weight) for _ in range(size)]
    dist.all_gather(weights, model.module.weight.detach())
    assert all(torch.equal(w, weights[0]) for w in weights)


def power(parallel):
    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=4, start_powerSGD_iter=2)
    parallel.register_comm_hook(state, powerSGD_hook.powerSGD_hook)


start()
compare("plain")
compare("device_ids", device_ids=[rank])
compare("static graph", static_graph=True)
compare("views of buckets", gradient_as_bucket_view=True)
compare("unused", unused=True, find_unused_parameters=True)
compare("no_sync", accumulate=True)
compare("fp16 hook", lambda p: p.register_comm_hook(None, default_hooks.fp16_compress_hook), tolerance=1e-3)
if not torch.cuda.is_available():  # beside CUDA the hook synchronizes that, whatever the gradients' device
    with torch.aule.strict(False):  # it factorizes on the CPU
        # One bucket: its callbacks call collectives, and the callbacks of several come in no certain order.
        compare("PowerSGD hook", power, tolerance=0.3, bucket_cap_mb=25)
uneven()
dist.destroy_process_group()
