"""PyTorch on Vulkan: the device ``aule``.

``import torch_aule`` registers the backend, always. PyTorch's autoload entry point comes through ``_autoload`` instead,
which registers only when that helps: see :mod:`torch_aule._register`.
"""

import os as _os
import sys as _sys

from torch_aule._version import __version__


def _torch_is_being_imported() -> bool:
    spec = getattr(_sys.modules.get("torch"), "__spec__", None)
    return bool(getattr(spec, "_initializing", False))


# True: torch's own import is loading this package through the entry point, and nobody has asked for us by name.
_from_entry_point = _torch_is_being_imported()


def _autoload() -> None:
    """Entry point of the group ``torch.backends``. Never raises: an exception here would break ``import torch``."""
    if not _from_entry_point:
        return  # `import torch_aule` is importing torch at this moment; it registers right afterwards
    try:
        from torch_aule import _register

        registered = _register.autoload()
    except Exception as error:
        import logging

        logging.getLogger("torch_aule").info("not registered by autoload: %s", error)
        registered = False
    if not registered:
        # Forget the package, so that a later `import torch_aule` runs its body again and registers.
        for name in [n for n in _sys.modules if n == __name__ or n.startswith(__name__ + ".")]:
            if name != __name__ + "._C":  # an extension module can be initialised only once
                del _sys.modules[name]


# Everything above must stand before torch is imported: torch calls `_autoload` while this file is still being read.
import torch as _torch  # noqa: E402

from torch_aule.compat import moved as _moved  # noqa: E402

_moved.install()

_ERRORS = (
    "AuleError", "DeviceLostError", "InvalidShapeError", "NoComputeQueueError", "OutOfMemoryError",
    "ShaderCompileError", "VulkanInitError",
)  # fmt: skip
_LAZY = {
    **dict.fromkeys(_ERRORS, "torch_aule.errors"),
    "Aule": "torch_aule.compat.objects",
    "GpuTensor": "torch_aule.compat.objects",
    "Shader": "torch_aule.shader",
    "get_available_backends": "torch_aule.compat.install",
    "get_backend_info": "torch_aule.compat.install",
    "get_include": "torch_aule.info",
    "install": "torch_aule.compat.install",
    "patch_model": "torch_aule.compat.install",
    "set_kernel_variant": "torch_aule.attention.variants",
    "uninstall": "torch_aule.compat.install",
    "available_variants": "torch_aule.attention.variants",
    "compile_shader": "torch_aule.shader",
    "jit": "torch_aule.shader",
    "load_spirv": "torch_aule.shader",
    "flash_attention": "torch_aule.attention",
    "aule_attention": "torch_aule.attention",
    "flash_attn_with_kvcache": "torch_aule.attention.cache",
    "linear_bias_act": "torch_aule.linear",
    "paged_attention": "torch_aule.attention.cache",
    "print_backend_info": "torch_aule.info",
    "rotary_embedding": "torch_aule.attention.rotary",
    "DiagonalMatMul": "torch_aule.compat.reference_kernels",
    "FusedLinearRowSum": "torch_aule.compat.reference_kernels",
    "MixtureOfExperts": "torch_aule.compat.moe",
    "moe_topk_route": "torch_aule.compat.moe",
}

_MODULES = {
    **{
        name: f"torch_aule.{name}"
        for name in ("assistant", "audio", "doctor", "functional", "llm", "profiling", "quantized", "validate")
    },
    **{name: f"torch_aule.{where}" for name, where in _moved.MOVED.items() if "." not in name},
}

__all__ = [
    "Aule",
    "AuleError",
    "DeviceLostError",
    "DiagonalMatMul",
    "FusedLinearRowSum",
    "GpuTensor",
    "InvalidShapeError",
    "MixtureOfExperts",
    "NoComputeQueueError",
    "OutOfMemoryError",
    "Shader",
    "ShaderCompileError",
    "VulkanInitError",
    "__version__",
    "aule_attention",
    "compile_shader",
    "flash_attention",
    "flash_attn_with_kvcache",
    "get_available_backends",
    "get_backend_info",
    "get_include",
    "install",
    "jit",
    "linear_bias_act",
    "load_spirv",
    "moe_topk_route",
    "paged_attention",
    "patch_model",
    "print_backend_info",
    "rotary_embedding",
    "uninstall",
]


def __getattr__(name: str):
    if name in _LAZY or name in _MODULES:
        import importlib

        if name in _MODULES:
            return importlib.import_module(_MODULES[name])
        value = getattr(importlib.import_module(_LAZY[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *_LAZY, *_MODULES})


if not _from_entry_point:
    from torch_aule import _register

    _register.register()

del _os, _torch
