"""Triton's compiler for this device: its own passes up to TTIR, then GLSL, which its own caches keep.

Imports triton: `torch_aule.triton.door` loads this when Triton has been imported.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from triton.backends.compiler import BaseBackend, GPUTarget, Language

from torch_aule import _C
from torch_aule.triton.ir import Unsupported
from torch_aule.triton.kernel import write_kernel
from torch_aule.triton.matrices import Matrix, matrix_of
from torch_aule.triton.writer import Device

__all__ = ["AuleBackend", "HEAD", "WARP", "device_facts"]

HEAD = "// aule signature: "  # how a kept kernel begins; letters of compile_generated follow
WARP = 32  # threads of a warp, as Triton's programs count them; a subgroup of the device may be smaller


@dataclasses.dataclass(frozen=True)
class _Options:
    """Options of a launch beside a kernel's arguments. Loops load a turn ahead if `num_stages` is above 1."""

    num_warps: int = 4
    num_ctas: int = 1
    num_stages: int = 3
    warp_size: int = WARP
    maxnreg: int | None = None
    cluster_dims: tuple = (1, 1, 1)
    enable_fp_fusion: bool = True
    launch_cooperative_grid: bool = False
    launch_pdl: bool = False
    supported_fp8_dtypes: tuple = ("fp8e4nv", "fp8e5")
    deprecated_fp8_dot_operand_dtypes: tuple = ()
    default_dot_input_precision: str = "ieee"
    allowed_dot_input_precisions: tuple = ("ieee", "tf32", "tf32x3", "bf16x3", "bf16x6")
    max_num_imprecise_acc_default: int = 0
    extern_libs: tuple = ()
    debug: bool = False
    sanitize_overflow: bool = False
    backend_name: str = "aule"
    arch: str = ""
    instrumentation_mode: str = ""
    fpsan_homomorphic_casts: bool = False
    ir_override: str | None = None
    check_bounds: bool = False  # TORCH_AULE_CHECK_BOUNDS

    def hash(self) -> str:
        text = "_".join(f"{name}-{value}" for name, value in sorted(self.__dict__.items()))
        return hashlib.sha256(text.encode()).hexdigest()


@functools.cache
def _own_version() -> str:
    """Of the code that writes kernels."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


@functools.cache
def _check_bounds() -> bool:
    return os.environ.get("TORCH_AULE_CHECK_BOUNDS", "") not in ("", "0")


def device_facts(index: int) -> Device:
    """The target on which kernels for a device depend.

    Parameters
    ----------
    index : int
        Of an aule device.
    """
    p = torch.aule.get_device_properties(index).as_dict()
    lanes = p["min_subgroup_size"] if p["min_subgroup_size"] == p["max_subgroup_size"] else 0
    shuffles = p["subgroup_shuffle"] and p["subgroup_basic"]
    return Device(
        subgroup=lanes if shuffles else 0,
        shared_bytes=p["max_shared_bytes"],
        threads=p["max_workgroup_invocations"],
        float32_atomic_add=p["float32_atomic_add"],
        matrices=_matrices(index) if lanes and shuffles else (),
    )


@functools.cache
def _matrices(index: int) -> tuple[Matrix, ...]:
    """The first call asks the device."""
    found = (matrix_of(name, _C.matrix_layout(index, name == "bf16")) for name in ("f16", "bf16"))
    return tuple(matrix for matrix in found if matrix is not None)


class AuleBackend(BaseBackend):
    """Compiles TTIR."""

    binary_ext = "glsl"

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        return target.backend == "aule"

    def hash(self) -> str:
        return f"{_own_version()}-{self.target.arch}"

    def parse_options(self, options: dict) -> Any:
        options = {"check_bounds": _check_bounds(), **options}
        names = {field.name for field in dataclasses.fields(_Options)}
        return _Options(**{name: value for name, value in options.items() if name in names and value is not None})

    def pack_metadata(self, metadata) -> tuple:
        return metadata.num_warps, metadata.num_ctas, metadata.shared

    def get_codegen_implementation(self, options) -> dict:
        return {"min_dot_size": lambda left, right: (1, 1, 1), "convert_custom_types": None}

    def get_module_map(self) -> dict[str, ModuleType]:
        from triton.language.extra.cuda import libdevice

        return {"triton.language.extra.libdevice": libdevice}

    def load_dialects(self, context) -> None:
        """Triton's own suffice."""

    def add_stages(self, stages: dict, options, language: Language = Language.TRITON) -> None:
        if language != Language.TRITON:
            raise Unsupported("kernels in Gluon are not served on aule")
        stages["ttir"] = lambda module, metadata: self._ttir(module)
        stages["glsl"] = lambda module, metadata: self._glsl(module, metadata, options)

    @staticmethod
    def _ttir(module):
        from triton._C.libtriton import ir, passes

        manager = ir.pass_manager(module.context)
        manager.enable_debug()
        passes.common.add_inliner(manager)
        if hasattr(passes.ttir, "add_rewrite_tensor_descriptor_to_pointer"):
            passes.ttir.add_rewrite_tensor_descriptor_to_pointer(manager)
        elif hasattr(passes.ttir, "add_rewrite_tensor_pointer"):
            passes.ttir.add_rewrite_tensor_pointer(manager)
        passes.common.add_canonicalizer(manager)
        passes.ttir.add_combine(manager)
        passes.ttir.add_reorder_broadcast(manager)
        passes.common.add_cse(manager)
        passes.ttir.add_triton_licm(manager)
        passes.common.add_symbol_dce(manager)
        passes.ttir.add_loop_unroll(manager)
        manager.run(module, "make_ttir")
        return module

    def _glsl(self, module, metadata: dict, options) -> bytes:
        if options.num_ctas != 1:
            raise Unsupported("num_ctas above 1 is not served on aule")
        device = device_facts(torch.aule.current_device())
        kernel = write_kernel(
            str(module), device, options.num_warps * WARP, ahead=options.num_stages > 1,
            check_bounds=options.check_bounds,
        )  # fmt: skip
        metadata |= {"name": kernel.name, "shared": kernel.shared_bytes}
        return f"{HEAD}{kernel.signature}\n{kernel.source}".encode()
