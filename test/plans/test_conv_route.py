"""Routes of convolutions on made-up devices, none of which is there: conv_routes.txt has them in words."""

import pytest

import conv_routes
import family_plans
import plan_table
import torch_aule
from helpers import without

TABLE = conv_routes.read_table()


@pytest.mark.parametrize("problem", TABLE)
def test_route(problem):
    planned = {device: conv_routes.plan(device, problem) for device in conv_routes.DEVICES}
    assert planned == TABLE[problem]


def test_every_route_is_in_the_table():
    text = "\n".join(plan for plans in TABLE.values() for plan in plans.values())
    for words in (
        "grouped_conv 8 results", "grouped_conv_weight 3x3 taps", "pointwise", "gathered", "products of pieces: 3",
        "products of pieces: 1", "direct", "columns", "blocks", ": gathered", ": pointwise", "halo_conv ",
        "halo_conv_weight",
    ):  # fmt: skip
        assert words in text, words


def test_loops_that_a_device_ends_leave_no_kernel():
    """Of groups, where even one tap of one channel takes more turns than the device's loops may have."""
    profile = torch_aule._C.device_profile(conv_routes.DEVICES["h200"][0] | {"max_loop_iterations": 1})
    axes = family_plans.pool_axes("1x9x9 by 1x3x3")
    route = torch_aule._C.conv_route(profile, {}, "forward", "f32", False, axes, [1, 8, 8, 2], 1 << 20, "highest", {})
    assert route == "none: a loop is too long"


def test_routes_ask_no_device():
    line = next(iter(TABLE))
    plan_table.check_asks_no_device("conv_routes", line, TABLE[line]["h200"], **without("cooperative_matrix"))
