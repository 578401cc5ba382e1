"""Products of 16-bit operands whose result leaves a graph as float32: gradients of weights under autocast.

Such a product is rounded to 16 bits and then converted by a kernel of its own. Our product writes its float32 sums, if
it is asked to: the result crosses memory once, and is not rounded in between.
"""

from __future__ import annotations

import torch
from torch._dynamo.utils import counters
from torch._inductor import config as inductor_config
from torch.fx import Graph, Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from torch_aule.compile import config
from torch_aule.compile.codegen import facts

__all__ = ["widen_products"]

aten = torch.ops.aten

_WITH_DTYPE = {aten.mm.default: aten.mm.dtype, aten.bmm.default: aten.bmm.dtype}
_VIEWS = (
    aten.view.default,
    aten.reshape.default,
    aten._unsafe_view.default,
    aten.permute.default,
    aten.unsqueeze.default,
    aten.squeeze.dim,
)


_FEW_ROWS = 16  # such products have kernels of their own, which write their operands' dtype


def _is_served(value) -> bool:
    """Whether a kernel makes float32 of 16-bit operands, which without matrix units would be converted first."""
    if not isinstance(value, torch.Tensor) or value.device.type != "aule" or facts.is_software(value.device):
        return False
    return (
        value.dtype in (torch.float16, torch.bfloat16)
        and all(statically_known_true(size > _FEW_ROWS) for size in value.shape[-2:])
        and bool(facts.matrices_of(value.device.index or 0, value.dtype)["usable"])
    )


def _leaves(node: Node) -> bool:
    """Whether the graph returns the value, or a view of it.

    Another value would convert for nothing, as part of the kernel that computes with it, and read half of the bytes.
    """
    return any(u.op == "output" or (u.target in _VIEWS and _leaves(u)) for u in node.users)


def _conversion(product: Node) -> list[Node] | None:
    """The views of a product and then its conversion to float32, each used by the next alone."""
    chain, last = [], product
    while len(last.users) == 1:
        last = next(iter(last.users))
        chain.append(last)
        if last.target is torch.ops.prims.convert_element_type.default:
            return chain if last.args[1] == torch.float32 and _leaves(last) else None
        if last.target not in _VIEWS:
            return None
    return None


def widen_products(graph: Graph) -> int:
    """Make the products that leave as float32 alone by ``aten.mm.dtype`` and ``aten.bmm.dtype``.

    Parameters
    ----------
    graph : torch.fx.Graph
        After Inductor's own passes. It is changed in place.

    Returns
    -------
    int
        How many products were changed.
    """
    if not config.float32_products or inductor_config.emulate_precision_casts:
        return 0
    count = 0
    for target, wide in _WITH_DTYPE.items():
        for product in graph.find_nodes(op="call_function", target=target):
            chain = None if product.kwargs else _conversion(product)
            if chain is None or not _is_served(product.meta.get("val")):
                continue
            *views, converted = chain
            with graph.inserting_before(product):
                new = graph.call_function(wide, (*product.args, torch.float32))
            new.meta.update(product.meta)
            product.replace_all_uses_with(new)
            for node in (new, *views):
                node.meta["val"] = node.meta["val"].to(torch.float32)
            converted.replace_all_uses_with(views[-1] if views else new)
            graph.erase_node(converted)
            graph.erase_node(product)
            count += 1
    counters["inductor"]["aule_float32_products"] += count
    return count
