"""Softmax and norms for the table of plans, `norm_plans.txt`: which kernel takes the rows on which device, and how.

    python test/plans/norm_plans.py > test/plans/norm_plans.txt        after a change that is meant to change plans

`softmax f16>f32 4096x1024 inner 3`: dtypes of the input and of the result if it is another, rows, elements of a row,
and their distance. `layer_norm f16 4096x1024 w:f32 b:f32`, `rms_norm_backward bf16 4096x1024 w:bf16 dx`: of those
operands that there are. `group_norm f32 16x65536 hw 4096 groups 8 channels 16` has rows of channels * hw elements.
`param_sums f32 1024 of 8192 layer` and `.. channels` are the gradients of parameters of each element and of each
channel. `batch_norm f32 64x32x784 w:f32` is samples, channels and the rest, which is 1 for a channels-last tensor. A
dtype may end in `@1`: its operand (of a bare `@1` all of them) starts one element past an aligned address.
"""

from __future__ import annotations

import pathlib
import re

import plan_problems
import plan_table
import torch_aule

TABLE = pathlib.Path(__file__).with_suffix(".txt")
HEAD = "Softmax or norm, and its plan on each made-up device; how to read and write it: norm_plans.py."
DEVICES = plan_table.COMMON_DEVICES | {
    # Of few invocations, and without sums over subgroups.
    "small gpu": plan_problems.DEVICES["h200"]
    | {"max_workgroup_invocations": 256, "multiprocessors": 4, "capabilities": ()},
}


def operand(text: str, everywhere: int = 0) -> tuple[str, int]:
    dtype, _, offset = text.partition("@")
    return dtype, (1 << 20) + int(offset or everywhere) * plan_table.SIZES[dtype]


def plan(device: str, line: str) -> str:
    """The plan for one line on one device, in words."""
    profile, c = torch_aule._C.device_profile(DEVICES[device]), torch_aule._C
    name, dtypes, shape, *words = line.split()
    dtype, _, result = dtypes.partition(">")
    result = result or dtype
    sizes = [int(size) for size in shape.split("x")]
    everywhere = next((int(word[1:]) for word in words if word.startswith("@")), 0)
    number = {word: int(value) for word, value in zip(words, words[1:]) if re.fullmatch(r"\d+", value)}
    given = {word.split(":")[0]: operand(word.split(":")[1], everywhere) for word in words if ":" in word}
    x, y = operand(dtype, everywhere), operand(result, everywhere)
    backward = name.endswith("_backward")
    if name.startswith("softmax"):
        operands = [x, x, y] if backward else [x, y]
        return c.softmax_plan(profile, backward, [*sizes, number.get("inner", 1)], operands)
    if name == "param_sums":
        outputs, reduced = sizes[0], number["of"]
        if "layer" in words:
            return c.param_sums_plan(profile, [outputs, reduced, 1, outputs, 1, 1, outputs], x, x)
        hw = number["channels"]
        return c.param_sums_plan(profile, [outputs, reduced, hw, outputs * hw, hw, 0, 1], x, x)
    if name.startswith("batch_norm"):
        operands = {"x": x, "out": y} | ({"grad": x} if backward else {})
        return c.batch_norm_plan(sizes[0] * sizes[1] * sizes[2], *sizes[1:], operands, list(given.values()))
    rows = [*sizes, number.get("hw", 1), number.get("groups", 1), number.get("channels", 0)]
    if backward:
        operands = {"grad": x, "x": x} | given | ({"dx": y} if "dx" in words else {})
    else:
        operands = {"x": x, "y": y} | given
    return c.norm_plan(profile, backward, rows, name.startswith("rms"), operands)


def read_table() -> dict[str, dict[str, str]]:
    return plan_table.read(TABLE, DEVICES)


if __name__ == "__main__":
    plan_table.print_anew(TABLE, HEAD, DEVICES, plan)
