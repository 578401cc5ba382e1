"""Makes other packages work with the device where they choose among devices that they know by name.

Programs written for torch.cuda mostly need nothing: the device answers as PyTorch's accelerator. Where accelerate,
transformers, safetensors, diffusers, gptqmodel, liger-kernel, lightning, sentence-transformers, torchao or ultralytics
keep closed lists, hooks add this one: see :func:`status`. A hook is applied when the other package is imported, never
imports it, looks before it changes anything, and can be taken back with :func:`disable`, or kept off with
``TORCH_AULE_INTEGRATIONS=0`` (or a list of those that are wanted: ``TORCH_AULE_INTEGRATIONS=accelerate,safetensors``).

Hooks that choose the device for programs that name none act only if no built-in accelerator (CUDA, XPU, MPS) is there.
"""

from __future__ import annotations

from torch_aule.integrations import (
    accelerate,
    bitsandbytes,
    compressed_tensors,
    diffusers,
    gptqmodel,
    hqq,
    liger,
    lightning,
    safetensors,
    sentence_transformers,
    torchao,
    transformers,
    transformers_batching,
    transformers_fp8,
    transformers_gguf,
    transformers_mxfp4,
    ultralytics,
)
from torch_aule.integrations._registry import Registry, Row

__all__ = ["Row", "disable", "enable", "status"]

_registry = Registry([
    hook
    for package in (
        accelerate, bitsandbytes, compressed_tensors, transformers, transformers_batching, transformers_fp8,
        transformers_gguf, transformers_mxfp4, safetensors, diffusers, gptqmodel, hqq, liger, lightning,
        sentence_transformers, torchao, ultralytics,
    )
    for hook in package.HOOKS
])  # fmt: skip


def status() -> list[Row]:
    """Changes in other packages, and those that were not made, with the reason.

    Returns
    -------
    list of Row
        Named tuples ``(package, version, hook, state, reason)``. `state` is ``"applied"`` (`reason` says what the hook
        does), ``"pending"`` (the package has not been imported), ``"skipped"`` (turned off, not needed, or the package
        does not look as expected; nothing was changed) or ``"failed"``.

    Examples
    --------
    >>> import torch_aule.integrations
    >>> for row in torch_aule.integrations.status():
    ...     print(*row, sep="  ")
    """
    return _registry.status()


def disable(*names: str) -> None:
    """Take hooks back, and keep them off.

    Functions that were replaced are the other package's own again, in every module that imported them.

    Parameters
    ----------
    *names : str
        Packages (``"accelerate"``) or single hooks (``"transformers.pipeline"``). Default: all.

    Raises
    ------
    ValueError
        If no hook has such a name.
    """
    _registry.disable(names)


def enable(*names: str) -> None:
    """Allow hooks that :func:`disable` or ``TORCH_AULE_INTEGRATIONS`` turned off.

    Parameters
    ----------
    *names : str
        Packages or single hooks, as for :func:`disable`. Default: all.

    Raises
    ------
    ValueError
        If no hook has such a name.
    """
    _registry.enable(names)
