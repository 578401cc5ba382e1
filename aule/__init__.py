"""The names of the package aule-attention, from torch_aule: ``from aule import flash_attention`` goes on working."""

from torch_aule import (
    Aule,
    AuleError,
    DeviceLostError,
    GpuTensor,
    InvalidShapeError,
    NoComputeQueueError,
    OutOfMemoryError,
    ShaderCompileError,
    VulkanInitError,
    __version__,
    aule_attention,
    flash_attention,
    get_available_backends,
    get_backend_info,
    install,
    patch_model,
    print_backend_info,
    uninstall,
)

attention = flash_attention

__all__ = [
    "Aule",
    "AuleError",
    "DeviceLostError",
    "GpuTensor",
    "InvalidShapeError",
    "NoComputeQueueError",
    "OutOfMemoryError",
    "ShaderCompileError",
    "VulkanInitError",
    "__version__",
    "attention",
    "aule_attention",
    "flash_attention",
    "get_available_backends",
    "get_backend_info",
    "install",
    "patch_model",
    "print_backend_info",
    "uninstall",
]
