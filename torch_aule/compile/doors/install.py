"""Registers the backend with Dynamo and Inductor, and opens the doors that they keep for known devices."""

from __future__ import annotations

import functools
import warnings

import torch

__all__ = ["install", "install_interface", "skip_random_states"]


def _missing(what: str) -> None:
    warnings.warn(f"torch_aule: this PyTorch has no {what}; torch.compile on aule may fall short", stacklevel=3)


@functools.cache
def install_interface() -> None:
    """Make the device known to Dynamo."""
    from torch._dynamo.device_interface import register_interface_for_device

    from torch_aule.compile.doors.interface import AuleInterface

    register_interface_for_device("aule", AuleInterface)
    for index in range(torch.aule.device_count()):
        register_interface_for_device(f"aule:{index}", AuleInterface)


@functools.cache
def skip_random_states() -> None:
    """States of generators live in tensors on the host that Dynamo must not trace: calls break the graph."""
    from torch._dynamo.decorators import skip

    from torch_aule.backend import random

    for name in random.__all__:
        skip(getattr(random, name))


@functools.cache
def install() -> None:
    """Make the device a backend of Inductor; a second call does nothing."""
    install_interface()
    from torch._inductor.codegen.common import register_backend_for_device, register_device_op_overrides

    from torch_aule.compile import config
    from torch_aule.compile.doors.scheduling import GlslScheduling
    from torch_aule.compile.doors.wrapper import AuleDeviceOpOverrides, AuleWrapper
    from torch_aule.compile.flex.doors import install_flex_lowerings
    from torch_aule.compile.fx.lowerings import install_lowerings
    from torch_aule.compile.fx.passes import AulePass
    from torch_aule.compile.fx.pre_grad import install_pre_grad_passes
    from torch_aule.compile.replay import install_graphs

    register_backend_for_device(
        "aule", GlslScheduling, AuleWrapper, device_custom_pass=AulePass(), device_custom_config=config
    )
    register_device_op_overrides("aule", AuleDeviceOpOverrides())
    _count_as_gpu()
    _need_no_triton()
    _no_templates()
    _keep_layouts()
    _softmax_in_one_pass()
    _scale_before_softmax()
    _keep_seeds()
    install_lowerings()
    install_graphs()
    install_flex_lowerings()
    if not install_pre_grad_passes():
        _missing("function compile_fx._recursive_pre_grad_passes")


def _count_as_gpu() -> None:
    """Turns on what Inductor does for GPUs alone: fusing scalars of the CPU into kernels, alignment of inputs, ..."""
    from torch._inductor import utils

    types = getattr(utils, "GPU_TYPES", None)
    if not isinstance(types, list):
        _missing("list torch._inductor.utils.GPU_TYPES")
        return
    if "aule" in types:
        return
    # get_gpu_type() asserts that one type of GPU is there, and keeps its answer: ours, unless there is a built-in one.
    others = [t for t in types if (module := getattr(torch, t, None)) is not None and module.is_available()]
    kept = [*types, "aule"]
    types[:] = others[:1] or ["aule"]
    if hasattr(utils.get_gpu_type, "cache_clear"):
        utils.get_gpu_type.cache_clear()
    utils.get_gpu_type()
    types[:] = kept


def _need_no_triton() -> None:
    from torch._inductor.codegen.common import get_scheduling_for_device
    from torch._inductor.scheduler import Scheduler

    original = getattr(Scheduler, "create_backend", None)
    if original is None:
        _missing("method Scheduler.create_backend")
        return

    @functools.wraps(original)
    def create_backend(self, device):
        if device.type != "aule":
            return original(self, device)
        from torch._inductor.virtualized import V

        V.graph.add_device_info(device)
        return get_scheduling_for_device("aule")(self)

    Scheduler.create_backend = create_backend


def _no_templates() -> None:
    """Triton's templates for products are not asked for: Inductor would warn of too few multiprocessors for them."""
    from torch._inductor import utils

    original = getattr(utils, "is_big_gpu", None)
    if original is None:
        _missing("function torch._inductor.utils.is_big_gpu")
        return

    @functools.wraps(original)
    def is_big_gpu(index_or_device=0):
        if isinstance(index_or_device, torch.device) and index_or_device.type == "aule":
            return False
        return original(index_or_device)

    utils.is_big_gpu = is_big_gpu


def _keep_layouts() -> None:
    """Inductor moves graphs with convolutions to channels-last on a GPU; ours are as fast without the copies."""
    from torch._inductor.graph import GraphLowering

    original = getattr(GraphLowering, "decide_layout_opt", None)
    if original is None:
        _missing("method GraphLowering.decide_layout_opt")
        return

    @functools.wraps(original)
    def decide_layout_opt(gm, *args, **kwargs):
        values = (n.meta.get("val") for n in gm.graph.nodes)
        if any(isinstance(v, torch.Tensor) and v.device.type == "aule" for v in values):
            return False
        return original(gm, *args, **kwargs)

    GraphLowering.decide_layout_opt = staticmethod(decide_layout_opt)


def _softmax_in_one_pass() -> None:
    """Maximum and sum of a softmax become one reduction where its rows do not stay in registers."""
    from torch._inductor.fx_passes import post_grad

    original = getattr(post_grad, "prepare_softmax_extra_check", None)
    if original is None:
        _missing("function post_grad.prepare_softmax_extra_check")
        return

    @functools.wraps(original)
    def check(match):
        from torch_aule.compile.codegen.source import is_read_once

        x = match.kwargs["x"].meta["val"]
        if x.device.type != "aule":
            return original(match)
        # Of the node: the match names the dimension in some versions of torch and in others only where it is -1.
        dims = next(n.args[1] for n in match.nodes if n.target is torch.ops.aten.amax.default)
        return torch._inductor.config.online_softmax and len(dims) == 1 and not is_read_once(x, dims[0])

    post_grad.prepare_softmax_extra_check = check


def _scale_before_softmax() -> None:
    """softmax(scale x) stays as it is written: Inductor's form takes the maximum of x, and since 2.13 of both."""
    from torch._inductor.fx_passes import joint_graph

    original = getattr(joint_graph, "_other_is_broadcasted_in_dim", None)
    passes = getattr(joint_graph, "pass_patterns", None)
    if original is None or not isinstance(passes, list):
        _missing("pattern for scaled softmax in torch._inductor.fx_passes.joint_graph")
        return

    @functools.wraps(original)
    def check(match):
        values = (n.meta.get("val") for n in match.nodes)
        if any(isinstance(v, torch.Tensor) and v.device.type == "aule" for v in values):
            return False
        return original(match)

    entries = [e for p in passes for rows in p.patterns.values() for e in rows if e.extra_check is original]
    for entry in entries:
        entry.extra_check = check


def _keep_seeds() -> None:
    """A checkpoint's seeds are kept for its backward, not drawn again.

    Since torch 2.14 they are marked as the checkpoint's own operators are. Drawn again they need a state of the
    generator from the forward, which PyTorch saves for its own devices alone.
    """
    from torch._inductor.fx_passes import joint_graph

    original = getattr(joint_graph, "replace_random_passes", None)
    if original is None:
        _missing("function joint_graph.replace_random_passes")
        return

    @functools.wraps(original)
    def replace_random_passes(gm, *args, **kwargs):
        count = original(gm, *args, **kwargs)
        seeds = {torch.ops.prims.inductor_seed.default, torch.ops.prims.inductor_seeds.default}
        for node in gm.graph.nodes:
            if node.target in seeds and any(str(a).startswith("aule") for a in node.args):
                node.meta.pop("recompute", None)
        return count

    joint_graph.replace_random_passes = replace_random_passes
