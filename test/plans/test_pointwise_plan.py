"""Plans of pointwise operators on made-up devices: test/plans/pointwise_plans.txt has them in words."""

import pytest

import plan_table
import pointwise_plans
from helpers import without

TABLE = pointwise_plans.read_table()


@pytest.mark.parametrize("problem", TABLE)
def test_plan(problem):
    planned = {device: pointwise_plans.plan(device, problem) for device in pointwise_plans.DEVICES}
    assert planned == TABLE[problem]


def test_every_choice_is_in_the_table():
    plans = [plan for of_devices in TABLE.values() for plan in of_devices.values()]
    text = "\n".join(plans)
    for words in (
        "simd grid 256, nothing left", "simd grid 512x512, simd grid", "simd 2 times grid 512x512",
        ", dense packed", "dense strided",
        " skips checks grid", " skips checks interleaved", "strided packed", "strided strided", " constant", " value",
        "special", "double bits", " pieces of ", "; ",
    ):  # fmt: skip
        assert words in text, words
    assert {problem.count(",") for problem in TABLE} == {0, 1, 2}


def test_plans_ask_no_device():
    line = "f32 1000x1000: f32, f32"
    plan_table.check_asks_no_device("pointwise_plans", line, TABLE[line]["h200"], **without("cpu_kernels"))
