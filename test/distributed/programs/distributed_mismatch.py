"""Ranks that disagree, under TORCH_DISTRIBUTED_DEBUG=DETAIL: every rank has an error that says what differs."""

from __future__ import annotations

import time

import torch
import torch.distributed as dist

from distributed_group import device, rank, size, start

dist.set_debug_level_from_env()
assert dist.get_debug_level() == dist.DebugLevel.DETAIL
start()


def ones(*shape, dtype=torch.float32):
    return torch.ones(*shape, dtype=dtype, device=device)


def refused(call, *words):
    begin = time.monotonic()
    try:
        call()
    except RuntimeError as error:
        for word in words:
            assert word in str(error), (word, error)
    else:
        raise AssertionError(f"no error: {words}")
    assert time.monotonic() - begin < 10, "the error came late"


more = 10 if rank == 0 else 20
shapes = ("10" if rank == 0 else "20",)
refused(lambda: dist.all_reduce(ones(more)), "ALLREDUCE", *shapes)
refused(lambda: dist.broadcast(ones(more), 0), "BROADCAST", *shapes)
refused(lambda: dist.all_gather([ones(more) for _ in range(size)], ones(more)), "ALLGATHER", *shapes)
refused(lambda: dist.reduce_scatter_tensor(ones(more), ones(size * more)), "REDUCE_SCATTER", str(size * more))
dtype = torch.float32 if rank == 0 else torch.int32
refused(lambda: dist.all_reduce(ones(10, dtype=dtype)), "ALLREDUCE", "Float" if rank == 0 else "Int")
if rank == 0:
    refused(lambda: dist.all_reduce(ones(10)), "ALLREDUCE", "BROADCAST")
else:
    refused(lambda: dist.broadcast(ones(10), 0), "ALLREDUCE", "BROADCAST")
group = dist.new_group()
refused(lambda: dist.all_reduce(ones(more), group=group), "ALLREDUCE", *shapes)
refused(lambda: dist.all_reduce(torch.ones(more)), "ALLREDUCE", *shapes)  # of the CPU

# Where they agree again the group works, and so does what DDP does with it.
t = ones(33)
dist.all_reduce(t, group=group)
assert t.eq(size).all()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(5, 3).to(device))
model(ones(4, 5) * (rank + 1)).sum().backward()
assert model.module.weight.grad.eq(4 * (size + 1) / 2).all(), model.module.weight.grad
dist.destroy_process_group()
