"""Dotted names of modules that have moved: ``import torch_aule.memory`` gives ``torch_aule.backend.memory``.

Both names are one module. The finder answers after Python's own, so a name that exists again is not hidden.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import sys

__all__ = ["MOVED", "install"]

#: Name below torch_aule -> where the module is now, below torch_aule.
MOVED = {
    "amp": "backend.amp",
    "benchmark.roof": "measure.roof",
    "benchmark.sweep": "benchmark.harness.sweep",
    "benchmark.table": "benchmark.report.table",
    "benchmark.visualize": "benchmark.report.visualize",
    "build_shaders": "compat.build_shaders",
    "compile_config": "compile.config",
    "device": "backend.devices",
    "experimental": "compat.experimental",
    "fallback": "backend.fallback",
    "graphs": "backend.graphs",
    "integrations.comfyui": "compat.comfyui",
    "kv_cache": "attention.cache",
    "kv_pages": "attention.pages",
    "memory": "backend.memory",
    "moe": "compat.moe",
    "objects": "compat.objects",
    "positions": "attention.positions",
    "random": "backend.random",
    "reference_kernels": "compat.reference_kernels",
    "rotary": "attention.rotary",
    "sdpa": "compat.install",
    "stream": "backend.streams",
    "telemetry": "backend.telemetry",
    "testing": "compat.testing",
    "transfers": "backend.transfers",
    "validation": "validate",
    "variants": "attention.variants",
}
_PACKAGE = "torch_aule."


class _Finder:
    """A finder and a loader in one: the module under the old name is the module under the new one."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        moved = MOVED.get(name.removeprefix(_PACKAGE)) if name.startswith(_PACKAGE) else None
        if moved is None:
            return None
        real = importlib.util.find_spec(_PACKAGE + moved)
        return importlib.machinery.ModuleSpec(name, _Finder, origin=real.origin)

    @staticmethod
    def create_module(spec):
        return None

    @staticmethod
    def exec_module(module):
        name = module.__spec__.name
        sys.modules[name] = importlib.import_module(_PACKAGE + MOVED[name.removeprefix(_PACKAGE)])

    @staticmethod
    def get_code(name):
        """For ``python -m``."""
        real = _PACKAGE + MOVED[name.removeprefix(_PACKAGE)]
        return importlib.util.find_spec(real).loader.get_code(real)


def install() -> None:
    """Let imports find modules by their old names. A second call does nothing."""
    if _Finder not in sys.meta_path:
        sys.meta_path.append(_Finder)
