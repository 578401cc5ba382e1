"""Imports of generated modules: kernels from their text, memory, and a stream's handle."""

from __future__ import annotations

import sys

import torch

from torch_aule._C import empty_strided_aule
from torch_aule.compile.codegen.unroll import unrolled
from torch_aule.shader.generated import compile_generated, prepare_early

__all__ = ["aule_kernel", "empty_strided_aule", "raw_stream"]


def aule_kernel(name: str, signature: str, source: str):
    """The kernel of a piece of GLSL, as `compile_generated` makes it.

    Parameters
    ----------
    name, signature, source : str
        As of :func:`torch_aule.shader.generated.compile_generated`.

    Returns
    -------
    callable
        It takes the arguments that the signature names, then the number of workgroups.
    """
    kernel = compile_generated(unrolled(source), name=name, signature=signature)
    kernel.file = sys._getframe(1).f_code.co_filename  # the generated module: traces lead there
    prepare_early(kernel, torch.aule.current_device())
    return kernel


def raw_stream(index: int) -> int:
    """The number of a device's current stream; launches take the current stream by themselves."""
    return torch.aule.current_stream(index).stream_id
