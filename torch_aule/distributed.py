"""``torch.distributed`` over aule devices: the backend ``"aule"``, for tensors of the device and of the CPU.

``import torch_aule`` registers it, where this torch has gloo. ``torch.distributed.init_process_group("aule")``, or no
backend named, makes a group for tensors of the device and of the CPU. Collectives are PyTorch's, and so are
``DistributedDataParallel`` above them. Ranks of one host exchange tensors of the device through shared memory, which
their devices read and write (``csrc/distributed/exchange.h``). Between hosts, and for what shared memory does not
serve, they are copied to pinned host memory for PyTorch's gloo; a gloo of its own serves tensors of the CPU. See
``docs/use/distributed.md``.
"""

from __future__ import annotations

import atexit
import datetime
import functools
import inspect

import torch

from torch_aule import _C

__all__ = ["BACKEND", "is_available"]

BACKEND = "aule"
_DEVICES = ["cpu", "aule"]
_SECONDS_AT_EXIT = 1.0  # for what is still pending when the interpreter ends without destroy_process_group


def is_available() -> bool:
    """Whether this torch has what the backend needs.

    Returns
    -------
    bool
        False for a torch that was built without ``torch.distributed`` or without gloo.
    """
    return torch.distributed.is_available() and torch.distributed.is_gloo_available()


def _create(store, rank: int, size: int, timeout: datetime.timedelta):
    """A group's backend, as `torch.distributed.Backend.register_backend` wants it."""
    if not is_available():
        raise RuntimeError("the backend 'aule' works over gloo, and this torch was built without gloo")
    if not hasattr(_C, "process_group"):
        raise RuntimeError("this torch_aule was built for a torch without torch.distributed; build it again")
    if _C.is_in_bad_fork():
        torch.aule.init()  # raises, and says why

    def gloo(prefix):
        return torch.distributed.ProcessGroupGloo(torch.distributed.PrefixStore(prefix, store), rank, size, timeout)

    engines = gloo("aule"), gloo("cpu")
    shared = _shared_segment(torch.distributed.PrefixStore("shared", store), rank, size) if size > 1 else None
    return _C.process_group(*engines, shared)


def _shared_segment(store, rank: int, size: int):
    """Memory that all ranks share, if they run on one host with room for it. If one rank refuses, none has any."""
    if rank == 0:
        segment = _C.SharedSegment.create(size)
        store.set("name", segment.name if segment else "")
        agreed = segment is not None and all([store.get(f"opened {other}") == b"1" for other in range(1, size)])
        store.set("agreed", str(int(agreed)))
        if segment:
            segment.unlink()
        return segment if agreed else None
    name = store.get("name").decode()
    if not name:
        return None
    segment = _C.SharedSegment.open(name, rank, size)
    store.set(f"opened {rank}", str(int(segment is not None)))
    return segment if store.get("agreed") == b"1" else None


def _named(original):
    """Without a backend's name PyTorch serves the accelerator alone, and DDP needs tensors of the CPU, too."""
    signature = inspect.signature(original)

    @functools.wraps(original)
    def new_process_group(*args, **kwargs):
        given = signature.bind(*args, **kwargs)
        backend = torch.distributed.Backend
        if given.arguments["backend"] == backend.UNDEFINED and backend.default_device_backend_map["aule"] == BACKEND:
            given.arguments["backend"] = backend(BACKEND)
        return original(*given.args, **given.kwargs)

    return new_process_group


def _of_ours_too(original):
    """PyTorch's function asks for the name gloo, and would refuse a group that has gloo inside."""

    @functools.wraps(original)
    def monitored_barrier(group=None, timeout=None, wait_all_ranks=False):
        from torch.distributed import distributed_c10d as c10d

        used = c10d._get_default_group() if group is None else group
        if c10d._rank_not_in_group(group) or BACKEND not in c10d.get_backend_config(used):
            return original(group, timeout, wait_all_ranks)
        timeout = c10d.default_pg_timeout if timeout is None else timeout
        return used.monitored_barrier(timeout, wait_all_ranks=wait_all_ranks)

    return monitored_barrier


def _install() -> None:
    """Register the backend with PyTorch."""
    if not torch.distributed.is_available():
        return
    from torch.distributed import distributed_c10d as c10d

    c10d.Backend.register_backend(BACKEND, _create, devices=_DEVICES)
    c10d._new_process_group_helper = _named(c10d._new_process_group_helper)
    c10d.monitored_barrier = torch.distributed.monitored_barrier = _of_ours_too(c10d.monitored_barrier)
    if hasattr(_C, "close_process_groups"):
        atexit.register(_C.close_process_groups, _SECONDS_AT_EXIT)
