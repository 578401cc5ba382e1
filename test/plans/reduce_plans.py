"""Reductions and scans for the table of plans, `reduce_plans.txt`: which passes are launched on which device.

    python test/plans/reduce_plans.py > test/plans/reduce_plans.txt        after a change that is meant to change plans

A reduction is a line `sum f16>f32 4096x1024 over 0,1`: the operator, the dtype of the input and of the result if it is
another, the sizes, and the reduced dimensions. `strides 1,4096` are in elements, `@1` starts one element past an
aligned address. A scan is `scan 4 rows of 1000 inner 3`; `turns 128`: loop iterations
that an element takes.
"""

from __future__ import annotations

import pathlib
import re

import plan_table
import torch_aule

TABLE = pathlib.Path(__file__).with_suffix(".txt")
HEAD = "Reduction or scan, and its plan on each made-up device; how to read and write it: reduce_plans.py."
DEVICES = plan_table.COMMON_DEVICES
KINDS = {"argmax": "arg", "argmin": "arg", "var": "moments", "std": "moments", "lse": "lse", "aminmax": "minmax"}
OPS = {"argmax": "max", "argmin": "min", "aminmax": "min"}


def contiguous(sizes: list[int]) -> list[int]:
    strides, step = [], 1
    for size in reversed(sizes):
        strides.insert(0, step)
        step *= max(size, 1)
    return strides


def reduction(line: str) -> dict:
    """A line of the table as what `_C.reduction_plan` takes."""
    name, dtypes, shape, over, *words = re.sub(" over ", " ", line).split()
    dtype, _, result = dtypes.partition(">")
    sizes = [int(size) for size in shape.split("x")]
    dims = [int(dim) for dim in over.split(",")]
    kept = [size for dim, size in enumerate(sizes) if dim not in dims]
    strides, offset = contiguous(sizes), 0
    for word, value in zip(words, [*words[1:], ""]):
        if word == "strides":
            strides = [int(stride) for stride in value.split(",")]
        elif word.startswith("@"):
            offset = int(word[1:])
    return {
        "op": OPS.get(name, name),
        "kind": KINDS.get(name, "value"),
        "sizes": sizes,
        "strides": strides,
        "out_strides": contiguous(kept),
        "dims": dims,
        "in": dtype,
        "result": result or dtype,
        "address": (1 << 20) + offset * plan_table.SIZES[dtype],
    }


def plan(device: str, line: str) -> str:
    """The plan for one line on one device, in words."""
    profile = torch_aule._C.device_profile(DEVICES[device])
    if line.startswith("scan "):
        rows, n, inner, *turns = (int(number) for number in re.findall(r"\d+", line))
        return torch_aule._C.scan_plan(profile, rows, n, inner, *turns or [1])
    return torch_aule._C.reduction_plan(profile, reduction(line))


def read_table() -> dict[str, dict[str, str]]:
    return plan_table.read(TABLE, DEVICES)


if __name__ == "__main__":
    plan_table.print_anew(TABLE, HEAD, DEVICES, plan)
