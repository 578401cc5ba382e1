"""Combination of the accumulators of a row's invocations: by shuffles, through shared memory, or both."""

from __future__ import annotations

from torch_aule.compile.codegen.forms.fitting import Work
from torch_aule.compile.codegen.statements import Reduction
from torch_aule.compile.codegen.types import compute_type
from torch_aule.compile.codegen.writer import Writer

__all__ = ["combine"]


def combine(writer: Writer, work: Work, reductions: list[Reduction]) -> None:
    """Each invocation of a row then has what all of them accumulated."""
    if work.combine == "subgroup":
        _shuffle(writer, reductions, 1, f"[[unroll]] for (uint apart = 1u; apart < {work.threads}u; apart *= 2u) {{")
        return
    if work.combine == "group":
        _shuffle(writer, reductions, 1)
        _through_shared(writer, reductions, max(work.local // writer.facts.device.subgroup_size, 1))
        return
    _tree(writer, work, reductions)


_OVER_SUBGROUP = "for (uint apart = gl_SubgroupSize / 2u; apart > 0u; apart /= 2u) {"


def _shuffle(writer: Writer, reductions: list[Reduction], depth: int, loop: str = _OVER_SUBGROUP) -> None:
    writer.line(depth, loop)
    for r in reductions:
        for name, dtype in zip(r.names, r.dtypes, strict=True):
            writer.line(depth + 1, f"const {compute_type(dtype)} {name}_other = shuffle_xor({name}, apart);")
        writer.line(depth + 1, r.combine)
    writer.line(depth, "}")


def _shared(writer: Writer, reductions: list[Reduction], size: int) -> None:
    for r in reductions:
        for name, dtype in zip(r.names, r.dtypes, strict=True):
            writer.share(f"{name}_shared", dtype, size)


# Above this number of subgroups, each combines all of their values in log2 steps instead of one after the other: 32
# steps of online softmax by each of 1,024 invocations were more work than a row of 50,257 elements.
_MOST_IN_TURN = 4


def _through_shared(writer: Writer, reductions: list[Reduction], subgroups: int) -> None:
    """One value of each subgroup; every subgroup then combines all of them in the same order."""
    _shared(writer, reductions, subgroups)
    writer.line(1, "if (gl_NumSubgroups > 1u) {")
    writer.line(2, "if (gl_SubgroupInvocationID == 0u) {")
    for r in reductions:
        for name in r.names:
            writer.line(3, f"{name}_shared[gl_SubgroupID] = {name};")
    writer.line(2, "}")
    writer.line(2, "barrier();  // a value of each subgroup")
    in_turn = subgroups <= _MOST_IN_TURN
    for r in reductions:
        for name, identity in zip(r.names, r.identity, strict=True):
            writer.line(2, f"{name} = {f'{name}_shared[0]' if in_turn else identity};")
    first, step = ("1u", "1u") if in_turn else ("gl_SubgroupInvocationID", "gl_SubgroupSize")
    writer.line(2, f"for (uint g = {first}; g < gl_NumSubgroups; g += {step}) {{")
    for r in reductions:
        for name, dtype in zip(r.names, r.dtypes, strict=True):
            writer.line(3, f"const {compute_type(dtype)} {name}_other = {name}_shared[g];")
        writer.line(3, r.combine)
    writer.line(2, "}")
    if not in_turn:
        _shuffle(writer, reductions, 2)
        for r in reductions:
            # Means and sums of e^x: what a and b give is not to the bit what b and a give.
            if len(r.names) > 1 and all(dtype.is_floating_point for dtype in r.dtypes):
                for name in r.names:
                    writer.line(2, f"{name} = subgroupShuffle({name}, 0u);")
    writer.line(1, "}")


def _tree(writer: Writer, work: Work, reductions: list[Reduction]) -> None:
    """In shared memory, halving the invocations of a row: for devices without shuffles, and for columns."""
    _shared(writer, reductions, work.local)
    if work.rows == 1:
        slot, first, hop = "lane", "0u", "1u"
    elif work.column:
        slot, first, hop = "own", f"own % {work.rows}u", f"{work.rows}u"
    else:
        slot, first, hop = "own", "own - lane", "1u"
    for r in reductions:
        for name in r.names:
            writer.line(1, f"{name}_shared[{slot}] = {name};")
    writer.line(1, "barrier();  // a value of each invocation")
    writer.line(1, f"for (uint apart = {work.threads // 2}u; apart > 0u; apart /= 2u) {{")
    writer.line(2, "if (lane < apart) {")
    for r in reductions:
        for name, dtype in zip(r.names, r.dtypes, strict=True):
            writer.line(3, f"const {compute_type(dtype)} {name}_other = {name}_shared[{slot} + apart * {hop}];")
        writer.line(3, r.combine)
        for name in r.names:
            writer.line(3, f"{name}_shared[{slot}] = {name};")
    writer.line(2, "}")
    writer.line(2, "barrier();  // this round's values")
    writer.line(1, "}")
    for r in reductions:
        for name in r.names:
            writer.line(1, f"{name} = {name}_shared[{first}];")
