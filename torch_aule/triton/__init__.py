"""Kernels of Triton (``@triton.jit``) on the device: TTIR to GLSL, a compiler and a driver for Triton's own runtime.

``pip install triton``, ``import torch_aule``, and call a kernel with tensors of the device. Nothing here is imported
before Triton is (`torch_aule.triton.door`). docs/use/triton.md has what is served.
"""

from torch_aule.triton.ir import Unsupported

__all__ = ["Unsupported"]
