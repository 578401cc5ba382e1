"""Forward of FlexAttention: the lowering, and its kernel."""

from __future__ import annotations

import sympy
import torch
from torch._inductor.kernel.flex.common import build_subgraph_module_buffer, create_placeholder, infer_dense_strides

from torch_aule.compile.flex.arguments import Arguments
from torch_aule.compile.flex.modifiers import mask_function, returns_only, score_function, with_numbers_as_tensors
from torch_aule.compile.flex.node import GlslTemplate, outputs
from torch_aule.compile.flex.problem import BlockMask, Problem, realized

__all__ = ["lower_forward", "lowered", "positions"]


def positions(device: torch.device) -> list:
    """Placeholders of a score's position."""
    return [create_placeholder(name, torch.int32, device) for name in ("b", "h", "m", "n")]


def lowered(graph, placeholders: list, captured: list):
    """A modifier's graph as expressions of one element."""
    return build_subgraph_module_buffer([*placeholders, *captured], with_numbers_as_tensors(graph.graph_module))


def lower_forward(
    query, key, value, score_graph, block_mask, scale, kernel_options, score_captured, mask_captured
) -> tuple:
    """`torch.ops.higher_order.flex_attention` on aule; NotImplementedError if it has no kernel for the call."""
    query, key, value = (realized(x, dense_rows=True) for x in (query, key, value))
    mask = BlockMask.of(block_mask)
    problem = Problem(query, key, value, mask, scale)
    device = problem.device
    score_captured, mask_captured = ([realized(x) for x in xs] for xs in (score_captured, mask_captured))
    score = lowered(score_graph, [create_placeholder("score", problem.dtype, device), *positions(device)],
                    score_captured)  # fmt: skip
    shown = lowered(mask.graph, positions(device), mask_captured)

    arguments = Arguments()
    functions = [score_function(arguments, score), mask_function(arguments, shown)]

    size = [problem.batch, problem.heads, problem.q_len, problem.v_dim]
    strides = [sympy.sympify(s) for s in infer_dense_strides(size, query.get_stride())]
    out = outputs(size, strides, problem.dtype, device)
    logsumexp, max_scores = (outputs(size[:3], None, torch.float32, device) for _ in range(2))
    # Those that nobody asked for are given to no kernel, and then have no memory.
    stats = {"lse_": logsumexp if kernel_options.get("OUTPUT_LOGSUMEXP", True) else None,
             "max_": max_scores if kernel_options.get("OUTPUT_MAX", False) else None}  # fmt: skip
    stores = [f"F32Ref({arguments.buffer(node, 'w')} + (at_)).v = {value}"
              for value, node in stats.items() if node is not None]  # fmt: skip

    tensors = {"QUERY": (query, "r"), "KEY": (key, "r"), "VALUE": (value, "r"), "OUT": (out, "w")}
    tiles, body = None, "flex_forward_coopmat"
    if stats["max_"] is None:  # on matrix units, maxima are references that need not be reached
        tiles = problem.matrices(
            "forward", tensors, not returns_only(functions[0], "score"), not returns_only(functions[1], "true")
        )
    if tiles is None:
        tiles, body = problem.form("forward", problem.q_len, problem.v_dim)
    groups = problem.groups(tiles, problem.q_len, mask.q_block, problem.heads, problem.v_dim)
    head = problem.head(arguments, tiles, problem.v_dim, groups, tensors, (mask.kv, mask.full_kv))
    head.append(f"#define FLEX_STORE_STATS(at_, lse_, max_) {'; '.join(stores)}")
    source = problem.source(arguments, tiles, body, head, functions)
    written = [out, *(node for node in stats.values() if node is not None)]
    GlslTemplate("forward", source, arguments, groups, written)
    return out, logsumexp, max_scores
