"""Passes over the graph as Dynamo traced it, before autograd: what is found there brings its backward with it."""

from __future__ import annotations

import operator

import torch
import torch.nn.functional as F
from torch._dynamo.utils import counters
from torch.fx import Graph, GraphModule, Node

from torch_aule.compile import config
from torch_aule.compile.fx.masked_attention import (
    _alone,
    _argument,
    _is,
    _is_undisturbed,
    _value,
    fuse_masked_attention,
)

__all__ = ["fuse_reference_kernels", "with_our_passes"]

_DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def _fit(result: Node, *operands) -> bool:
    """Whether operands and result are tensors of one dtype on the device: not, then, under autocast."""
    values = [_value(node) for node in (result, *operands)]
    if any(t is None or t.device.type != "aule" for t in values):
        return False
    return values[0].dtype in _DTYPES and all(t.dtype == values[0].dtype for t in values)


def _diagonal(node: Node) -> tuple[Node, tuple] | None:
    """(the first node, operands) of ``torch.diag(a) @ b``."""
    if not _is(node, (torch.matmul, operator.matmul, torch.mm), "matmul") and not _is(node, (), "mm"):
        return None
    if len(node.args) != 2:
        return None
    matrix, b = node.args
    if not _is(matrix, (torch.diag, torch.diag_embed), "diag") and not _is(matrix, (), "diag_embed"):
        return None
    if len(matrix.args) != 1 or matrix.kwargs or not _alone(matrix):
        return None
    a = matrix.args[0]
    if not _fit(node, a, b) or _value(a).dim() != 1 or _value(b).dim() != 2:
        return None
    return matrix, (a, b)


def _row_sum(node: Node) -> tuple[Node, tuple] | None:
    """(the first node, operands) of ``linear(x, weight, bias).sum(-1)``."""
    if not _is(node, (torch.sum,), "sum") or not node.args or set(node.kwargs) - {"dim"}:
        return None
    layer = node.args[0]
    if len(node.args) > 2 or not _is(layer, (F.linear, torch._C._nn.linear), "") or not _alone(layer):
        return None
    made, dim = _value(layer), _argument(node, 1, "dim")
    if made is None or dim not in (-1, made.dim() - 1, [-1], (-1,)):
        return None
    x, weight, bias = layer.args[0], _argument(layer, 1, "weight"), _argument(layer, 2, "bias")
    if not _fit(node, x, weight, *([] if bias is None else [bias])) or _value(weight).dim() != 2:
        return None
    return layer, (x, weight, bias)


def fuse_reference_kernels(graph: Graph) -> int:
    """Make ``torch.diag(a) @ b`` and ``linear(...).sum(-1)`` one call each.

    Of ``aule::diagonal_matmul`` and ``aule::fused_linear_rowsum``.

    Parameters
    ----------
    graph : torch.fx.Graph
        As Dynamo traced it, with ``example_value`` of each node. It is changed in place.

    Returns
    -------
    int
        How many were changed.
    """
    if not config.reference_kernels:
        return 0
    rules = (
        (_diagonal, torch.ops.aule.diagonal_matmul.default),
        (_row_sum, torch.ops.aule.fused_linear_rowsum.default),
    )
    count = 0
    for node in list(graph.nodes):
        for find, target in rules:
            found = find(node)
            if found is None or not _is_undisturbed(found[0], node):
                continue
            first, operands = found
            with graph.inserting_before(node):
                made = graph.call_function(target, operands)
            made.meta.update(node.meta)
            node.replace_all_uses_with(made)
            graph.erase_node(node)
            graph.erase_node(first)
            count += 1
            break
    counters["inductor"]["aule_reference_kernels"] += count
    return count


def with_our_passes(original):
    """Of compile_fx._recursive_pre_grad_passes: our passes run before Inductor's own on the graph before autograd."""

    def passes(gm: GraphModule, *args, **kwargs):
        if fuse_masked_attention(gm.graph) + fuse_reference_kernels(gm.graph):
            gm.recompile()
        return original(gm, *args, **kwargs)

    return passes
