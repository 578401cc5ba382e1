"""Backward of FlexAttention: the lowering, one kernel for the gradient of queries, one for those of keys and values."""

from __future__ import annotations

import math

import sympy
import torch
from torch._inductor.kernel.flex.common import create_placeholder, infer_dense_strides
from torch._inductor.kernel.flex.flex_attention import process_joint_outputs, validate_joint_graph
from torch._inductor.lowering import _full, lowerings, to_dtype

from torch_aule.compile.flex.arguments import Arguments
from torch_aule.compile.flex.forward import lowered, positions
from torch_aule.compile.flex.modifiers import grad_function, mask_function, returns_only, score_function
from torch_aule.compile.flex.node import GlslTemplate, outputs
from torch_aule.compile.flex.problem import BlockMask, Problem, realized

__all__ = ["lower_backward"]

aten = torch.ops.aten


class _Modifiers:
    """The modifiers of a call and their gradients."""

    def __init__(self, problem: Problem, graph, joint_graph, score_captured: list, mask_captured: list) -> None:
        device, dtype = problem.device, problem.dtype
        score = [create_placeholder("score", dtype, device), *positions(device)]
        grad = create_placeholder("grad_score_mod", dtype, device)
        self.score = lowered(graph, score, score_captured)
        joint_graph.graph_module.graph.eliminate_dead_code()
        validate_joint_graph(joint_graph.graph_module.graph)
        self.joint = process_joint_outputs(lowered(joint_graph, [*score, grad], score_captured), len(score) + 1)
        self.shown = lowered(problem.mask.graph, positions(device), mask_captured)
        if self.joint.captured_grads_compute and torch.are_deterministic_algorithms_enabled():
            raise NotImplementedError("gradients of captured tensors are added by atomics, in no fixed order")

    def functions(self, arguments: Arguments, scatters: bool) -> list[str]:
        """GLSL; one of the kernels alone adds to the gradients of captured tensors."""
        return [
            score_function(arguments, self.score),
            mask_function(arguments, self.shown),
            grad_function(arguments, self.joint.grad_input, self.joint.captured_grads_compute if scatters else []),
        ]


def lower_backward(
    query, key, value, out, logsumexp, grad_out, grad_logsumexp, graph, joint_graph, block_mask, scale, kernel_options,
    score_captured, mask_captured,
) -> tuple:  # fmt: skip
    """`torch.ops.higher_order.flex_attention_backward` on aule; NotImplementedError if it has no kernel for it."""
    if grad_out is None:  # only logsumexp has a gradient
        grad_out = _full(0, out.get_device(), out.get_dtype(), out.get_size())
    query, key, value, grad_out = (realized(x, dense_rows=True) for x in (query, key, value, grad_out))
    problem = Problem(query, key, value, BlockMask.of(block_mask), scale)
    if grad_out.get_dtype() != problem.dtype:
        grad_out = realized(to_dtype(grad_out, problem.dtype), dense_rows=True)
    score_captured, mask_captured = ([realized(x) for x in xs] for xs in (score_captured, mask_captured))
    modifiers = _Modifiers(problem, graph, joint_graph, score_captured, mask_captured)

    logsumexp = _dense(logsumexp)
    delta = lowerings[aten.sum](
        lowerings[aten.mul](to_dtype(out, torch.float32), to_dtype(grad_out, torch.float32)), axis=-1
    )
    if grad_logsumexp is not None:
        delta = lowerings[aten.sub](delta, lowerings[aten.mul](grad_logsumexp, 1 / math.log(2)))
    delta = _dense(delta)

    def like(size, node):
        strides = [sympy.sympify(s) for s in infer_dense_strides(size, node.get_stride())]
        return outputs(size, strides, problem.dtype, problem.device)

    grad_query = like([problem.batch, problem.heads, problem.q_len, problem.head_dim], query)
    grad_key = like([problem.batch, problem.kv_heads, problem.kv_len, problem.head_dim], key)
    grad_value = like([problem.batch, problem.kv_heads, problem.kv_len, problem.v_dim], value)
    given = {"QUERY": (query, "r"), "KEY": (key, "r"), "VALUE": (value, "r"), "GRAD_OUT": (grad_out, "r")}
    _launch(problem, modifiers, "dq", {**given, "GRAD_QUERY": (grad_query, "w")}, logsumexp, delta)
    _launch(problem, modifiers, "dkdv", {**given, "GRAD_KEY": (grad_key, "w"), "GRAD_VALUE": (grad_value, "w")},
            logsumexp, delta)  # fmt: skip

    if problem.shares_keys:
        grad_key, grad_value = (lowerings[aten.sum](x, axis=0, keepdims=True) for x in (grad_key, grad_value))
    captured = tuple(
        to_dtype(g, x.get_dtype()) if g is not None and g.get_dtype() != x.get_dtype() else g
        for g, x in zip(modifiers.joint.captured_grads, score_captured, strict=False)
    )
    return grad_query, grad_key, grad_value, captured


def _dense(node):
    from torch._inductor import ir

    return realized(ir.ExternKernel.require_contiguous(node))


def _launch(problem: Problem, modifiers: _Modifiers, kind: str, tensors: dict, logsumexp, delta) -> None:
    arguments, mask = Arguments(), problem.mask
    functions = modifiers.functions(arguments, scatters=kind == "dq")
    length, block, heads, dim, tables = (
        (problem.q_len, mask.q_block, problem.heads, problem.head_dim, (mask.kv, mask.full_kv))
        if kind == "dq"
        else (problem.kv_len, mask.kv_block, problem.kv_heads, max(problem.head_dim, problem.v_dim),
              (mask.q, mask.full_q))
    )  # fmt: skip
    modified = not (returns_only(functions[0], "score") and returns_only(functions[2], "grad_score_mod"))
    tiles = problem.matrices(kind, tensors, modified, not returns_only(functions[1], "true"))
    body = f"flex_{kind}_coopmat"
    if tiles is None:
        tiles, body = problem.form(kind, length, dim)
    groups = problem.groups(tiles, length, block, heads, dim)
    head = problem.head(arguments, tiles, dim, groups, tensors, tables)
    for name, node in (("FLEX_LSE", logsumexp), ("FLEX_DELTA", delta)):
        offset = arguments.size(node.get_layout().offset)
        head.append(f"#define {name} ({arguments.buffer(node)} + uint64_t({offset}) * 4ul)")
    source = problem.source(arguments, tiles, body, head, functions)
    written = [node for node, access in tensors.values() if access == "w"]
    if kind == "dq":
        written += modifiers.joint.mutated_grads
    GlslTemplate(kind, source, arguments, groups, written)
