"""Collectives through shared memory: sizes of many rounds and of none, many in a row, and mistakes of one rank.

`distributed_shared.py ... mistakes`: the ranks call different things, each time in a group of its own.
"""

from __future__ import annotations

import sys
import time

import torch
import torch.distributed as dist

from distributed_group import device, rank, size, start

mistakes = "mistakes" in sys.argv
SLOT = 256 << 10  # bytes, of one round
OTHER = {
    "size": lambda t, group: dist.all_reduce(t[: t.numel() // 2], group=group),
    "nothing": lambda t, group: dist.all_reduce(t[:0], group=group),
    "operator": lambda t, group: dist.all_reduce(t, op=dist.ReduceOp.MAX, group=group),
    "collective": lambda t, group: dist.broadcast(t, size - 1, group=group),
    "dtype": lambda t, group: dist.all_reduce(t.view(torch.int32), group=group),
}


def value(of_rank: int, elements: int, salt: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(100 * salt + of_rank)
    return torch.randint(-50, 50, (elements,), generator=generator).float()


def all_kinds(elements: int, salt: int) -> None:
    """Every kind once, of `elements` for each rank, against values computed here."""
    values = [value(r, elements, salt) for r in range(size)]
    total, root = sum(values), salt % size
    mine = values[rank].to(device)

    t = mine.clone()
    dist.all_reduce(t)
    assert torch.equal(t.cpu(), total), "all_reduce"
    t = mine.clone()
    dist.reduce(t, root)
    if rank == root:
        assert torch.equal(t.cpu(), total), "reduce"
    t = mine.clone() if rank == root else torch.full_like(mine, float("nan"))
    dist.broadcast(t, root)
    assert torch.equal(t.cpu(), values[root]), "broadcast"

    gathered = torch.full((size, elements + 1), -1.0, device=device)
    outputs = list(gathered[:, :elements])
    dist.all_gather(outputs, mine)
    assert torch.equal(gathered[:, :elements].cpu(), torch.stack(values)), "all_gather"
    assert (gathered[:, elements] == -1).all(), "written beside the tensors"
    whole = torch.full((size * elements,), float("nan"), device=device)
    whole[rank * elements : (rank + 1) * elements] = mine
    dist.all_gather_into_tensor(whole, whole[rank * elements : (rank + 1) * elements])
    assert torch.equal(whole.cpu(), torch.cat(values)), "all_gather in place"

    parts = [value(r, size * elements, salt + 1) for r in range(size)]
    block = slice(rank * elements, (rank + 1) * elements)
    share, sent = torch.full_like(mine, float("nan")), parts[rank].to(device)
    dist.reduce_scatter_tensor(share, sent)
    assert torch.equal(share.cpu(), sum(parts)[block]), "reduce_scatter"
    assert torch.equal(sent.cpu(), parts[rank]), "the input of reduce_scatter was written"
    dist.reduce_scatter_tensor(sent[block], sent)
    assert torch.equal(sent[block].cpu(), sum(parts)[block]), "reduce_scatter in place"

    outputs = [torch.empty_like(mine) for _ in range(size)] if rank == root else None
    dist.gather(mine, outputs, root)
    if rank == root:
        assert all(torch.equal(o.cpu(), v) for o, v in zip(outputs, values, strict=True)), "gather"
    share = torch.full_like(mine, float("nan"))
    dist.scatter(
        share,
        list(parts[root].to(device).chunk(size))
        if rank == root and elements
        else [torch.empty(0, device=device)] * size
        if rank == root
        else None,
        root,
    )
    assert torch.equal(share.cpu(), parts[root][block]), "scatter"


start()
if mistakes:
    t = torch.ones(1000, device=device)
    for name, other in OTHER.items():
        group = dist.new_group()
        dist.all_reduce(t, group=group)
        begin = time.monotonic()
        try:
            if rank == size - 1:
                other(t, group)
            dist.all_reduce(t, group=group)
        except dist.DistBackendError as error:
            assert " called " in str(error) or "has failed" in str(error), error
            print(f"{name}: {error}")
        else:
            raise AssertionError("no error")
        assert time.monotonic() - begin < 5, "the error came late"
        dist.destroy_process_group(group)
    dist.all_reduce(t)  # the other groups are well
    dist.destroy_process_group()
    sys.exit()

for salt, elements in enumerate([0, 1, 7, 1000, SLOT // 4, SLOT // 4 + 1, 6 * SLOT // 4 + 3]):
    all_kinds(elements, salt)

# In a row, none waited for before all are called; gloo's own between them.
tensors = [torch.full((1000 * i + 1,), float(i + rank), device=device) for i in range(40)]
works = [dist.all_reduce(t, async_op=True) for t in tensors]
exchanged = torch.empty(size, device=device)
works.append(dist.all_to_all_single(exchanged, torch.full((size,), float(rank), device=device), async_op=True))
if rank == 0:
    works.append(dist.isend(torch.full((5,), 3.0, device=device), 1))
elif rank == 1:
    received = torch.zeros(5, device=device)
    works.append(dist.irecv(received, 0))
works += [dist.broadcast(t, i % size, async_op=True) for i, t in enumerate(tensors)]
for work in works:
    work.wait()
for i, t in enumerate(tensors):
    expected = float(i * size + sum(range(size)))
    assert (t == expected).all(), (i, t, expected)
assert exchanged.tolist() == list(range(size))
assert rank != 1 or (received == 3).all()

# Halves are summed in the order of the ranks on each of them: all have the same bits.
halves = torch.randn(100_003, generator=torch.Generator().manual_seed(rank)).half().to(device)
dist.all_reduce(halves)
all_halves = [torch.empty_like(halves) for _ in range(size)]
dist.all_gather(all_halves, halves)
assert all(torch.equal(h.view(torch.int16), halves.view(torch.int16)) for h in all_halves)
dist.destroy_process_group()
