"""The device's pass over Inductor's graphs, and what identifies this code generator in caches."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

import torch
from torch._inductor.custom_graph_pass import CustomGraphModulePass

from torch_aule._version import __version__
from torch_aule.compile.codegen.facts import properties_of
from torch_aule.compile.fx.epilogues import fuse_epilogues
from torch_aule.compile.fx.float32_products import widen_products

__all__ = ["AulePass", "generator_identity"]


@functools.cache
def generator_identity() -> str:
    """A hash of all that a generated kernel depends on besides the graph: our sources, the compiler, the device.

    Without it in the key, a cache would serve the kernels of an older version, or of another device.
    """
    from torch_aule.glsl.shader_source import INCLUDE_DIRS
    from torch_aule.shader.runtime import compiler_identity

    digest = hashlib.sha256(__version__.encode())
    digest.update(compiler_identity().encode())
    for index in range(torch.aule.device_count()):
        digest.update(repr(sorted(properties_of(index).items(), key=lambda row: row[0])).encode())
    folders = [(Path(__file__).parent.parent, "*.py"), *((folder, "*") for folder in INCLUDE_DIRS)]
    for folder, pattern in folders:
        for path in sorted(folder.rglob(pattern)):
            if path.is_file() and path.suffix in (".py", ".glsl", ".def", ".h"):
                digest.update(path.name.encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()


class AulePass(CustomGraphModulePass):
    """Runs last among Inductor's passes, for graphs with a tensor on aule."""

    def __call__(self, gm: torch.fx.GraphModule) -> None:
        """Make products and what follows them one call."""
        widen_products(gm.graph)
        fuse_epilogues(gm.graph)

    def uuid(self) -> str:
        """Part of the key of Inductor's caches."""
        return generator_identity()
