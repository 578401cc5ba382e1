"""Peers, coalesced forms, objects, subgroups beside each other, the order of streams; three ranks."""

from __future__ import annotations

import signal
import sys
import threading
import time
import warnings
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

from distributed_group import device, rank, refused, size, start

warnings.simplefilter("ignore", FutureWarning)  # of names that newer versions of PyTorch have in two forms
TOTAL = sum(r + 1 for r in range(size))
right, left = (rank + 1) % size, (rank - 1) % size


def mine(*shape, dtype=torch.float32):
    return torch.full(shape, rank + 1, dtype=dtype, device=device)


def equal(t, expected):
    assert t.tolist() == expected, (rank, t.tolist(), expected)


def peers():
    # Every rank sends first, and in the other order than it is received.
    sends = [dist.isend(mine(2) + tag, right, tag=tag) for tag in (1, 2)]
    received = {tag: torch.empty(2, device=device) for tag in (2, 1)}
    works = [dist.irecv(t, left, tag=tag) for tag, t in received.items()]
    for work in (*works, *sends):
        work.wait()
    for tag, t in received.items():
        equal(t, [left + 1.0 + tag] * 2)
    t = torch.empty(2, device=device)
    ops = [dist.P2POp(dist.isend, mine(2), right), dist.P2POp(dist.irecv, t, left)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    equal(t, [left + 1.0] * 2)
    if rank == 0:  # from whoever comes
        senders = set()
        for _ in range(size - 1):
            t = torch.empty(1, device=device)
            sender = dist.recv(t)
            equal(t, [sender + 1.0])
            senders.add(sender)
        assert senders == set(range(1, size))
    else:
        dist.send(mine(1), 0)
    # Rank 0's first receive waits for what the last rank sends after it got the answer to the second.
    if rank == 0:
        first, second = torch.empty(1, device=device), torch.empty(1, device=device)
        late = dist.irecv(first, size - 1, tag=7)
        early = dist.irecv(second, 1, tag=8)
        early.wait()
        dist.send(second, size - 1, tag=9)
        late.wait()
        equal(first, [5.0])
    if rank == 1:
        dist.send(mine(1) * 0 + 5, 0, tag=8)
    if rank == size - 1:
        t = torch.empty(1, device=device)
        dist.recv(t, 0, tag=9)
        dist.send(t, 0, tag=7)


def coalesced():
    for given in (None, device):
        tensors = [mine(3), mine(2, 2).t(), mine(1)]
        with dist._coalescing_manager(device=given, async_ops=True) as manager:
            for t in tensors:
                dist.all_reduce(t)
        manager.wait()
        for t in tensors:
            equal(t.flatten(), [float(TOTAL)] * t.numel())
        outputs = [torch.empty(size * 2, device=device), torch.empty(size, device=device)]
        with dist._coalescing_manager(device=given):
            for output in outputs:
                dist.all_gather_into_tensor(output, mine(output.numel() // size))
        equal(outputs[0], [r + 1.0 for r in range(size) for _ in range(2)])
        equal(outputs[1], [r + 1.0 for r in range(size)])
        sums = [torch.empty(2, device=device), torch.empty(1, device=device)]
        inputs = [torch.arange(2.0 * size, device=device), torch.arange(1.0 * size, device=device)]
        with dist._coalescing_manager(device=given):
            for output, t in zip(sums, inputs, strict=True):
                dist.reduce_scatter_tensor(output, t)
        equal(sums[0], [size * 2.0 * rank, size * (2.0 * rank + 1)])
        equal(sums[1], [size * 1.0 * rank])
    group = dist.group.WORLD
    equal(functional.all_reduce(mine(2), "avg", group) + 0, [TOTAL / size] * 2)
    equal(functional.all_gather_tensor(mine(1, dtype=torch.int16), 0, group) + 0, [r + 1 for r in range(size)])
    equal(functional.reduce_scatter_tensor(mine(size), "sum", 0, group) + 0, [float(TOTAL)])
    swapped = functional.all_to_all_single(torch.arange(size, device=device) + 10 * rank, None, None, group)
    equal(swapped + 0, [10 * r + rank for r in range(size)])


def objects():
    found = [None] * size
    dist.all_gather_object(found, {"rank": rank, "t": mine(1)})
    assert [f["rank"] for f in found] == list(range(size)) and found[0]["t"].tolist() == [1.0]
    listed = [rank, "text"]
    dist.broadcast_object_list(listed, src=1, device=device)
    assert listed == [1, "text"]
    listed = [None]
    dist.scatter_object_list(listed, [f"for {r}" for r in range(size)] if rank == 0 else None, src=0)
    assert listed == [f"for {rank}"]
    dist.monitored_barrier()
    dist.barrier()
    dist.barrier(device_ids=[rank])
    dist.barrier(async_op=True).wait()
    # Those of the CPU are in no order with those of the device: other threads of a rank may call them.
    on_host, on_device = torch.full((2,), rank + 1.0), mine(2)
    order = (on_device, on_host, on_device) if rank == 0 else (on_host, on_device, on_device)
    for _ in range(20):
        on_host.fill_(rank + 1.0)
        on_device.fill_(rank + 1.0)
        works = [dist.all_reduce(t, async_op=True) for t in order]
        for work in works:
            work.wait()
        equal(on_host, [float(TOTAL)] * 2)
        equal(on_device, [float(TOTAL * size)] * 2)


def subgroups():
    pairs = [dist.new_group(ranks) for ranks in ([0, 1], [1, 2])]
    everyone = dist.new_group()
    t = {i: mine(1000) for i in range(3)}
    works = [dist.all_reduce(t[2], group=everyone, async_op=True)]
    for i, group in enumerate(pairs):
        if rank in dist.get_process_group_ranks(group) if group != dist.GroupMember.NON_GROUP_MEMBER else False:
            works.append(dist.all_reduce(t[i], group=group, async_op=True))
    for work in reversed(works):
        work.wait()
    equal(t[2][:1], [float(TOTAL)])
    if rank in (0, 1):
        equal(t[0][:1], [3.0])
    if rank in (1, 2):
        equal(t[1][:1], [5.0])
    dist.destroy_process_group(everyone)
    refused(lambda: dist.all_reduce(t[2], group=everyone), "")  # it is destroyed


def streams():
    """What is recorded before the call is in the result, and what comes after wait() sees it."""
    side = torch.aule.Stream()
    for stream in (torch.aule.current_stream(), side):
        side.wait_stream(torch.aule.default_stream())
        with torch.aule.stream(stream):
            t = mine(256, 256)
            for _ in range(20):
                t = (t @ t) * 0 + rank + 1  # keeps the device busy
            work = dist.all_reduce(t, async_op=True)
            busy = mine(256, 256) @ mine(256, 256)
            work.wait()
            after = t * 2 + busy * 0
            del t
        stream.synchronize()
        assert (after == 2 * TOTAL).all()
    t = mine(4)
    work = dist.all_reduce(t, async_op=True)
    done = work.get_future().then(lambda future: future.value()[0] * 10)
    equal(done.wait(), [10.0 * TOTAL] * 4)

    def nested(future):  # as communication hooks do
        again = dist.all_reduce(future.value()[0], async_op=True).get_future().wait()[0]
        return again + 1

    for _ in range(8):
        future = dist.all_reduce(mine(4), async_op=True).get_future().then(nested)
        equal(future.wait(), [TOTAL * size + 1.0] * 4)
    assert work.is_completed()
    parameter = torch.nn.Parameter(mine(3))  # c10d knows no autograd
    dist.all_reduce(parameter)
    equal(parameter, [float(TOTAL)] * 3)


def refusals():
    for call, words in (
        (lambda: dist.all_reduce(mine(1).expand(3)), "clone() it"),
        (lambda: dist.all_gather_into_tensor(torch.empty(size + 1, device=device), mine(1)), "expected"),
        (lambda: dist.all_to_all_single(mine(size), mine(size), [1] * size, [2] * size), "split sizes"),
        (lambda: dist.all_reduce(mine(2).to(torch.complex64), op=dist.ReduceOp.MAX), ""),
    ):
        refused(call, words)
    for collective in (dist.all_reduce, lambda t: dist.broadcast(t, src=0)):
        collective(torch.empty(0, 3, device=device))


def interrupted():
    """Ctrl-C ends a wait for ranks that are late: they come when it has."""
    store = dist.distributed_c10d._get_default_store()
    t = mine(1)
    if rank == 0:
        main = threading.main_thread().ident
        work = dist.all_reduce(t, async_op=True)
        try:
            threading.Timer(0.5, lambda: signal.pthread_kill(main, signal.SIGINT)).start()
            work.wait()
        except KeyboardInterrupt:
            store.set("interrupted", "yes")
        else:
            raise AssertionError("not interrupted")
        work.wait()
    else:
        store.wait(["interrupted"], timedelta(seconds=60))
        dist.all_reduce(t)
    equal(t, [float(TOTAL)])


if __name__ == "__main__":
    backend = sys.argv[4] if len(sys.argv) > 4 else None
    start(backend)
    assert dist.get_backend() == "aule" and dist.group.WORLD.name() == "custom"
    for part in (peers, coalesced, objects, subgroups, streams, refusals):
        part()
    if sys.platform != "win32":
        interrupted()
    irecv = dist.irecv(torch.empty(1, device=device), left)  # which nobody sends
    begin = time.monotonic()
    dist.destroy_process_group()
    assert time.monotonic() - begin < 10 and not dist.is_initialized()
    del irecv
