"""Plans of reductions and scans on made-up devices, none of which is there: reduce_plans.txt has them in words."""

import pytest

import plan_table
import reduce_plans
from helpers import limited, without

TABLE = reduce_plans.read_table()


@pytest.mark.parametrize("problem", TABLE)
def test_plan(problem):
    planned = {device: reduce_plans.plan(device, problem) for device in reduce_plans.DEVICES}
    assert planned == TABLE[problem]


def test_every_pass_is_in_the_table():
    text = " ".join(plan for plans in TABLE.values() for plan in plans.values())
    passes = [f"{step} by {owner}" for step in ("input to results", "input to states", "states to results")
              for owner in ("invocation", "workgroup")]  # fmt: skip
    for words in (*passes, "states to fewer by invocation", "column_sum", "scan by invocation", "scan by workgroup",
                  "prefixes", "u64", "i64:", "f64:"):  # fmt: skip
        assert words in text, words
    assert {"none"} < {plan for plans in TABLE.values() for plan in plans.values()}


def test_plans_ask_no_device():
    line = "sum f32 4096x1024 over 0"
    plan_table.check_asks_no_device(
        "reduce_plans",
        line,
        TABLE[line]["h200"],
        **limited("max_loop_iterations=100"),
        **without("cpu_kernels"),
    )
