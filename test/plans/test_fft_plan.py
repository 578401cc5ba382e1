"""Plans of Fourier transforms on made-up devices, none of which is there: fft_plans.txt has them in words."""

import math
import re

import pytest

import fft_plans
import plan_table
from helpers import without

TABLE = fft_plans.read_table()


@pytest.mark.parametrize("problem", TABLE)
def test_plan(problem):
    planned = {device: fft_plans.plan(device, problem) for device in fft_plans.DEVICES}
    assert planned == TABLE[problem]


def test_every_choice_is_in_the_table():
    text = "\n".join(plan for plans in TABLE.values() for plan in plans.values())
    for words in (
        "complex to complex", "reals to half", "reals to complex", "pairs to complex, split", "halves to pairs",
        "hermitian to reals", "by chirp", "sequences first", "planes 1", "planes 2", " across", "loads across",
        "stores across", "points 16", "columns 64 ",
    ):  # fmt: skip
        assert words in text, words


@pytest.mark.parametrize("device", fft_plans.DEVICES)
def test_radices_make_the_length(device):
    """Of every length to 600, and of some long ones: passes, and radices inside them, multiply to the length."""
    for n in [*range(1, 600), 4096, 10_000, 65_537, 1 << 20, 3**12, 999_983, 1 << 24, 1 << 26]:
        words = fft_plans.plan(device, f"c2c f32 {n}")
        head, *passes = words.split("; ")
        radices = [int(re.match(r"\d+", one)[0]) for one in passes]
        core = math.prod(radices)
        assert core >= 2 * n - 1 if "by chirp" in head else core == n
        for radix, one in zip(radices, passes):
            if inner := re.search(r"= ([\d ]+) by (\d+)", one):
                assert math.prod(map(int, inner[1].split())) == radix
                columns = int(re.search(r"columns (\d+)", one)[1])
                assert columns * int(inner[2]) <= fft_plans.DEVICES[device]["max_workgroup_invocations"]


def test_plans_ask_no_device():
    line = "c2c f32 4096"
    plan_table.check_asks_no_device(
        "fft_plans", line, TABLE[line]["h200"], **without("cpu_kernels", "float64")
    )
