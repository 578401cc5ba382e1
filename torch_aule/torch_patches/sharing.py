"""Tensors of the device in queues between processes, and from a DataLoader's workers: they travel through the host.

Memory of this device cannot be shared, and torch.multiprocessing would fail on it in the thread that feeds a queue,
where an error is printed and the receiver waits for ever. So what cannot be sent is sent as its error.
"""

from __future__ import annotations

import warnings
from multiprocessing.reduction import ForkingPickler

import torch
from torch.multiprocessing import reductions
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

__all__ = ["install"]


def _rebuild_error(text: str):
    raise RuntimeError(text)


def _error(what: str, error: Exception | str):
    return _rebuild_error, (f"{what} of device aule could not be sent to another process: {error}",)


def _received(host, index: int):
    """`host` on the device of that index, or on the current one where there are fewer."""
    import torch_aule  # noqa: F401  the receiver may not have imported it

    count = torch.aule.device_count()
    if count == 0:
        raise RuntimeError(f"a tensor of aule:{index} was received where there is no aule device")
    return host.to(torch.device("aule", index if index < count else torch.aule.current_device()))


def _rebuild_tensor(host: torch.Tensor, index: int, kind: type, requires_grad: bool):
    t = _received(host, index)
    if issubclass(kind, torch.nn.Parameter):
        return kind(t, requires_grad=requires_grad)
    t = t.requires_grad_(requires_grad)
    return t if kind is torch.Tensor else t.as_subclass(kind)


def _rebuild_storage(bytes_: torch.Tensor, index: int):
    return _received(bytes_, index).untyped_storage()


def _host_copy(t: torch.Tensor) -> torch.Tensor:
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a fallback: this thread is the queue's
        return t.detach().as_subclass(torch.Tensor).resolve_conj().resolve_neg().cpu()


def _reduce_tensor(t: torch.Tensor):
    if is_traceable_wrapper_subclass(t) or t.device.type != "aule":
        return reductions.reduce_tensor(t)
    if t.requires_grad and not t.is_leaf:
        return _error("a tensor", "it requires grad and is no leaf, and autograd does not cross processes: detach() it")
    try:
        return _rebuild_tensor, (_host_copy(t), t.device.index, type(t), t.requires_grad)
    except Exception as error:
        return _error("a tensor", error)


def _reduce_storage(storage):
    if storage.device.type != "aule":
        return reductions.reduce_storage(storage)
    try:
        whole = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
        return _rebuild_storage, (_host_copy(whole), storage.device.index)
    except Exception as error:
        return _error("a storage", error)


def install() -> None:
    """Register the reductions where torch has registered its own."""
    registered = ForkingPickler._extra_reducers
    for kind, own in list(registered.items()):
        if own is reductions.reduce_tensor:
            ForkingPickler.register(kind, _reduce_tensor)
        elif own is reductions.reduce_storage:
            ForkingPickler.register(kind, _reduce_storage)
