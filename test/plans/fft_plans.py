"""Fourier transforms for the table of plans, `fft_plans.txt`: passes, radices and columns of each on each device.

    python test/plans/fft_plans.py > test/plans/fft_plans.txt        after a change that is meant to change plans

`c2c f32 4096`: kind (`r2c` and `c2r` keep half of a spectrum, `r2c_full` the whole), dtype of a part, length of the
signal. `from strided`, `to strided`: elements of a sequence do not lie beside each other there; `strided` both.
`beside 512`: so many sequences do, in both tensors. The plan's numbers are each pass's radix, the radices inside it if
a workgroup does it, invocations of a column, columns of a workgroup, values of an invocation.
"""

from __future__ import annotations

import pathlib

import plan_problems
import plan_table
import torch_aule

TABLE = pathlib.Path(__file__).with_suffix(".txt")
HEAD = "A Fourier transform and its plan on each made-up device; how to read and write it: fft_plans.py."
DEVICES = plan_table.COMMON_DEVICES | {
    # The least that Vulkan allows.
    "least gpu": plan_problems.DEVICES["lavapipe_as_gpu"]
    | {"capabilities": (), "max_workgroup_invocations": 128, "shared_bytes": 16384},
}


def plan(device: str, line: str) -> str:
    """The plan for one line on one device, in words."""
    kind, real, n, *words = line.split()
    dense = [not (f"{end} strided" in line or words[:1] == ["strided"]) for end in ("from", "to")]
    beside = int(words[words.index("beside") + 1]) if "beside" in words else 1
    return torch_aule._C.fft_plan(torch_aule._C.device_profile(DEVICES[device]), kind, real, int(n), *dense, beside)


def read_table() -> dict[str, dict[str, str]]:
    return plan_table.read(TABLE, DEVICES)


if __name__ == "__main__":
    plan_table.print_anew(TABLE, HEAD, DEVICES, plan)
