"""The probe of cooperative-matrix layouts (matrix_layout): what it claims must describe a bijection."""

import pytest

import torch_aule


@pytest.mark.parametrize("bfloat16", [False, True])
def test_layout_is_a_bijection(bfloat16):
    properties = torch_aule._C.device_properties(0)
    layout = torch_aule._C.matrix_layout(0, bfloat16)
    if not layout["usable"]:
        assert not properties["cooperative_matrix"] or not properties["bfloat16" if bfloat16 else "float16"]
        pytest.skip("the device has no 16-bit cooperative matrices with float32 accumulators")
    assert layout["subgroup"] == properties["subgroup_size"]
    if not layout["known"]:
        pytest.skip("the device keeps accumulators in a way that the kernels do not follow")

    def nibble(word, i):
        return word >> (4 * i) & 15

    seen = set()
    for lane in range(layout["subgroup"]):
        group, inside = divmod(lane, layout["lane_div"])
        for e in range(layout["elements"]):
            row = group * layout["lane_row"] + nibble(layout["rows"], e)
            col = inside * layout["lane_col"] + nibble(layout["cols"], e)
            assert nibble(layout["lane_row_offsets"], nibble(layout["elem_lane_rows"], e)) == nibble(layout["rows"], e)
            seen.add((row, col))
    assert seen == {(r, c) for r in range(layout["m"]) for c in range(layout["n"])}
    if layout["acc_is_a_operand"]:
        assert sorted(nibble(layout["a_elem"], e) for e in range(layout["elements"])) == list(range(layout["elements"]))
