"""Sorts, copies, indexing, losses, recurrent layers, windows, thin convolutions: the table of plans `family_plans.txt`.

    python test/plans/family_plans.py > test/plans/family_plans.txt        after a change that is meant to change plans

A line is one of these; `N` are numbers:

    sort f32 3x1000 first 5               rows, and how many of the sorted elements of each are wanted
    search                                invocations of a workgroup of searchsorted
    get f16 1000x64 rows 700              index_select: 700 rows of a [1000, 64] matrix; `put` writes them
    add f32 1000x64 rows 700              index_add; also `mul`, `max`, `min`
    add f32 1000x64 each 700              the same with an index for each element: gather, scatter
    add f32 1000x64 columns 700           the second dimension is indexed, by a vector; `each column` by a matrix
    add f32 1000x64 pairs 700             two indices; `flat` one index into the flattened matrix
    ... deterministic                     deterministic algorithms are asked for
    ... @1                                starts one byte past an aligned address
    float32 add bf16 N of N               whether so many elements are added to so many in a float32 copy
    cross_entropy f32 8192x50257          rows and classes; `none`: a loss for each row
    nll_loss 100000                       partial sums of so many positions
    copy 4096 @8                          bytes of dense tensors; eight bytes past an aligned address
    transpose 3x64x128 of 16 bytes        a dense tensor from one whose last two dimensions are exchanged; else of 4
    rows 100x64 from 192 of 2 bytes @4    a dense matrix from rows 192 elements apart: the units in which they move
    convert f64>f32                       the arithmetic of a conversion
    optimizers                            what they decide by the device
    norms                                 chunks of lists of tensors, for their norms
    qr f32 1000x64                        columns that are reflected at once, of a matrix
    jacobi f32 1000x64                    blocks of columns that are rotated
    lu f32 1000x64                        columns that are factorized at once, of a matrix
    lu_steps f32 1000x1000 of 2           the same of a few matrices
    cholesky f32 100                      the same of a square one
    ldl 100                               LDL of a matrix of 100 rows
    eig f32 100                           eigenvalues of a general matrix of 100 rows
    tridiagonal f32 1000 of 2             eigenvalues of two Hermitian matrices of 1000 rows
    triangle f32 40 columns 3 of 7        a triangular solve of 40 rows, for 3 columns of each of 7 matrices
    direct input 1x1x9 by 1x1x3 summed 4  convolution of thin groups, sums over so many channels or images;
                                          `forward`, `weight`
    grouped input f16 last 1x9x9 by 1x3x3 images 2 groups 96 channels 1 out_channels 1 @2
                                          grouped_conv.comp, channels-last or `first`; two bytes past an aligned
                                          address; channels are those of a group
    fold 1x9x9 by 1x3x3                   col2im
    blocks forward f16 1x9x9 by 1x4x4 stride 1x2x2 images 2 channels 3
                                          a strided convolution over blocks of places
    gathers f16 1x9x9 by 1x3x3 images 2 channels 8 out_channels 16 groups 1
                                          whether implicit_gemm.comp takes it
    quantized 1x4096x448 pairs 0          rows of x, of the weight, and spans of the latter; pairs of a row and an
                                          expert
    likeliest 3x1000                      rows of logits, whose largest are drawn
    sequences 3 fill 100x4x64             ends of a batch of packed sequences, and rows, heads and head size of a
                                          result whose last rows are filled
    recurrent f32 gates 4 hidden 96 batch 64 directions 2
                                          an LSTM (a GRU has 3 gates, an RNN 1) whose workgroups keep their sequences
    pool avg 1x1x40000 by 39997 stride 1  one axis or more; `max`, `avg_backward`, `max_backward`; `to N`: adaptive
"""

from __future__ import annotations

import pathlib
import re

import plan_problems
import plan_table
import torch_aule

TABLE = pathlib.Path(__file__).with_suffix(".txt")
HEAD = "Problem of one of many families, and its plan on each made-up device; how to read it: family_plans.py."
GPU = plan_problems.DEVICES["lavapipe_as_gpu"]
DEVICES = plan_table.COMMON_DEVICES | {
    # Without atomic additions of float32 and arithmetic in subgroups; and the least that Vulkan allows.
    "plain gpu": GPU | {"capabilities": ()},
    "least gpu": GPU | {"capabilities": (), "max_workgroup_invocations": 128, "shared_bytes": 16384},
}
COMBINES = ("add", "mul", "max", "min")


def space(rows: int, columns: int, how: str, count: int):
    """Bounds and steps of the indices, and the dimensions {size, plain, indexed, meets, index...}."""
    if how == "rows":  # plain [count, columns]
        return [rows], [columns], [[count, columns, 0, 1, 1], [columns, 1, 1, 0, 0]]
    if how == "each":
        return [rows], [columns], [[count, columns, 0, 1, columns], [columns, 1, 1, 0, 1]]
    if how == "columns":  # plain [rows, count]
        return [columns], [1], [[rows, count, columns, 0, 0], [count, 1, 0, 1, 1]]
    if how == "each column":
        return [columns], [1], [[rows, count, columns, 0, count], [count, 1, 0, 1, 1]]
    if how == "pairs":
        return [rows, columns], [columns, 1], [[count, 1, 0, 1, 1, 1]]
    return [rows * columns], [1], [[count, 1, 0, 1, 1]]


def indexing(profile, line: str) -> str:
    match = re.fullmatch(r"(\w+) (\w+) (\d+)x(\d+) ([a-z ]+) (\d+)( deterministic)?(?: @(\d+))?", line)
    op, dtype, rows, columns, how, count, deterministic, start = match.groups()
    parts = space(int(rows), int(columns), how, int(count))
    if op in COMBINES:
        return torch_aule._C.index_combine_plan(profile, dtype, *parts, op, bool(deterministic))
    ordered = op == "put" and bool(deterministic)
    return torch_aule._C.index_move_plan(profile, dtype, *parts, (1 << 20) + int(start or 0), ordered)


def transposed(sizes: list[int]) -> list[tuple[int, int, int]]:
    """Size and strides of target and source of each dimension, the first one first."""
    *batch, a, b = sizes
    dims, step = [(b, 1, a), (a, b, 1)], a * b
    for size in reversed(batch):
        dims.append((size, step, step))
        step *= size
    return dims[::-1]


def element_of(words: list[str]) -> tuple[int, int]:
    """`of 2 bytes @4`: bytes of an element (otherwise 4), and of the address past an aligned one."""
    size = int(words[words.index("of") + 1]) if "of" in words else 4
    return size, next((int(word[1:]) for word in words if word.startswith("@")), 0)


def pool_axes(text: str) -> list[list[int]]:
    """`1x1x40000 by 1x1x39997 stride 1x1x1 pad 0x0x0` or `1x1x40000 to 1x1x2`."""
    words = text.split()
    given = {
        name: [int(n) for n in value.split("x")] for name, value in zip(["in", *words[1::2]], [words[0], *words[2::2]])
    }
    if "to" in given:
        return [[size, out, 0, 1, 0, 1] for size, out in zip(given["in"], given["to"])]
    axes = []
    for size, kernel, stride, pad in zip(
        given["in"], given["by"], given.get("stride", [1] * 3), given.get("pad", [0] * 3)
    ):
        axes.append([size, (size + 2 * pad - kernel) // stride + 1, kernel, stride, pad, 1])
        if "dilation" in given:
            dilation = given["dilation"][len(axes) - 1]
            axes[-1][1::4] = (size + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1, dilation
    return axes


def plan(device: str, line: str) -> str:
    """The plan for one line on one device, in words."""
    c, profile = torch_aule._C, torch_aule._C.device_profile(DEVICES[device])
    kind, *rest = line.split()
    numbers = [int(n) for n in re.findall(r"\b\d+\b", line.replace("x", " "))]
    if kind == "sort":
        return c.sort_plan(profile, rest[0], *numbers)
    if kind == "search":
        return f"local {c.search_local(profile)}"
    if kind == "cross_entropy":
        return c.cross_entropy_plan(profile, rest[0], *numbers, "none" in rest)
    if kind == "nll_loss":
        return f"chunks {c.nll_loss_chunks(profile, *numbers)}"
    if kind == "float32":
        return "in float32" if c.combines_in_float32(rest[1], rest[0], numbers[1], numbers[0]) else "in place"
    if kind == "copy":
        address = int(rest[1][1:]) if len(rest) > 1 else 0
        return "kernel" if c.copies_by_kernel(profile, address, int(rest[0])) else "command"
    if kind == "transpose":
        dims = transposed([int(n) for n in rest[0].split("x")])
        size, address = element_of(rest[1:])
        return c.transpose_plan(profile, size, dims, address)
    if kind == "rows":
        count, row = (int(n) for n in rest[0].split("x"))
        pitch = int(rest[2])
        size, address = element_of(rest[3:])
        return c.copy_units(size, [(row, 1, 1), (count, row, pitch)], address)
    if kind == "convert":
        return f"in {c.conversion(profile, *rest[0].split('>'))}"
    if kind == "optimizers":
        return f"foreach to {c.foreach_most_elems(profile)} elements, adam vec16b {c.adam_uses_vec16b(profile)}"
    if kind == "norms":
        return c.norm_list_plan(profile)
    if kind == "lu":
        return c.lu_panel_plan(profile, rest[0], *(int(n) for n in rest[1].split("x")))
    if kind == "lu_steps":
        return c.lu_steps_plan(profile, rest[0], *(int(n) for n in rest[1].split("x")), int(rest[3]))
    if kind == "ldl":
        return c.ldl_plan(profile, int(rest[0]))
    if kind == "eig":
        return c.eig_plan(profile, rest[0], int(rest[1]))
    if kind == "cholesky":
        return c.cholesky_plan(profile, rest[0], int(rest[1]))
    if kind == "tridiagonal":
        return c.tridiagonal_plan(profile, rest[0], int(rest[1]), int(rest[3]))
    if kind == "triangle":
        return c.triangle_plan(profile, rest[0], *(int(n) for n in rest[1::2]))
    if kind in ("qr", "jacobi"):
        rows, columns = map(int, rest[1].split("x"))
        return (c.qr_panel_plan if kind == "qr" else c.jacobi_plan)(profile, rest[0], rows, columns)
    if kind == "quantized":
        return c.quantized_gemv_plan(profile, *numbers, "gated" in rest, "integers" in rest)
    if kind == "decoding":
        return c.norm_linear_plan(profile, *numbers[-3:], "gated" in rest, rest[0])
    if kind == "sequences":
        tails = [[int(n) for n in word.split("x")] for word in rest[2:]]
        return c.sequences_plan(profile, numbers[0], tails)
    if kind == "likeliest":
        return c.likeliest_plan(profile, *(int(n) for n in rest[0].split("x")))
    if kind == "recurrent":
        return c.recurrent_plan(profile, rest[0], *(int(n) for n in rest[2::2]))
    if kind == "direct":
        return c.direct_plan(profile, rest[0], pool_axes(" ".join(rest[1:])), numbers[-1])
    if kind == "grouped":
        which, dtype, order, *words = rest
        start = int(words.pop()[1:]) if words[-1].startswith("@") else 0
        counts = [int(n) for n in words[-7::2]]
        return c.grouped_conv_plan(
            profile, which, dtype, order == "last", pool_axes(" ".join(words[:-8])), counts, (1 << 20) + start
        )
    if kind == "fold":
        return c.fold_plan(profile, pool_axes(" ".join(rest)))
    if kind == "blocks":
        return c.blocks_plan(rest[0], rest[1], pool_axes(" ".join(rest[2:-4])), numbers[-2:])
    if kind == "gathers":
        axes = pool_axes(" ".join(rest[1:]))
        return "taken" if c.implicit_gemm_takes(profile, rest[0], axes, numbers[-4:]) else "not taken"
    if kind == "pool":
        return c.pool_plan(profile, rest[0], pool_axes(line.split(maxsplit=2)[2]))
    return indexing(profile, line)


def read_table() -> dict[str, dict[str, str]]:
    return plan_table.read(TABLE, DEVICES)


if __name__ == "__main__":
    plan_table.print_anew(TABLE, HEAD, DEVICES, plan)
