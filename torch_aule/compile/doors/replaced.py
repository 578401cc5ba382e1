"""Functions that take the place of Inductor's (patches.py says of which, and why)."""

from __future__ import annotations

import torch

__all__ = [
    "create_backend",
    "decide_layout_opt",
    "is_big_gpu",
    "other_is_broadcasted_in_dim",
    "prepare_softmax_extra_check",
    "replace_random_passes",
]


def _has_aule(nodes) -> bool:
    """Whether a node's value is a tensor on the device."""
    values = (n.meta.get("val") for n in nodes)
    return any(isinstance(v, torch.Tensor) and v.device.type == "aule" for v in values)


def create_backend(original):
    """Of Scheduler.create_backend: the backend that is registered for the device."""

    def create(self, device):
        if device.type != "aule":
            return original(self, device)
        from torch._inductor.codegen.common import get_scheduling_for_device
        from torch._inductor.virtualized import V

        V.graph.add_device_info(device)
        return get_scheduling_for_device("aule")(self)

    return create


def is_big_gpu(original):
    """Of utils.is_big_gpu: Triton's templates for products are not asked for."""

    def is_big(index_or_device=0):
        if isinstance(index_or_device, torch.device) and index_or_device.type == "aule":
            return False
        return original(index_or_device)

    return is_big


def decide_layout_opt(original):
    """Of GraphLowering.decide_layout_opt: layouts stay as they are."""

    def decide(gm, *args, **kwargs):
        return False if _has_aule(gm.graph.nodes) else original(gm, *args, **kwargs)

    return decide


def prepare_softmax_extra_check(original):
    """Of post_grad.prepare_softmax_extra_check: one reduction for a softmax whose rows do not stay in registers."""

    def check(match):
        from torch_aule.compile.codegen.source import is_read_once

        x = match.kwargs["x"].meta["val"]
        if x.device.type != "aule":
            return original(match)
        # Of the node: the match names the dimension in some versions of torch and in others only where it is -1.
        dims = next(n.args[1] for n in match.nodes if n.target is torch.ops.aten.amax.default)
        return torch._inductor.config.online_softmax and len(dims) == 1 and not is_read_once(x, dims[0])

    return check


def other_is_broadcasted_in_dim(original):
    """Of joint_graph's patterns: softmax(scale x) stays as it is written."""

    def check(match):
        return False if _has_aule(match.nodes) else original(match)

    return check


def replace_random_passes(original):
    """Of joint_graph.replace_random_passes: a checkpoint's seeds are kept for its backward, not drawn again.

    Since torch 2.14 they are marked as the checkpoint's own operators are. Drawn again they need a state of the
    generator from the forward, which PyTorch saves for its own devices alone.
    """

    def replace(gm, *args, **kwargs):
        count = original(gm, *args, **kwargs)
        seeds = {torch.ops.prims.inductor_seed.default, torch.ops.prims.inductor_seeds.default}
        for node in gm.graph.nodes:
            if node.target in seeds and any(str(a).startswith("aule") for a in node.args):
                node.meta.pop("recompute", None)
        return count

    return replace
