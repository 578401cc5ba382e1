"""Gloo's threads let go of tensors late. Python 3.13 and older ends those that want its lock while it ends itself."""

import sys

import torch
import torch.distributed as dist

import torch_aule  # noqa: F401

dist.init_process_group("aule", store=dist.HashStore(), rank=0, world_size=1)
t, outputs = torch.ones(3), [torch.zeros(3)]


def count():
    return [sys.getrefcount(tensor) for tensor in (t, outputs[0])]


before = count()
works = [
    dist.all_reduce(t, async_op=True),
    dist.broadcast(t, 0, async_op=True),
    dist.all_gather(outputs, t, async_op=True),
    dist.gather(t, outputs, async_op=True),
    dist.reduce_scatter(outputs[0], [t], async_op=True),
]
assert count() == before, "a work that is under way holds the Python object"
for work in works:
    work.wait()
assert outputs[0].tolist() == t.tolist() == [1, 1, 1]
