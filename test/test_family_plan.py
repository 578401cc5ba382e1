"""Plans of sorts, copies, indexing, losses and pools on made-up devices: test/family_plans.txt has them in words."""

import pytest

import family_plans
from helpers import check_python

TABLE = family_plans.read_table()


@pytest.mark.parametrize("problem", TABLE)
def test_plan(problem):
    planned = {device: family_plans.plan(device, problem) for device in family_plans.DEVICES}
    assert planned == TABLE[problem]


def test_every_choice_is_in_the_table():
    text = "\n".join(plan for plans in TABLE.values() for plan in plans.values())
    for words in (
        "sort by workgroup", "sort by invocation", "positions", "merges 0", "local 32", "local 128",
        "elements of 16 ", "elements of 1 ", "walked", "wide", "dispatches", "ordered", "native atomics", "atomics",
        "in float32", "in place", "cross_entropy by subgroups", "cross_entropy local 32", "none", "chunks 1024",
        "kernel", "command", "transpose grid", "float64 bits", "in raw", "in int64", "foreach to 1024", "pool at once",
        "pool by scatter", "identity", "whole", "parts of", "output by output",
    ):  # fmt: skip
        assert words in text, words


def test_plans_ask_no_device():
    """A driver that is not there, and the environment of another one: the same plans, and no device is made."""
    problem = "add f32 50257x768 rows 8192"
    text = check_python(
        f"""
import sys
sys.path.insert(0, {str(family_plans.TABLE.parent)!r})
import family_plans, torch_aule
print(family_plans.plan("h200", {problem!r}))
print(torch_aule._C.is_initialized(), torch_aule._C.device_count())
""",
        VK_ICD_FILENAMES="/nowhere.json",
        VK_DRIVER_FILES="/nowhere.json",
        TORCH_AULE_DISABLE_CPU_KERNELS="1",
        TORCH_AULE_MAX_LOOP_ITERATIONS="100",
    )
    assert text.splitlines() == [TABLE[problem]["h200"], "False 0"]
