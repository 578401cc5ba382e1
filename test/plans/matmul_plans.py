"""Products and made-up devices for the table of plans, `matmul_plans.txt`: who multiplies what on which device.

    python test/plans/matmul_plans.py > test/plans/matmul_plans.txt        after a change that is meant to change plans

A product is a line of words, `f16 b2 m512 n512 k64 a:col b:row+8 c:bias out:row@1 alpha:2 precision:high`. An operand
lies by rows (`row`), by columns (`col`), with its rows or columns some elements longer than they need (`row+8`), with
every second element (`row*2`), or with one matrix for the whole batch (`row*0`); `@1` starts one element past an
aligned address. `gelu` and `residual:0` (or `residual:1`, one element past one) are an epilogue. `parts:by_cost` is the
override product_parts. A convolution is `conv positions f16 m.. n.. k.. channels.. groups..`, or `conv weights`. A
product with a weight that stays packed is `quantized q4_k`, and then a product.
"""

from __future__ import annotations

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "chips"))

import matrix_probes

import plan_problems
import plan_table
import torch_aule

TABLE = pathlib.Path(__file__).with_suffix(".txt")
HEAD = "Product, and its plan on each made-up device; how to read and write it: matmul_plans.py."

# Component types as Caps keeps them: VkComponentTypeKHR, of bfloat16 the low byte.
F16, F32, BF16, S8, S32 = 0, 1, 1000141000 & 255, 3, 5


def arc():
    """8x16x16 in 32 lanes: a lane has half a column. A stand-in: the order of Intel's driver was never probed."""

    def place(lane, e):
        return e * 2 + lane // 16, lane % 16

    return matrix_probes.probe_words(8, 16, 32, (4, place), (8, place), (4, place))


def shapes(m, n, k, *kinds):
    return [(m, n, k, operand, total) for operand, total in kinds]


HALVES = ((F16, F32), (BF16, F32))
NVIDIA, RDNA3, ARC = (matrix_probes.nvidia(), [16, 16]), (matrix_probes.rdna3(64), [16, 16]), (arc(), [8, 16])
LAVAPIPE_SHAPES = shapes(8, 8, 8, (F16, F32), (S8, S32))


def described(name, without=(), **more):
    """A device of plan_problems.DEVICES without some capabilities, and what else a product asks of it."""
    values = plan_problems.DEVICES[name]
    return values | {"capabilities": [c for c in values["capabilities"] if c not in without]} | more


def lavapipe(*without, **more):
    """With the limit that planners obey where the driver ends loops after 65,535 iterations."""
    return described("lavapipe_matrices", ("bfloat16", *without), **plan_table.LOOPS_END, **more)


# name -> (what `_C.device_profile` takes, what the probe of its matrices' layout answers)
DEVICES = {
    "h200": (
        described(
            "h200",
            coopmat_shapes=shapes(16, 16, 16, *HALVES)
            + shapes(16, 8, 16, *HALVES)
            + shapes(16, 8, 8, *HALVES)
            + shapes(16, 16, 32, (S8, S32))
            + shapes(16, 8, 32, (S8, S32)),
        ),
        NVIDIA,
    ),
    "rdna3": (described("rdna3", coopmat_shapes=shapes(16, 16, 16, *HALVES, (S8, S32))), RDNA3),
    "arc": (
        described("arc", min_subgroup_size=8, coopmat_shapes=shapes(8, 16, 16, *HALVES) + shapes(8, 16, 32, (S8, S32))),
        ARC,
    ),
    "lavapipe-22.3": (lavapipe("cooperative_matrix", max_push_constant_bytes=128), None),
    "lavapipe-26.2": (lavapipe(coopmat_shapes=LAVAPIPE_SHAPES), (matrix_probes.lavapipe(), [8, 8])),
    # TORCH_AULE_DISABLE=subgroup_shuffle: the kernels of GPUs, as the tests run them
    "lavapipe-26.2, no shuffle": (
        lavapipe("subgroup_shuffle", coopmat_shapes=LAVAPIPE_SHAPES),
        (matrix_probes.lavapipe(), [8, 8]),
    ),
}


def operand(text: str, rows: int, columns: int, size: int) -> list[int]:
    """`row+8@1` -> [address, stride of the batch, of rows, of columns]."""
    match = re.fullmatch(r"(row|col)(?:\+(\d+))?(\*[02])?(?:@(\d+))?", text)
    order, longer, every, start = match[1], int(match[2] or 0), match[3], int(match[4] or 0)
    inner, outer = (columns, rows) if order == "row" else (rows, columns)
    unit = 2 if every == "*2" else 1
    ld = (inner + longer) * unit
    batch = 0 if every == "*0" else ld * outer
    strides = [ld, unit] if order == "row" else [unit, ld]
    return [(1 << 20) + start * size, batch, *strides]


def problem(line: str) -> dict:
    """A line of the table as what `_C.gemm_plan` takes."""
    words = line.split()
    dtype, sizes, options = words[0], {"b": 1}, {"a": "row", "b": "row", "out": "row"}
    for word in words[1:]:
        if ":" in word:
            name, value = word.split(":")
            options[name] = value
        elif word != "gelu":
            sizes[word[0]] = int(word[1:])
    batches, m, n, k = (sizes[x] for x in "bmnk")
    result = options.get("result", dtype)
    out_size = plan_table.SIZES[result]
    g = dict(batches=batches, m=m, n=n, k=k, dtype=dtype, result=result, precision=options.get("precision", "highest"))
    g["a"] = operand(options["a"], m, k, plan_table.SIZES[dtype])
    g["b"] = operand(options["b"], k, n, plan_table.SIZES[dtype])
    g["out"] = operand(options["out"], m, n, out_size)
    if options.get("c", "").startswith("bias"):
        g["c"] = [(1 << 20) + out_size * (options["c"] == "bias@1"), 0, 0, 1]
    elif "c" in options:
        g["c"] = operand(options["c"], m, n, out_size)
    g["alpha_is_one"] = "alpha" not in options
    if "gelu" in words:
        g["gelu"] = True
    if "residual" in options:
        g["residual"] = (1 << 20) + out_size * int(options["residual"])
    return g


def described_device(device: str) -> tuple:
    """Profile of a made-up device, and what the probe of its matrices answers for each dtype."""
    values, probe = DEVICES[device]
    profile = torch_aule._C.device_profile(values)
    if probe is None:
        return profile, {}
    words = [*probe[1], *probe[0]]
    dtypes = ("f16", "bf16") if "bfloat16" in values["capabilities"] else ("f16",)
    return profile, dict.fromkeys(dtypes, words)


def plan(device: str, line: str) -> str:
    """The plan for one line on one device, in words."""
    profile, probes = described_device(device)
    if line.startswith("conv "):
        _, makes, dtype, *sizes = line.split()
        numbers = [int(re.sub(r"\D", "", word)) for word in sizes]
        return torch_aule._C.implicit_gemm_plan(profile, probes, dtype, makes == "weights", numbers)
    if line.startswith("quantized "):
        _, format, rest = line.split(" ", 2)
        return torch_aule._C.quantized_gemm_plan(profile, probes, problem(rest + " b:col"), format)
    refuted = re.search(r" int8_refuted:(\d+)", line)
    settings = " pieces:f16" in line, " parts:by_cost" in line
    return torch_aule._C.gemm_plan(profile, probes, problem(line), int(refuted[1]) if refuted else 0, *settings)


def read_table() -> dict[str, dict[str, str]]:
    return plan_table.read(TABLE, DEVICES)


if __name__ == "__main__":
    plan_table.print_anew(TABLE, HEAD, DEVICES, plan)
