"""The backend of attention here, and ``F.scaled_dot_product_attention`` of CPU and CUDA tensors through it."""

from __future__ import annotations

import logging
import os
import threading

import torch
import torch.nn.functional as F

from torch_aule import _C
from torch_aule.attention import cpu, flash_attention
from torch_aule.errors import VulkanInitError
from torch_aule.integrations.patch import Patches

__all__ = ["get_available_backends", "get_backend_info", "install", "patch_model", "uninstall"]

_NAMES = ("vulkan", "cpu")  # in the order of preference
_MAX_HEAD_SIZE = 512
_FLOATS = (torch.float32, torch.float16, torch.bfloat16)
_log = logging.getLogger("torch_aule")


def get_available_backends() -> list[str]:
    """Backends of attention here, the best first: ``"vulkan"`` where there is a device, and always ``"cpu"``.

    A software Vulkan device shows only where there is no GPU: see :func:`get_backend_info`.
    """
    return [name for name in _NAMES if name != "vulkan" or _C.device_count() > 0]


def get_backend_info() -> dict[str, dict]:
    """Each backend, available or not.

    Returns
    -------
    dict
        By name: ``available``, ``device`` (its name; None, if it is not available), ``description``, ``software``
        (whether the CPU computes in the end) and ``installed`` (whether :func:`install` chose it).
    """
    count = _C.device_count()
    properties = _C.device_properties(_C.current_device()) if count else None
    return {
        "vulkan": {
            "available": count > 0,
            "device": properties["name"] if properties else None,
            "description": "Vulkan compute kernels" if count else _C.unavailable_reason(),
            "software": properties is not None and properties["kind"] == "cpu",
            "installed": _route.backend == "vulkan",
        },
        "cpu": {
            "available": True,
            "device": "CPU",
            "description": "PyTorch's operators, over blocks of queries",
            "software": True,
            "installed": _route.backend == "cpu",
        },
    }


class _Route:
    """The one replacement of ``scaled_dot_product_attention``, and what is said about it."""

    def __init__(self):
        self.lock = threading.Lock()
        self.patches = Patches()
        self.backend: str | None = None  # None: not installed
        self.verbose = False
        self.said: set[str] = set()

    def say(self, text: str) -> None:
        """Once for each text: it may be about every call."""
        if text not in self.said:
            self.said.add(text)
            _log.info(text)
            if self.verbose:
                print(f"torch_aule: {text}")


_route = _Route()
_original = F.scaled_dot_product_attention


def _declined(backend, query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa) -> str | None:
    """Why the original has to compute this call, errors included; None, if it need not."""
    tensors = [query, key, value] + ([] if attn_mask is None else [attn_mask])
    if not all(type(t) in (torch.Tensor, torch.nn.Parameter) for t in tensors):
        return "subclasses of tensors"
    if torch.compiler.is_compiling() or torch._C._functorch.peek_interpreter_stack() is not None:
        return "calls that are being compiled or transformed"
    if torch.utils._python_dispatch._get_current_dispatch_mode() is not None:
        return "calls under a dispatch mode"
    if query.device.type not in ("cpu", "cuda") or any(t.device != query.device for t in tensors):
        return "tensors on other devices"
    if any(t.layout != torch.strided or t.is_nested for t in tensors) or query.dtype not in _FLOATS:
        return "other dtypes and layouts"
    if any(t.dtype != query.dtype for t in (key, value)):
        return "other dtypes and layouts"
    if any(t.dim() != query.dim() or t.numel() == 0 for t in (key, value)) or query.dim() not in (3, 4):
        return "shapes without three or four dimensions, or without elements"
    if query.dim() == 4 and not query.size(0) == key.size(0) == value.size(0):
        return "batches of different sizes"
    if query.size(-1) != key.size(-1) or key.size(-2) != value.size(-2) or key.size(-3) != value.size(-3):
        return "shapes that do not fit"
    if query.numel() == 0 or max(query.size(-1), value.size(-1)) > _MAX_HEAD_SIZE:
        return f"head sizes over {_MAX_HEAD_SIZE}"
    heads, kv_heads = query.size(-3), key.size(-3)
    if heads != kv_heads and (not enable_gqa or heads % kv_heads):
        return "numbers of heads that do not fit"
    if attn_mask is not None:
        if is_causal:
            return "a mask beside is_causal"
        if attn_mask.dtype not in (torch.bool, query.dtype):
            return "masks of other dtypes"
        shape = (*query.shape[:-1], key.size(-2))
        if attn_mask.dim() > len(shape) or any(m not in (1, n) for m, n in zip(attn_mask.shape[::-1], shape[::-1])):
            return "masks that do not broadcast"
    if not 0 <= dropout_p <= 1 or (scale is not None and not 0 <= scale < float("inf")):
        return "a negative scale, or another number out of range"
    if query.device.type == "cuda" and backend == "cpu":
        return "CUDA tensors, with the backend cpu"
    return None


def _computed(backend, query, key, value, attn_mask, dropout_p, is_causal, scale):
    home = query.device
    # CUDA's tensors come through host memory, which both devices reach.
    query, key, value = (t.cpu() for t in (query, key, value))
    attn_mask = None if attn_mask is None else attn_mask.cpu()
    if backend == "cpu":
        result, _ = cpu.attention(
            query, key, value, attn_mask, dropout_p, is_causal, scale, -1, -1, 0.0, False
        )
    else:
        result = flash_attention(query, key, value, is_causal, scale, dropout_p, attn_mask)
    return result.to(home)


def attend(backend, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """``F.scaled_dot_product_attention`` by a backend where that serves the call, else by PyTorch."""
    given = query, key, value, attn_mask
    if isinstance(query, torch.Tensor) and torch.is_autocast_enabled(query.device.type):
        dtype = torch.get_autocast_dtype(query.device.type)
        narrow = [t.to(dtype) if isinstance(t, torch.Tensor) and t.is_floating_point() else t for t in given]
    else:
        narrow = given
    reason = _declined(backend, *narrow, dropout_p, is_causal, scale, enable_gqa)
    if reason is not None:
        _route.say(f"left to PyTorch: {reason}")
        return _original(*given, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
    return _computed(backend, *narrow, dropout_p, is_causal, scale)


def _through_aule(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    if torch.compiler.is_compiling():  # first: what follows is not for a compiler to trace
        return _original(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
    return attend(_route.backend, query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)


_through_aule.__name__, _through_aule.__doc__ = _original.__name__, _original.__doc__


def install(backend: str | None = None, verbose: bool = False) -> str:
    """Have ``F.scaled_dot_product_attention`` of CPU and CUDA tensors computed by this package.

    For programs whose tensors cannot move to the device: each call copies its operands there and the result back, so
    ``model.to("aule")`` is faster wherever it is possible. What the kernels do not serve (other dtypes, tensor
    subclasses, broadcast batches, compiled code) goes to PyTorch's function as before, errors included. Gradients pass.
    A second call only changes the backend.

    Parameters
    ----------
    backend : str, optional
        ``"vulkan"``, ``"cpu"`` (PyTorch's operators over blocks of queries: no memory for all scores), or ``"auto"``:
        the first of :func:`get_available_backends`. Default: the environment variable ``AULE_BACKEND``, else
        ``"auto"``.
    verbose : bool, default False
        Print what is installed, and once each why calls are left to PyTorch. The logger ``torch_aule`` has it anyway.

    Returns
    -------
    str
        The backend.

    Raises
    ------
    VulkanInitError
        If "vulkan" is asked for and there is no device.
    ValueError
        For another name.

    Notes
    -----
    ``torch.jit.script`` wants PyTorch's own function: script models before, or call :func:`uninstall`.

    Examples
    --------
    >>> torch_aule.install(verbose=True)
    >>> F.scaled_dot_product_attention(q, k, v)  # CPU tensors, computed on the device
    >>> torch_aule.uninstall()
    """
    asked = backend if backend is not None else os.environ.get("AULE_BACKEND", "") or "auto"
    if asked not in (*_NAMES, "auto"):
        raise ValueError(f"install: expected backend auto, {' or '.join(_NAMES)}, but got {asked!r}")
    chosen = get_available_backends()[0] if asked == "auto" else asked
    if chosen == "vulkan" and _C.device_count() == 0:
        raise VulkanInitError(f"install: there is no Vulkan device: {_C.unavailable_reason()}")
    if asked == "auto" and chosen == "cpu":
        cpu.say_once(_C.unavailable_reason())
    with _route.lock:
        if _route.backend is None:
            _route.said.clear()
            _route.patches.rebind(_original, _through_aule, keep=("torch._C._nn",))
        _route.backend, _route.verbose = chosen, verbose
    device = get_backend_info()[chosen]["device"]
    _route.say(f"scaled_dot_product_attention of CPU and CUDA tensors is computed by {chosen} ({device})")
    return chosen


def uninstall() -> None:
    """Put PyTorch's own function back, in every module that has taken the other. Without :func:`install`: nothing."""
    with _route.lock:
        _route.patches.undo()
        _route.backend = None


def patch_model(model):
    """Say how a model comes to the device: it needs no patch.

    Parameters
    ----------
    model : object
        Anything; it is not changed.

    Returns
    -------
    object
        `model` itself.
    """
    print(
        f"torch_aule: {type(model).__name__} needs no patch. model.to('aule') and inputs.to('aule') run all of it on "
        "the device; torch_aule.install() runs attention alone there, for models that stay on the CPU."
    )
    return model
