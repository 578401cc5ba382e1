"""SyncBatchNorm in DistributedDataParallel, ranks with unequal rows, against one process with the rows of all ranks."""

from __future__ import annotations

import copy

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from distributed_group import device, rank, size, start

STEPS, ROWS, CLASSES = 20, 9, 4


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.Conv2d(8, 6, 3, stride=2, bias=False),
        torch.nn.BatchNorm2d(6, affine=False),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(6 * 9, 16),
        torch.nn.BatchNorm1d(16, momentum=None),
        torch.nn.Linear(16, CLASSES),
    ).to(device)


def batches(form):
    generator = torch.Generator().manual_seed(1)
    patterns = torch.randn(CLASSES, 3, 7, 7, generator=generator)
    for _ in range(STEPS):
        y = torch.randint(CLASSES, (ROWS,), generator=generator)
        x = patterns[y] * 2 + torch.randn(ROWS, 3, 7, 7, generator=generator) + 1
        yield x.contiguous(memory_format=form), y


def rows_of(step, empty):
    """Where the rows of this rank are: 2 of the first rank's, or none, and the rest are the last one's."""
    first = 0 if empty and step % 2 else 2
    ends = [0, *(first + r for r in range(size - 1)), ROWS]
    return slice(ends[rank], ends[rank + 1])


def train(network, form, rows, autocast):
    """The parts that this rank has in the losses of all rows."""
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for step, (x, y) in enumerate(batches(form)):
        mine = rows(step)
        x, y = x[mine].to(device), y[mine].to(device)
        with torch.autocast("aule", dtype=torch.bfloat16, enabled=autocast):
            loss = F.cross_entropy(network(x), y, reduction="sum") / ROWS
        # DDP divides the sum of the gradients by the number of ranks.
        (loss * (size if isinstance(network, DistributedDataParallel) else 1)).backward()
        losses.append(loss.detach())
        optimizer.step()
        optimizer.zero_grad()
    return torch.stack(losses)


def compare(name, form=torch.contiguous_format, empty=False, autocast=False, tolerance=1e-5):
    network = model().to(memory_format=form)
    reference = copy.deepcopy(network)
    network = torch.nn.SyncBatchNorm.convert_sync_batchnorm(network)
    assert sum(isinstance(m, torch.nn.SyncBatchNorm) for m in network) == 3
    parallel = DistributedDataParallel(network, broadcast_buffers=False)  # they are equal without that
    losses = train(parallel, form, lambda step: rows_of(step, empty), autocast)
    dist.all_reduce(losses)
    expected = train(reference, form, lambda step: slice(None), autocast)
    error = (losses - expected).abs().max().item()
    assert error <= tolerance, f"{name}: losses differ by {error}"
    assert expected[-1] < expected[0] / 2
    print(f"{name}: {error:.1e}")
    for key, buffer in reference.named_buffers():
        ours = parallel.module.get_buffer(key)
        assert ours.dtype == buffer.dtype, key
        error = ((ours - buffer).abs().max() / buffer.abs().max()).item()
        assert error <= tolerance, f"{name}: {key}: {error}"
    for key, p in reference.named_parameters():
        assert (p - parallel.module.get_parameter(key)).abs().max().item() <= 10 * tolerance, f"{name}: {key}"
    # Without other ranks: what it has learnt.
    x = next(batches(form))[0].to(device)
    parallel.eval(), reference.eval()
    assert (parallel.module(x) - reference(x)).abs().max().item() <= 10 * tolerance, name


start()
compare("unequal rows")
compare("channels last", form=torch.channels_last)
compare("a rank without rows", empty=True)
# bfloat16 rounds to 0.4 %, and other rows of a batch are added first. float32 statistics of bfloat16 tensors travel.
compare("autocast", autocast=True, tolerance=1e-1)  # bfloat16
dist.destroy_process_group()
