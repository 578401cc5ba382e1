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
        "halo_conv_weight", "gathered, scaled halves",
    ):  # fmt: skip
        assert words in text, words


# docs/ladders/halo_conv.md: images, channels, extent -> TFLOPS of tiles on an H200, forward and of the weight
MEASURED = {
    (32, 64, 56): ({"128x64x32": 223}, {"64x32x32": 147, "64x64x32": 154}),
    (32, 128, 28): ({"128x64x32": 232, "64x128x32": 239, "128x128x64": 245}, {"64x32x32": 149, "64x64x32": 155}),
    (32, 256, 14): ({"128x64x32": 239, "64x128x32": 247, "128x128x64": 258}, {"64x32x32": 150, "64x64x32": 148}),
    (32, 512, 7): ({"128x64x32": 192, "64x128x32": 205, "128x128x64": 211}, {"64x32x32": 126, "64x64x32": 128}),
    (8, 64, 224): ({"128x64x32": 240}, {"64x32x32": 252, "64x64x32": 225}),
    (2, 320, 64): ({"128x64x32": 253, "64x128x32": 223, "128x128x64": 242}, {"64x32x32": 220, "64x64x32": 190}),
    (8, 256, 50): ({"128x64x32": 320, "64x128x32": 325, "128x128x64": 316}, {"64x32x32": 254, "64x64x32": 214}),
}


@pytest.mark.parametrize("images, channels, extent", MEASURED)
def test_tiles_with_a_halo_are_near_the_fastest(images, channels, extent):
    sizes = f"images {images} channels {channels} out_channels {channels} groups 1 last"
    forward, weight = MEASURED[images, channels, extent]
    for which, tiles in (("forward", forward), ("input", forward), ("weight", weight)):
        plan = conv_routes.plan("h200", f"{which} f16 1x{extent}x{extent} by 1x3x3 pad 0x1x1 {sizes}")
        kernel, tile = plan.split()[:2]
        assert kernel == ("halo_conv_weight" if which == "weight" else "halo_conv"), plan
        assert which == "weight" or " buffers 0 " in plan, plan  # a packed weight
        assert tiles[tile] >= 0.95 * max(tiles.values()), plan


def test_loops_that_a_device_ends_leave_no_kernel():
    """Of groups, where even one tap of one channel takes more turns than the device's loops may have."""
    profile = torch_aule._C.device_profile(conv_routes.DEVICES["h200"][0] | {"max_loop_iterations": 1})
    axes = family_plans.pool_axes("1x9x9 by 1x3x3")
    route = torch_aule._C.conv_route(profile, {}, "forward", "f32", False, axes, [1, 8, 8, 2], 1 << 20, "highest", {})
    assert route == "none: a loop is too long"


def test_routes_ask_no_device():
    line = next(iter(TABLE))
    plan_table.check_asks_no_device("conv_routes", line, TABLE[line]["h200"], **without("cooperative_matrix"))
