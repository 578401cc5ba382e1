"""Collectives of parts that travel beside kernels, in several groups of rounds; the caller's tensors change behind."""

import sys

import torch
import torch.distributed as dist

from distributed_group import device, rank, size, start

MOST = int(sys.argv[-1])  # elements


def part(r, elements, dtype, salt):
    generator = torch.Generator().manual_seed(97 * r + salt)
    return torch.randint(-8, 8, (elements,), generator=generator, dtype=torch.int8).to(dtype)


start()
for salt, (elements, dtype) in enumerate([(MOST // 9 + 1, torch.float32), (MOST, torch.float32), (MOST, torch.bfloat16)]):  # fmt: skip
    parts = [part(r, elements, dtype, salt) for r in range(size)]
    total = sum(p.float() for p in parts).to(dtype)
    mine = parts[rank].to(device)
    summed, gathered = mine.clone(), torch.full((size * elements,), float("nan"), dtype=dtype, device=device)
    works = [dist.all_reduce(summed, async_op=True), dist.all_gather_into_tensor(gathered, mine, async_op=True)]
    for work in works:
        work.wait()
    mine.fill_(7)  # both have read it
    assert torch.equal(summed.cpu(), total), "all_reduce"
    assert torch.equal(gathered.cpu(), torch.cat(parts)), "all_gather"
    even = elements // size * size
    share = torch.full((even // size,), float("nan"), dtype=dtype, device=device)
    sent = parts[rank][:even].to(device)
    sent += 0  # its kernel may still run
    dist.reduce_scatter_tensor(share, sent)
    assert torch.equal(share.cpu(), total[:even].chunk(size)[rank]), "reduce_scatter"
    dist.reduce(summed, 0)
    expected = total.float() * size if rank == 0 else total.float()
    assert torch.equal(summed.cpu(), expected.to(dtype)), "reduce"
    dist.broadcast(summed, size - 1)
    assert torch.equal(summed.cpu(), total), "broadcast"
dist.destroy_process_group()
