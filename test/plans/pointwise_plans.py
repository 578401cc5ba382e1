"""Pointwise operators for the table of plans, `pointwise_plans.txt`: which kernels compute them, piece by piece.

    python test/plans/pointwise_plans.py > test/plans/pointwise_plans.txt  after a change that is meant to change plans

`f32 64x1000: f32, f16 row @2, value` is a result of float32 and that shape, and one to three operands:

    row, column        one row or one column for all: strides of 0
    reversed           its last dimension is the slowest in memory, the first the fastest
    every 2            every second element of memory
    @2                 starts two bytes past an aligned address; also of the result, as `f32 64x1000 @4: f32`
    value              a number that the host has: no memory is read

`in i64` and `in f64` at the end of a line name the arithmetic (otherwise float32), `special` is an entry of
unary_special.comp. A plan `simd grid 256, dense packed packed grid 1` has a launch of whole workgroups of 256 elements
and one for the rest; packed, strided, constant, value are how the kernel reads and writes each operand. Sizes past 31
bits, and more than eight dimensions, are cut into pieces: `3 pieces of ...` have one plan.
"""

from __future__ import annotations

import itertools
import math
import pathlib
import re

import plan_problems
import plan_table
import torch_aule

TABLE = pathlib.Path(__file__).with_suffix(".txt")
HEAD = "Pointwise operator, and its plan on each made-up device; how to read and write it: pointwise_plans.py."
DEVICES = {
    **{name: plan_problems.DEVICES[name] for name in ("h200", "rdna3", "arc", "lavapipe", "lavapipe_as_gpu")},
    # Software with subgroups of another size than *_simd.comp is written for.
    "software of 4 lanes": plan_problems.DEVICES["lavapipe"] | {"subgroup_size": 4},
}


def dense_strides(sizes: list[int]) -> list[int]:
    """Of a contiguous tensor."""
    return [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]


def strides_of(sizes: list[int], words: list[str]) -> list[int]:
    if "row" in words:
        return [0] * (len(sizes) - 1) + [1]
    if "column" in words:
        return [*dense_strides([*sizes[:-1], 1])[:-1], 0]
    if "reversed" in words:
        return dense_strides(sizes[::-1])[::-1]
    step = int(words[words.index("every") + 1]) if "every" in words else 1
    return [step * stride for stride in dense_strides(sizes)]


def start_of(words: list[str]) -> int:
    return (1 << 20) + next((int(word[1:]) for word in words if word.startswith("@")), 0)


def plan(device: str, line: str) -> str:
    """The plan for one line on one device, in words."""
    match = re.fullmatch(r"(\w+) ([\dx]+)([^:]*): (.*?)( special)?(?: in (\w+))?", line)
    result, shape, layout, inputs, special, arithmetic = match.groups()
    sizes = [int(size) for size in shape.split("x")]
    operands, strides = [(result, start_of(layout.split()))], [strides_of(sizes, layout.split())]
    for text in inputs.split(", "):
        dtype, *words = text.split()
        by_value = dtype == "value"
        operands.append(None if by_value else (dtype, start_of(words)))
        strides.append(strides[0] if by_value else strides_of(sizes, words))
    dims = [list(numbers) for numbers in zip(sizes, *strides)]
    profile = torch_aule._C.device_profile(DEVICES[device])
    plans = torch_aule._C.pointwise_plans(profile, arithmetic or "f32", bool(special), operands, dims)
    runs = [(words, len(list(run))) for words, run in itertools.groupby(plans)]
    return "; ".join(words if count == 1 else f"{count} pieces of {words}" for words, count in runs)


def read_table() -> dict[str, dict[str, str]]:
    return plan_table.read(TABLE, DEVICES)


if __name__ == "__main__":
    plan_table.print_anew(TABLE, HEAD, DEVICES, plan)
