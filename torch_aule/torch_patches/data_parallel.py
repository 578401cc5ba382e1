"""`nn.DataParallel` over one device calls the module; over several it is refused by name.

PyTorch builds the scattering and gathering of tensors for CUDA alone.
"""

from __future__ import annotations

import functools

import torch

__all__ = ["install"]


def _only_device(devices, device_type: str) -> torch.device:
    if len(devices) > 1:
        raise RuntimeError(
            f"nn.DataParallel and nn.parallel.data_parallel know one {device_type} device, and got {len(devices)}; "
            "use torch.nn.parallel.DistributedDataParallel, with a process for each device"
        )
    device = devices[0]
    return torch.device(device_type, device) if isinstance(device, int) else torch.device(device)


def install(device_type: str) -> None:
    """Wrap `torch.nn.parallel.comm.scatter` and `gather`, which all of that module's callers look up there."""
    from torch.nn.parallel import comm

    scatter, gather = comm.scatter, comm.gather

    def is_ours() -> bool:
        return torch._utils._get_available_device_type() == device_type  # "cuda" comes first where there is one

    @functools.wraps(scatter)
    def scatter_to_one(tensor, devices=None, chunk_sizes=None, dim=0, streams=None, *, out=None):
        if out is not None or not devices or not is_ours():
            return scatter(tensor, devices, chunk_sizes, dim, streams, out=out)
        return (tensor.to(_only_device(devices, device_type)),)

    @functools.wraps(gather)
    def gather_of_one(tensors, dim=0, destination=None, *, out=None):
        if out is not None or len(tensors) != 1 or destination is None or not is_ours():
            return gather(tensors, dim, destination, out=out)
        on_host = destination in (-1, "cpu", torch.device("cpu"))
        return tensors[0].to("cpu" if on_host else _only_device([destination], device_type))

    comm.scatter, comm.gather = scatter_to_one, gather_of_one
