"""A model's source as TorchDynamo sees it: breaks of its graph, and attention that is written out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
from torch import fx

from torch_aule.measure.roof import Roof

PRODUCTS = ("matmul", "bmm", "baddbmm", "einsum", "__matmul__")
BETWEEN = ("dropout", "to", "type", "type_as", "float", "half", "contiguous", "div", "truediv", "mul", "add", "sub",
           "masked_fill", "where", "view", "reshape", "nan_to_num", "clamp", "tril", "expand")  # fmt: skip
HOST_VALUES = (".item()", "data-dependent", "tolist", "aten._local_scalar_dense", "aten.nonzero", "nonzero")


@dataclass(frozen=True)
class Break:
    """The end of a graph: the reason's first line, and the line of the source."""

    reason: str
    place: str

    @property
    def waits(self) -> bool:
        """Whether the host asks for a value of the device there."""
        return any(word.lower() in self.reason.lower() for word in HOST_VALUES)


@dataclass(frozen=True)
class Attention:
    """One softmax(q k^T) v that is written out.

    Attributes
    ----------
    place : str
        The line of the source with the softmax.
    flops, bytes : float
        Of the fused form: both products; queries, keys, values and the result once.
    dtype : str
        Of the values.
    """

    place: str
    flops: float
    bytes: float
    dtype: str

    def least_seconds(self, roof: Roof) -> float:
        """Of the fused form."""
        return roof.least_seconds(self.bytes, self.flops, self.dtype)


@dataclass(frozen=True)
class Source:
    """The findings: graphs, breaks, written-out attention; or why Dynamo could not look."""

    graphs: int = 0
    breaks: list[Break] = field(default_factory=list)
    attention: list[Attention] = field(default_factory=list)
    failure: str = ""


def _name(node) -> str:
    if not isinstance(node, fx.Node):
        return ""
    return node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")


def _up_to(node, wanted: tuple[str, ...]) -> fx.Node | None:
    """The nearest node before `node` (itself too) with such a name, past what may stand between; None if none."""
    todo, seen = [node], set()
    while todo:
        one = todo.pop(0)
        if not isinstance(one, fx.Node) or one in seen:
            continue
        seen.add(one)
        if _name(one) in wanted:
            return one
        if _name(one).strip("_") in BETWEEN:
            todo += one.all_input_nodes
    return None


def _value(node) -> torch.Tensor | None:
    value = node.meta.get("example_value") if isinstance(node, fx.Node) else None
    return value if isinstance(value, torch.Tensor) else None


def _place(node: fx.Node) -> str:
    lines = (node.stack_trace or "").strip().splitlines()
    files = [line.strip() for line in lines if line.strip().startswith("File ")]
    if not files:
        return "?"
    file, line = files[-1].split(", ")[:2]
    return f"{file.removeprefix('File ').strip(chr(34))}:{line.removeprefix('line ')}"


def written_out(graph: fx.Graph) -> Iterator[Attention]:
    """Each product of a softmax of a product, by the names of the functions."""
    for node in graph.nodes:
        if _name(node) not in PRODUCTS:
            continue
        factors = [a for a in node.args if isinstance(a, fx.Node)]
        softmax = _up_to(factors[0], ("softmax",)) if len(factors) > 1 else None
        scores = _up_to(softmax.args[0], PRODUCTS) if softmax is not None and softmax.args else None
        if scores is None:
            continue
        s, v, result = (_value(one) for one in (scores, factors[1], node))
        shapes = [t for t in map(_value, scores.all_input_nodes) if t is not None]
        if softmax is None or s is None or v is None or result is None or len(shapes) < 2:
            continue
        flops = 2.0 * s.numel() * (shapes[0].shape[-1] + v.shape[-1])
        moved = sum(t.numel() * t.element_size() for t in (*shapes[:2], v, result))
        yield Attention(_place(softmax), flops, moved, str(v.dtype).removeprefix("torch."))


def _break(reason) -> Break:
    frames = reason.user_stack or []
    place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "?"
    text = (str(reason.reason).strip().splitlines() or ["?"])[0]
    return Break(text, place)


def look(model: torch.nn.Module, call: Callable[[torch.nn.Module], object]) -> Source:
    """Trace a call of the model with Dynamo, which forgets what it has compiled in this process."""
    import torch._dynamo as dynamo

    model = getattr(model, "_orig_mod", model)
    try:
        with torch.no_grad():
            found = dynamo.explain(lambda: call(model))()
    except Exception as error:  # of the model's source, or Dynamo's: whatever it is, the rest of the report stands
        return Source(failure=f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}")
    finally:
        dynamo.reset()
    attention = [one for graph in found.graphs for one in written_out(graph.graph)]
    return Source(found.graph_count, [_break(one) for one in found.break_reasons], attention)
