"""Plans of many families on made-up devices, none of which is there: test/plans/family_plans.txt has them in words."""

import pytest

import family_plans
import plan_table
from helpers import limited, without

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
        "pool by scatter", "identity", "whole", "parts of", "output by output", " at once", "summed 20000+20000",
        "height 100+100 (both width", "taken", "not taken", "groups 2 local 8", "groups 2048 local 128",
        "resident sequences 1 steps 2048", "resident sequences 2", "workgroups local 128 chunk",
        "invocations local 8 chunk", "lanes 1024 in memory",
        "columns 64 local 256 lanes 8 shared", "blocks 1 sweeps 36", "registers, rows 4",
        "shared spread local", "memory local 1024",
        "at once, tiles 8", "panels of 128", "steps of 4",
        "by halves", "at once, side 32", "at once, shared, most 64", "at once, memory local",
        "of a launch: reflections 1 ", "shared 3844 of a launch", "blocks 34 sweeps 1",
    ):  # fmt: skip
        assert words in text, words


def test_plans_ask_no_device():
    line = "add f32 50257x768 rows 8192"
    plan_table.check_asks_no_device(
        "family_plans",
        line,
        TABLE[line]["h200"],
        **limited("max_loop_iterations=100"),
        **without("cpu_kernels"),
    )
