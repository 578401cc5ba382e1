"""A product with what follows it, as one call of ``torch.ops.aule.linear_bias_act``.

Inductor makes of a linear layer a product and a generated kernel for bias, activation and residual. On a GPU our
product does those on its float32 sums, and the result crosses memory once.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch._dynamo.utils import counters
from torch._inductor import config as inductor_config
from torch._inductor.pattern_matcher import Match, fwd_only, fx_to_pattern
from torch._inductor.utils import is_pointwise_use
from torch._prims_common import is_contiguous_or_false
from torch.fx import Graph, Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from torch_aule.compile import config
from torch_aule.compile.codegen.facts import is_software

__all__ = ["fuse_epilogues"]

aten = torch.ops.aten

_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
_ACTIVATIONS = {
    "relu": lambda x: F.relu(x),
    "gelu": lambda x: F.gelu(x),
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": lambda x: F.silu(x),
}
_VIEWS = (aten.view.default, aten.reshape.default, aten._unsafe_view.default)


@functools.cache
def _patterns(dtype: torch.dtype) -> tuple:
    """(activation, pattern) of each activation as Inductor decomposes it: half types compute in float32."""
    x = torch.empty(2, 3, dtype=dtype, device="meta")
    with torch.utils._python_dispatch._disable_current_modes(), torch.no_grad():
        traced = [(name, fwd_only(function, [x])) for name, function in _ACTIVATIONS.items()]
    return tuple((name, fx_to_pattern(gm, argnames=["x"])) for name, gm in traced)


def _activations(graph: Graph, dtypes: set) -> dict[Node, tuple[str, Node, list[Node]]]:
    """Of each value that goes into an activation and nowhere else: its name, its result, its nodes."""
    roots = {}
    for dtype in dtypes:
        for name, pattern in _patterns(dtype):
            for target in pattern.fns:
                roots.setdefault(target, []).append((name, pattern))
    found = {}
    for node in graph.nodes:
        for name, pattern in roots.get(node.target, ()):
            match = pattern.match(node)
            if not isinstance(match, Match):
                continue
            x = match.kwargs["x"]
            if isinstance(x, Node) and x.users.keys() <= set(match.nodes):
                found[x] = (name, node, match.nodes)
    return found


@dataclass
class _Chain:
    """A product and what follows it, each used by the next alone."""

    product: Node
    last: Node
    bias: Node | None = None
    activation: str = "none"
    residual: Node | None = None
    view: Node | None = None  # the last one
    nodes: list[Node] = field(default_factory=list)

    def take(self, *nodes: Node) -> None:
        self.nodes += nodes
        self.last = nodes[-1]


def _value(node) -> torch.Tensor | None:
    value = node.meta.get("val") if isinstance(node, Node) else None
    return value if isinstance(value, torch.Tensor) else None


def _only_user(node: Node) -> Node | None:
    return next(iter(node.users)) if len(node.users) == 1 else None


def _other_addend(node: Node | None, value: Node) -> Node | None:
    """The term that `node`, a sum, adds to `value`."""
    if node is None or node.target is not aten.add.Tensor or node.kwargs:
        return None
    a, b = node.args
    if a is b:
        return None
    other = b if a is value else a
    return other if _value(other) is not None else None


def _same(a, b) -> bool:
    return len(a) == len(b) and all(statically_known_true(x == y) for x, y in zip(a, b, strict=True))


def _fits(x: torch.Tensor, like: torch.Tensor) -> bool:
    return x.dtype == like.dtype and x.device == like.device


def _take_view(chain: _Chain) -> None:
    """Go past a view that keeps the columns."""
    node = _only_user(chain.last)
    if node is None or node.target not in _VIEWS or node.args[0] is not chain.last:
        return
    shape, columns = _value(node).shape, _value(chain.product).shape[-1]
    if len(shape) > 0 and statically_known_true(shape[-1] == columns):
        chain.view = node
        chain.take(node)


def _take_bias(chain: _Chain) -> None:
    node = _only_user(chain.last)
    other = _other_addend(node, chain.last)
    if chain.bias is not None or other is None:
        return
    product, bias = _value(chain.product), _value(other)
    if bias.dim() == 1 and _fits(bias, product) and _same(bias.shape, product.shape[-1:]):
        chain.bias = other
        chain.take(node)


def _take_residual(chain: _Chain) -> None:
    node = _only_user(chain.last)
    other = _other_addend(node, chain.last)
    if other is None:
        return
    so_far, residual = _value(chain.last), _value(other)
    if not _fits(residual, so_far) or not _same(residual.shape, so_far.shape):
        return
    if chain.view is not None:
        # It becomes rows of the product, without a copy.
        if chain.view.args[1][-1] == -1 or not is_contiguous_or_false(residual):
            return
    chain.residual = other
    chain.take(node)


def _gains(product: Node) -> bool:
    """True if the kernels of the product may have epilogues."""
    value = _value(product)
    return (
        value is not None and value.device.type == "aule" and value.dtype in _DTYPES and not is_software(value.device)
    )


def _chain_from(product: Node, activations: dict) -> _Chain | None:
    value = _value(product)
    chain = _Chain(product, product, nodes=[product])
    if product.target is aten.addmm.default:
        added = _value(product.args[0])
        if product.kwargs or added is None or added.dim() != 1 or not _same(added.shape, value.shape[-1:]):
            return None
        chain.bias = product.args[0]
    if not all(_fits(_value(x), value) for x in (*product.args[-2:], chain.bias) if x is not None):
        return None
    for _ in range(2):
        _take_bias(chain)
        _take_view(chain)
    if chain.last in activations:
        chain.activation, root, nodes = activations[chain.last]
        chain.take(*nodes, root)
        _take_view(chain)
    _take_residual(chain)
    if chain.activation == "none" and chain.residual is None:
        return None
    if _value(chain.last).dtype != value.dtype:
        return None
    # A result that only pointwise operators use would be part of their kernel, and cost nothing.
    return None if all(is_pointwise_use(user) for user in chain.last.users) else chain


def _call(graph: Graph, target, *args) -> Node:
    node = graph.call_function(target, args)
    values = torch.fx.map_arg(args, lambda n: n.meta["val"])
    fake_mode = next(v.fake_mode for v in values if hasattr(v, "fake_mode"))
    with fake_mode:
        node.meta["val"] = target(*values)
    return node


def _replace(graph: Graph, chain: _Chain) -> None:
    x, mat2 = chain.product.args[-2:]
    with graph.inserting_before(chain.last):
        if mat2.target is aten.permute.default and list(mat2.args[1]) in ([1, 0], [-1, -2]):
            weight = mat2.args[0]
        else:
            weight = _call(graph, aten.permute.default, mat2, [1, 0])
        residual = chain.residual
        if residual is not None and chain.view is not None:
            residual = _call(graph, aten.reshape.default, residual, [-1, chain.view.args[1][-1]])
        result = fused = _call(
            graph, torch.ops.aule.linear_bias_act.default, x, weight, chain.bias, chain.activation, residual
        )
        if chain.view is not None:
            result = _call(graph, aten.reshape.default, fused, chain.view.args[1])
    for name in ("original_aten", "from_node", "stack_trace"):
        if name in chain.last.meta:
            fused.meta[name] = chain.last.meta[name]
    chain.last.replace_all_uses_with(result)
    result.meta.update({k: v for k, v in chain.last.meta.items() if k not in result.meta})


def fuse_epilogues(graph: Graph) -> int:
    """Make of products with bias, activation and residual one call each.

    Parameters
    ----------
    graph : torch.fx.Graph
        After Inductor's own passes. It is changed in place.

    Returns
    -------
    int
        How many products were changed.
    """
    if not config.epilogues or inductor_config.emulate_precision_casts:
        return 0
    products = [n for target in (aten.mm.default, aten.addmm.default)
                for n in graph.find_nodes(op="call_function", target=target) if _gains(n)]  # fmt: skip
    if not products:
        return 0
    activations = _activations(graph, {_value(n).dtype for n in products})
    count = 0
    for product in products:
        chain = _chain_from(product, activations)
        if chain is not None:
            _replace(graph, chain)
            count += 1
    if count:
        graph.eliminate_dead_code()
        counters["inductor"]["aule_epilogues"] += count
    return count
