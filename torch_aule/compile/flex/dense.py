"""FlexAttention as plain operators on the whole matrix of scores, for calls that our kernels do not take."""

from __future__ import annotations

import importlib
import itertools

import torch
from torch._inductor.virtualized import V
from torch.utils._pytree import tree_flatten, tree_unflatten

__all__ = ["lower_dense"]

_numbers = itertools.count()


def lower_dense(name: str, args: tuple):
    """Lower the operator `forward` or `backward` as PyTorch's own dense form of it, traced.

    Parameters
    ----------
    name : str
        Of the operator.
    args : tuple
        The lowering's arguments.

    Returns
    -------
    tuple
        As of the lowering.
    """
    from torch._inductor.decomposition import select_decomp_table
    from torch._inductor.lowering import process_subgraph_nodes
    from torch.fx.experimental.proxy_tensor import make_fx

    module = importlib.import_module("torch._higher_order_ops.flex_attention")
    dense = module.sdpa_dense if name == "forward" else module.sdpa_dense_backward
    given = V.graph.current_node.args
    leaves, spec = tree_flatten(list(given))
    values, tensors, lowered = [], [], []
    for leaf, node in zip(leaves, tree_flatten(list(args))[0], strict=True):
        if not isinstance(leaf, torch.fx.Node):
            values.append(leaf)
        elif leaf.op == "get_attr" and isinstance(graph := getattr(leaf.graph.owning_module, leaf.target, None),
                                                  torch.fx.GraphModule):  # fmt: skip
            values.append(graph)
        else:
            values.append(None)
            tensors.append((len(values) - 1, leaf.meta["val"]))
            lowered.append(node)

    def whole(*inputs):
        filled = list(values)
        for (place, _), x in zip(tensors, inputs, strict=True):
            filled[place] = x
        operands = tree_unflatten(filled, spec)
        if name == "backward":
            # The dense form makes a gradient for each captured tensor that requires one: those of the operator.
            grads = V.graph.current_node.meta["val"][3]
            operands[-2] = [x.detach().requires_grad_() if g is not None else x
                            for x, g in zip(operands[-2], grads, strict=True)]  # fmt: skip
        with torch.no_grad():
            return dense(*operands)

    with V.fake_mode:
        graph = make_fx(whole, decomposition_table=select_decomp_table(), tracing_mode="real")(*(x for _, x in tensors))
    graph.graph.eliminate_dead_code()
    _adopt_constants(graph)
    outputs = process_subgraph_nodes(graph, lowered)
    return tuple(outputs)


def _adopt_constants(graph: torch.fx.GraphModule) -> None:
    """Constants of the traced graph become those of the graph that is being lowered."""
    for node in graph.graph.nodes:
        if node.op == "get_attr":
            value = getattr(graph, node.target)
            name = f"_aule_flex_constant{next(_numbers)}"
            setattr(V.graph.module, name, value)
            node.target = name
