"""Convolutions and made-up devices for the table of routes, `conv_routes.txt`: which kernels make a pass.

    python test/plans/conv_routes.py > test/plans/conv_routes.txt        after a change that is meant to change routes

A line is `forward f16 1x56x56 by 1x3x3 stride 1x2x2 images 2 channels 64 out_channels 64 groups 1`, or the pass `input`
or `weight`; channels are those of all groups. `last`: channels-last. `@2`: two bytes past an aligned address.
`precision:high`: what torch.set_float32_matmul_precision allows. No images: the convolution is empty.
`halo_conv=never`: a setting of TORCH_AULE_OVERRIDES.
"""

from __future__ import annotations

import pathlib
import re

import family_plans
import matmul_plans
import plan_table
import torch_aule

TABLE = pathlib.Path(__file__).with_suffix(".txt")
HEAD = "Pass of a convolution, and its route on each made-up device; how to read and write it: conv_routes.py."
DEVICES = matmul_plans.DEVICES


def plan(device: str, line: str) -> str:
    """The route for one line on one device, in words."""
    which, dtype, rest = line.split(" ", 2)
    counts = [int(re.search(rf"\b{name} (\d+)", rest)[1]) for name in ("images", "channels", "out_channels", "groups")]
    precision = re.search(r"precision:(\w+)", rest)
    start = re.search(r"@(\d+)", rest)
    axes = family_plans.pool_axes(rest.split(" images")[0])
    address = (1 << 20) + (int(start[1]) if start else 0)
    settings = address, precision[1] if precision else "highest"
    profile, probes = matmul_plans.described_device(device)
    overrides = dict(word.split("=") for word in rest.split() if "=" in word)
    return torch_aule._C.conv_route(profile, probes, which, dtype, " last" in rest, axes, counts, *settings, overrides)


def read_table() -> dict[str, dict[str, str]]:
    return plan_table.read(TABLE, DEVICES)


if __name__ == "__main__":
    plan_table.print_anew(TABLE, HEAD, DEVICES, plan)
