"""The functions of PyTorch that are replaced: one table, and the code that installs it.

What PyTorch keeps registries for is not here: lowerings and decompositions (fx/lowerings.py, flex/doors.py), the
backend of a device and its interface (install.py), the autocast rule of FlexAttention (flex/doors.py). The test of this
table finds every function that is replaced all the same, and fails for one that has no row.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from dataclasses import dataclass
from typing import Any

import torch

from torch_aule._version import TORCH_OLDEST

__all__ = ["PATCHES", "Patch", "install", "missing"]

NONE_KNOWN = "none known"


@dataclass(frozen=True)
class Patch:
    """A function that is replaced.

    Attributes
    ----------
    module, name : str
        Where it is: a name in the module, or ``Class.method``.
    by : str
        The function of ours, below torch_aule.compile, that takes the original and returns what replaces it.
    step : str
        When: ``inductor``, ``graphs`` (all of them or none), or ``flex`` and ``triton``, which need no Inductor.
    why : str
        What happens without it.
    issue : str
        Upstream, where it is discussed that a device could do without.
    since : tuple of int
        The first version of torch that needs it.
    may_lack : bool
        A PyTorch that has no such function needs no patch, and nothing is said.
    in_patterns : bool
        It is replaced in the patterns that check by it, not in its module.
    """

    module: str
    name: str
    by: str
    step: str
    why: str
    issue: str = NONE_KNOWN
    since: tuple[int, int] = TORCH_OLDEST
    may_lack: bool = False
    in_patterns: bool = False

    @property
    def target(self) -> str:
        """The dotted name of the function."""
        return f"{self.module}.{self.name}"

    def owner(self) -> Any:
        """The module or class that has the function; None if this PyTorch has none."""
        owner = importlib.import_module(self.module)
        for part in self.name.split(".")[:-1]:
            owner = getattr(owner, part, None)
        return owner

    def original(self) -> Any:
        """The function as it is now; None if this PyTorch has none."""
        found = getattr(self.owner(), self.name.split(".")[-1], None)
        if self.in_patterns and not isinstance(getattr(self.owner(), "pass_patterns", None), list):
            return None
        return found if callable(found) else None


_GRAPHS = "https://github.com/pytorch/pytorch/issues/132856, https://github.com/pytorch/pytorch/issues/193803"

PATCHES = (
    Patch("torch._inductor.scheduler", "Scheduler.create_backend", "doors.replaced.create_backend", "inductor",
          "It refuses every GPU without Triton but mps; generated GLSL does without.",
          "https://github.com/pytorch/pytorch/pull/152933"),
    Patch("torch._inductor.utils", "is_big_gpu", "doors.replaced.is_big_gpu", "inductor",
          "It offers Triton's templates for products, or warns that a GPU has too few multiprocessors for them.",
          "https://github.com/pytorch/pytorch/issues/141690"),
    Patch("torch._inductor.graph", "GraphLowering.decide_layout_opt", "doors.replaced.decide_layout_opt", "inductor",
          "It moves graphs with convolutions to channels-last; ours are as fast without the copies."),
    Patch("torch._inductor.fx_passes.post_grad", "prepare_softmax_extra_check",
          "doors.replaced.prepare_softmax_extra_check", "inductor",
          "It knows two devices by name. Maximum and sum of a softmax are one reduction where rows leave registers."),
    Patch("torch._inductor.fx_passes.joint_graph", "_other_is_broadcasted_in_dim",
          "doors.replaced.other_is_broadcasted_in_dim", "inductor",
          "softmax(scale x) becomes a form with the maximum of x, and since 2.13 of both.", in_patterns=True),
    Patch("torch._inductor.fx_passes.joint_graph", "replace_random_passes", "doors.replaced.replace_random_passes",
          "inductor", "A checkpoint draws its seeds again in its backward, without the generator's state.",
          since=(2, 14)),
    Patch("torch._inductor.compile_fx", "_recursive_pre_grad_passes", "fx.pre_grad.with_our_passes", "inductor",
          "Passes before autograd have one setting, `pre_grad_custom_pass`, which is the program's."),
    Patch("torch._inductor.lowering", "index_put_impl_", "fx.lowerings.index_put", "inductor",
          "It adds by atomics in dtypes for which generated kernels have none."),
    Patch("torch._inductor.lowering", "scatter_fallback", "fx.lowerings.scatter_fallback", "inductor",
          "As index_put_impl_."),
    Patch("torch._inductor.cudagraph_utils", "check_multiple_devices_or_any_cpu_nodes", "replay.accepts_aule", "graphs",
          "It accepts graphs of the device type cuda alone.", _GRAPHS),
    Patch("torch._inductor.compile_fx", "cudagraphify", "replay.by_device", "graphs",
          "It captures by CUDA's graphs; for our functions it is `replay.cudagraphify`.", _GRAPHS),
    Patch("torch._inductor.output_code", "cudagraph_post_compile", "replay.says_for_whom", "graphs",
          "It does not tell cudagraphify for which device it asks.", _GRAPHS),
    Patch("torch._inductor.output_code", "cudagraph_partition_post_compile", "replay.says_for_whom", "graphs",
          "As cudagraph_post_compile.", _GRAPHS),
    Patch("torch._inductor.output_code", "maybe_handle_backward_generation", "replay.without_tree_manager", "graphs",
          "It asserts that CUDA's manager of graphs is there.", _GRAPHS),
    Patch("torch._inductor.output_code", "maybe_realign_inputs", "replay.aligns_always", "graphs",
          "It leaves inputs as they are if the work is graphed; our graphs take them by address.", _GRAPHS),
    Patch("torch._inductor.scheduler", "Scheduler.should_partition", "replay.keeps_scalars", "graphs",
          "It cuts a graph at each scalar on the host, also at those that our operators give beside results.", _GRAPHS),
    Patch("torch.nn.attention.flex_attention", "_validate_device", "flex.doors.validate_device", "flex",
          "It refuses devices that it does not know by name.", "https://github.com/pytorch/pytorch/pull/148656"),
    Patch("torch.utils._triton", "has_triton", "doors.user_kernels.has_triton", "triton",
          "It lists devices by name, and Dynamo captures no launch of Triton where none of them is there.",
          "https://github.com/pytorch/pytorch/issues/171956", may_lack=True),
    Patch("torch.utils._triton", "has_triton_tensor_descriptor_host_tma",
          "doors.user_kernels.has_tensor_descriptors", "triton", "As has_triton, for tensor descriptors.",
          "https://github.com/pytorch/pytorch/issues/171956", may_lack=True),
    Patch("torch._inductor.codegen.wrapper", "user_defined_triton_kernel_transitive_closure_source_code",
          "doors.user_kernels.named_source", "inductor",
          "The cache of graphs takes kernels for the same that differ in what they capture or in their options.",
          may_lack=True),
    Patch("torch._inductor.ir", "UserDefinedTritonKernel.can_fuse_epilogue", "doors.user_kernels.can_fuse_epilogue",
          "inductor", "It lets Inductor write an epilogue of its own into a user's kernel.", may_lack=True),
)  # fmt: skip


def _of(step: str) -> list[Patch]:
    version = tuple(map(int, torch.__version__.split(".")[:2]))  # a nightly build counts as the release to come
    return [patch for patch in PATCHES if patch.step == step and version >= patch.since]


def missing(step: str) -> list[str]:
    """Dotted names of a step's functions that this PyTorch lacks.

    Parameters
    ----------
    step : str
        As of :class:`Patch`.

    Returns
    -------
    list of str
        Empty if all are there that must be.
    """
    return [patch.target for patch in _of(step) if patch.original() is None and not patch.may_lack]


def install(step: str) -> list[str]:
    """Replace a step's functions; those that are replaced already stay as they are.

    Parameters
    ----------
    step : str
        As of :class:`Patch`.

    Returns
    -------
    list of str
        Dotted names of those that this PyTorch lacks. The others are replaced.
    """
    for patch in _of(step):
        original = patch.original()
        if original is not None and not hasattr(original, "_aule_original"):
            _put(patch, original)
    return missing(step)


def _put(patch: Patch, original: Any) -> None:
    module, _, maker = patch.by.rpartition(".")
    make = getattr(importlib.import_module(f"torch_aule.compile.{module}"), maker)
    replacement = functools.wraps(original)(make(original))
    replacement._aule_original = original
    owner, name = patch.owner(), patch.name.split(".")[-1]
    if patch.in_patterns:
        rows = (row for patterns in owner.pass_patterns for rows in patterns.patterns.values() for row in rows)
        for row in rows:
            if row.extra_check is original:
                row.extra_check = replacement
    elif isinstance(inspect.getattr_static(owner, name), staticmethod):
        setattr(owner, name, staticmethod(replacement))
    else:
        setattr(owner, name, replacement)
