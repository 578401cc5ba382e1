"""Plans of softmax and norms on made-up devices, none of which is there: norm_plans.txt has them in words."""

import os
import pathlib
import subprocess
import sys

import pytest

import norm_plans
import plan_table
from helpers import limited, without

TABLE = norm_plans.read_table()


@pytest.mark.parametrize("problem", TABLE)
def test_plan(problem):
    planned = {device: norm_plans.plan(device, problem) for device in norm_plans.DEVICES}
    assert planned == TABLE[problem]


def test_the_script_writes_the_table():
    """From anywhere, as every table's script does: they share how they are started (plan_problems.py)."""
    script = pathlib.Path(norm_plans.__file__)
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([sys.executable, script], cwd="/", env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == script.with_suffix(".txt").read_text()


def test_every_kind_of_plan_is_in_the_table():
    plans = {name: [] for name in ("softmax", "softmax_backward", "layer_norm", "layer_norm_backward", "rms_norm",
                                   "rms_norm_backward", "group_norm", "group_norm_backward")}  # fmt: skip
    for problem, of_devices in TABLE.items():
        plans.setdefault(problem.split()[0], []).extend(of_devices.values())
    rowwise = ["row by invocation items", "row by invocation vec4", "row by workgroup, tree",
               "row by workgroup, subgroups", " vec8 ", " full ", "items 0", "long rows"]  # fmt: skip
    wanted = {
        "softmax": [*rowwise, "vec8 at any start"],
        "softmax_backward": [*rowwise, "vec8 at any start"],
        "layer_norm": [*rowwise, "persistent, subgroups", "persistent, tree"],
        "layer_norm_backward": ["persistent, subgroups", "loads ahead", "row by workgroup", "long rows", "no rows"],
        "rms_norm": ["row by workgroup, subgroups", "long rows"],
        "rms_norm_backward": ["persistent, subgroups"],
        "group_norm": ["row by workgroup, subgroups", "long rows"],
        "group_norm_backward": ["row by workgroup, subgroups", "long rows", "no rows"],
        "param_sums": ["sums by invocation vec4", "sums by invocation local", "sums by workgroup"],
        "batch_norm": ["vec4 local", "vec4 of channels", "elements local"],
    }
    missing = [(name, text) for name, texts in wanted.items() for text in texts if text not in "\n".join(plans[name])]
    assert not missing


def test_plans_ask_no_device():
    line = "layer_norm f16 8192x4096 w:f16 b:f16"
    plan_table.check_asks_no_device(
        "norm_plans",
        line,
        TABLE[line]["h200"],
        **limited("max_loop_iterations=100"),
        **without("cpu_kernels", "subgroup_arithmetic"),
    )
