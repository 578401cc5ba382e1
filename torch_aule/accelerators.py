"""The accelerator of PyTorch's own that is there."""

from __future__ import annotations

import os

import torch

__all__ = ["built_in_accelerator"]


def built_in_accelerator() -> str | None:
    """A usable accelerator that torch was built for, found without starting CUDA (which would poison fork).

    Returns
    -------
    str or None
        "cuda", "mps" or "xpu"; None where there is none.
    """
    if torch.backends.cuda.is_built():
        before = os.environ.get("PYTORCH_NVML_BASED_CUDA_CHECK")
        os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
        try:
            if torch.cuda.is_available():
                return "cuda"
        finally:
            if before is None:
                del os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"]
            else:
                os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = before
    if torch.backends.mps.is_built() and torch.backends.mps.is_available():
        return "mps"
    if torch.xpu._is_compiled() and torch.xpu.is_available():
        return "xpu"
    return None
