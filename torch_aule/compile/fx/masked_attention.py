"""Attention written by hand with a mask of truth values, as one call: ``softmax(where(mask, q @ k.mT, -inf)) @ v``.

Inductor's own patterns know masks that are added, and a few models' masks. This one works on the graph as Dynamo traced
it, before autograd, so that the backward of ``scaled_dot_product_attention`` comes with it. A query that may see
nothing has a result of zeros, as there, where the hand-written form has NaN.
"""

from __future__ import annotations

import math
import operator

import torch
import torch.nn.functional as F
from torch._dynamo.utils import counters
from torch.fx import Graph, Node

from torch_aule.compile import config

__all__ = ["fuse_masked_attention"]

_MATMUL = (torch.matmul, operator.matmul, torch.bmm)
_SOFTMAX = (F.softmax, torch.softmax)
_LONGEST_HEAD = 256  # of the fused kernels
_OPERATORS = frozenset(dir(operator))


def _is(node, functions: tuple, method: str) -> bool:
    """Whether a node calls one of the functions, or the tensor's method."""
    return isinstance(node, Node) and (
        node.op == "call_function" and node.target in functions or node.op == "call_method" and node.target == method
    )


def _argument(node: Node, index: int, name: str, default=None):
    return node.args[index] if len(node.args) > index else node.kwargs.get(name, default)


def _value(node) -> torch.Tensor | None:
    value = node.meta.get("example_value") if isinstance(node, Node) else None
    return value if isinstance(value, torch.Tensor) else None


def _alone(node: Node) -> bool:
    return len(node.users) == 1


def _without_casts(node):
    """The node below casts to another dtype and dropouts with a probability of 0, after the softmax."""
    while isinstance(node, Node) and _alone(node):
        if node.op == "call_method" and node.target in ("to", "type_as", "type", "half", "bfloat16", "float"):
            given = [*node.args[1:], *node.kwargs.values()]
            if node.target != "type_as" and not all(isinstance(x, torch.dtype) for x in given):
                return node
        elif _is(node, (F.dropout,), "dropout"):
            if _argument(node, 1, "p", 0.5) != 0 and _argument(node, 2, "training", True):
                return node
        else:
            return node
        node = node.args[0]
    return node


def _mask_of(node):
    """(scores, mask, whether the mask's true elements are hidden), or nothing."""
    fill = None
    if _is(node, (torch.masked_fill,), "masked_fill"):
        scores, mask, fill = node.args[0], _argument(node, 1, "mask"), _argument(node, 2, "value")
        hidden = True
    elif _is(node, (torch.where,), "where"):
        # x.where(mask, y) keeps x; torch.where(mask, x, y), too.
        mask, scores, fill = node.args if node.op == "call_function" and len(node.args) == 3 else (None,) * 3
        hidden = not isinstance(scores, Node)
        if hidden:
            scores, fill = fill, scores
    else:
        return None
    shown = _value(mask)
    if not isinstance(scores, Node) or fill != -math.inf or shown is None or shown.dtype != torch.bool:
        return None
    return scores, mask, hidden


def _scale_of(node) -> tuple | None:
    """(scores, factor) of a multiplication by a number or a division by one."""
    if _is(node, (operator.mul, torch.mul), "mul") and len(node.args) == 2:
        a, b = node.args
        if isinstance(a, (int, float)):
            a, b = b, a
        return (a, float(b)) if isinstance(a, Node) and isinstance(b, (int, float)) else None
    if _is(node, (operator.truediv, torch.div), "div") and len(node.args) == 2 and not node.kwargs:
        a, b = node.args
        if isinstance(a, Node) and isinstance(b, (int, float)) and b != 0:
            return a, 1.0 / b
    return None


class _Attention:
    """The pattern found above a product ``weights @ value``."""

    def __init__(self, last: Node):
        self.last, self.value = last, last.args[1]
        self.masks: list[tuple[Node, bool]] = []
        self.scale, self.first = 1.0, None
        node = _without_casts(last.args[0])
        if not _is(node, _SOFTMAX, "softmax") or not _alone(node):
            return
        scores = _value(node)
        if scores is None or _argument(node, 1, "dim") not in (-1, scores.dim() - 1):
            return
        if node.kwargs.get("dtype") not in (None, torch.float32):
            return
        node = node.args[0]
        while isinstance(node, Node) and _alone(node):
            shown = _value(node)
            if shown is None or shown.shape != scores.shape:
                return
            if (masked := _mask_of(node)) is not None:
                node, mask, hidden = masked
                self.masks.append((mask, hidden))
            elif (scaled := _scale_of(node)) is not None:
                node, factor = scaled
                self.scale *= factor
            else:
                break
        if _is(node, _MATMUL, "matmul") and _alone(node) and len(node.args) == 2:
            self.first = node

    def serves(self) -> bool:
        if self.first is None or not self.masks or not self.scale > 0:
            return False  # without a mask, or with one that is added: Inductor's patterns
        query, key, value = _value(self.first.args[0]), _value(self.first.args[1]), _value(self.value)
        scores, result = _value(self.first), _value(self.last)
        if any(t is None or t.device.type != "aule" for t in (query, key, value, scores, result)):
            return False
        return (
            query.dim() in (3, 4)
            and query.shape[:-2] == key.shape[:-2] == value.shape[:-2]
            and max(query.shape[-1], value.shape[-1]) <= _LONGEST_HEAD
            and query.is_floating_point()
            and query.dtype == key.dtype == value.dtype
            and scores.dtype == result.dtype
            and all(_value(mask).dim() <= query.dim() for mask, _ in self.masks)
        )


def _is_in_place(name: str) -> bool:
    """Whether a function of Python's module operator, or the method behind one, writes its operand."""
    plain = name[1:] if name.startswith("i") else ""
    return name in ("setitem", "delitem") or plain in _OPERATORS or f"{plain}_" in _OPERATORS


def _writes(node: Node) -> bool:
    """Whether a node may change a tensor that exists already, or the state under which others run."""
    if node.op in ("placeholder", "get_attr", "output"):
        return False
    if node.op == "call_method":
        if node.target.startswith("__"):
            return _is_in_place(node.target.strip("_"))
        return node.target.endswith("_")
    if node.op != "call_function" or "out" in node.kwargs or node.kwargs.get("inplace"):
        return True
    name = getattr(node.target, "__name__", "")
    if getattr(node.target, "__module__", "") == "_operator":  # its and_ and or_ write nothing, its iand and ior do
        return _is_in_place(name)
    return name.endswith("_") or "autocast" in name


def _is_undisturbed(first: Node, last: Node) -> bool:
    node = first
    while node is not last:
        if _writes(node):
            return False
        node = node.next
    return True


def _replace(graph: Graph, found: _Attention) -> None:
    last = found.last

    def add(kind: str, target, *args, **kwargs):
        return graph.create_node(kind, target, args, kwargs)

    with graph.inserting_before(last):
        shown = None
        for mask, hidden in found.masks:
            one = add("call_function", torch.logical_not, mask) if hidden else mask
            shown = one if shown is None else add("call_function", torch.logical_and, shown, one)
        operands = [found.first.args[0], add("call_method", "transpose", found.first.args[1], -2, -1), found.value]
        flat = _value(found.first).dim() == 3  # the operator's shapes in torch 2.11 are those of four dimensions
        if flat:
            operands = [add("call_method", "unsqueeze", x, 0) for x in operands]
        attention = add("call_function", F.scaled_dot_product_attention, *operands, attn_mask=shown, scale=found.scale)
        if flat:
            attention = add("call_method", "squeeze", attention, 0)
    attention.meta.update(last.meta)
    last.replace_all_uses_with(attention)
    node = last
    while node is not found.first:  # the chain, of which nobody else has anything
        above = node.args[0] if not _is(node, (torch.where,), "where") else _mask_of(node)[0]
        above = above if isinstance(above, Node) else node.args[1]
        graph.erase_node(node)
        node = above
    graph.erase_node(node)


def fuse_masked_attention(graph: Graph) -> int:
    """Make each hand-written attention with a mask of truth values a call of ``scaled_dot_product_attention``.

    Parameters
    ----------
    graph : torch.fx.Graph
        As Dynamo traced it, with ``example_value`` of each node. It is changed in place.

    Returns
    -------
    int
        How many were changed. Those with dropout stay: their random numbers are eager's.
    """
    if not config.masked_attention:
        return 0
    count = 0
    for node in list(graph.nodes):
        if not _is(node, _MATMUL, "matmul") or len(node.args) != 2 or not isinstance(node.args[1], Node):
            continue
        found = _Attention(node)
        if found.serves() and _is_undisturbed(found.first, node):
            _replace(graph, found)
            count += 1
    counters["inductor"]["aule_masked_attention"] += count
    return count
