"""Work that no peer comes to: groups are aborted, destroyed and left, and nothing waits for the group's timeout.

The last rank joins the groups and none of the collectives; it leaves when the others have.
"""

from __future__ import annotations

import atexit
import os
import sys
import time

last: list = []  # seconds for which Python's lock is held


@atexit.register  # before the package: what is registered first is called last
def hold():
    end = time.monotonic() + sum(last)
    while time.monotonic() < end:
        pass


import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from distributed_group import device, rank, size, start, store
from torch_aule.distributed import _SECONDS_AT_EXIT as SECONDS_AT_EXIT

how = sys.argv[4]
absent = rank == size - 1
LONG = 1800.0  # seconds, the group's timeout: PyTorch's own default
start(seconds=LONG)
t = torch.ones(1000, device=device)
dist.all_reduce(t)


def ended(work, words):
    """The work has an error that names the collective, and it comes soon."""
    begin = time.monotonic()
    try:
        work.wait()
    except dist.DistBackendError as error:
        assert f": {words} failed: " in str(error), error
    else:
        raise AssertionError("no error")
    assert time.monotonic() - begin < 5, "the error came late"


def pending(group=None):
    """Collectives and a receive that wait for the last rank; that rank returns when the others have gone on."""
    shared = c10d._get_default_store()
    if absent:
        shared.wait([f"step {len(steps)} of {r}" for r in range(size - 1)])
        steps.append(None)
        return []
    gathered = [torch.empty(2, device=device) for _ in range(size)]
    works = [
        (dist.all_gather(gathered, torch.ones(2, device=device), group=group, async_op=True), "all_gather"),
        (dist.all_reduce(torch.ones(5, device=device), group=group, async_op=True), "all_reduce"),
        (dist.broadcast(torch.ones(7, device=device), size - 1, group=group, async_op=True), "broadcast"),
        (dist.irecv(torch.ones(3, device=device), size - 1, group=group), "recv"),
    ]
    time.sleep(0.2)  # gloo waits for the peer
    assert not any(work.is_completed() for work, _ in works)
    return works


def gone_on():
    if not absent:
        c10d._get_default_store().set(f"step {len(steps)} of {rank}", "1")
        steps.append(None)


def destroyed_and_aborted():
    for end in (lambda g: g.abort(), dist.destroy_process_group, c10d._abort_process_group):
        group = dist.new_group()
        works = pending(group)
        begin = time.monotonic()
        end(group)
        assert time.monotonic() - begin < 5, "the end came late"
        for work, name in works:
            ended(work, name)
        if not absent:
            try:
                group.allreduce([torch.ones(3, device=device)]).wait()
            except RuntimeError as error:
                assert "destroyed" in str(error), error
            else:
                raise AssertionError("a group that is gone works")
        gone_on()
        dist.barrier()  # the default group is well
    shared = c10d._get_default_store()
    works = pending()
    begin = time.monotonic()
    c10d._abort_process_group()
    assert time.monotonic() - begin < 5, "the end came late"
    for work, name in works:
        ended(work, name)
    if not absent:
        shared.set(f"step {len(steps)} of {rank}", "1")
    # A new group after the old one.
    dist.init_process_group("aule", init_method=f"file://{store}-again", rank=rank, world_size=size)
    dist.all_reduce(t)
    assert t[0].item() == size**2
    dist.destroy_process_group()


def left():
    """The interpreter ends with work pending and no destroy_process_group, while its peer is there."""
    shared = c10d._get_default_store()
    if not absent:
        keep.extend(pending())
        shared.set(f"process of rank {rank}", str(os.getpid()))
        return
    others = [int(shared.get(f"process of rank {r}")) for r in range(size - 1)]
    deadline = time.monotonic() + 15
    while any(os.path.exists(f"/proc/{other}") for other in others):
        assert time.monotonic() < deadline, "they do not end"
        time.sleep(0.02)


def left_by_both():
    """The peer goes as the interpreter ends: what was pending fails on threads that do not get Python's lock again."""
    shared = c10d._get_default_store()
    if absent:
        for r in range(size - 1):
            shared.get(f"process of rank {r}")
        time.sleep(SECONDS_AT_EXIT + 0.5)
        os._exit(0)
    pending()  # nothing else holds the tensors
    sys.setswitchinterval(60)
    last.append(1.5)
    shared.set(f"process of rank {rank}", str(os.getpid()))


keep: list = []
steps: list = []
{"destroyed and aborted": destroyed_and_aborted, "left": left, "left by both": left_by_both}[how]()
