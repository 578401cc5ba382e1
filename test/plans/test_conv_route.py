"""Routes of convolutions on made-up devices, none of which is there: conv_routes.txt has them in words."""

import pytest

import conv_routes
import plan_table
from helpers import without

TABLE = conv_routes.read_table()


@pytest.mark.parametrize("problem", TABLE)
def test_route(problem):
    planned = {device: conv_routes.plan(device, problem) for device in conv_routes.DEVICES}
    assert planned == TABLE[problem]


def test_every_route_is_in_the_table():
    text = "\n".join(plan for plans in TABLE.values() for plan in plans.values())
    for words in (
        "grouped taps", "pointwise", "gathered", "products of pieces: 3", "products of pieces: 1", "direct", "columns",
        "blocks", ": gathered", ": pointwise", "none: a loop is too long",
    ):  # fmt: skip
        assert words in text, words


def test_routes_ask_no_device():
    line = next(iter(TABLE))
    plan_table.check_asks_no_device("conv_routes", line, TABLE[line]["h200"], **without("cooperative_matrix"))
