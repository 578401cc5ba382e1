"""Plans of matrix products on made-up devices, none of which is there: matmul_plans.txt has them in words."""

import pytest

import matmul_plans
import plan_table
from helpers import without

TABLE = matmul_plans.read_table()


@pytest.mark.parametrize("product", TABLE)
def test_plan(product):
    planned = {device: matmul_plans.plan(device, product) for device in matmul_plans.DEVICES}
    assert planned == TABLE[product]


def test_every_kernel_has_a_plan_in_the_table():
    words = {word for plans in TABLE.values() for plan in plans.values() for word in plan.split()}
    kernels = "scalar simd simd_unrolled gemv gemv_wide gemv_coopmat simt simt_large simt_splits coopmat int8 bf16x3"
    assert words >= set(f"{kernels} long_k dense_out widened aligned_rows implicit_gemm opaque ordered padded".split())


def test_plans_ask_no_device():
    line = "f16 m4096 n4096 k4096 b:col"
    plan_table.check_asks_no_device(
        "matmul_plans",
        line,
        TABLE[line]["h200"],
        TORCH_AULE_OVERRIDES="float32_pieces=float16",
        **without("cooperative_matrix"),
    )
