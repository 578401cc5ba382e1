"""Whether attention's kernels for matrix units can run, for tests that are about them."""

import pytest
import torch

import torch_aule

# Tiles that the compiler of a software device can take.
SMALL_SHAPES = {
    "attention_shape": "2,1,16,1,1",
    "attention_shape_dq": "2,2,16,1,2",
    "attention_shape_dkdv": "2,1,16,1,1",
}
ON_CPU = torch_aule._C.device_properties(0)["kind"] == "cpu"


def has_matrices(dtype, what="known"):
    """Whether there are cooperative matrices of `dtype`; `what`: "known" of known layout, "usable" of any."""
    layout = torch_aule._C.matrix_layout(0, dtype == torch.bfloat16)
    return layout[what] and torch_aule._C.device_properties(0)["max_push_constant_bytes"] >= 256


def matrix_dtypes(what):
    """float16 and bfloat16 as parameters, skipped where `has_matrices` says no."""
    of = " with a known layout" if what == "known" else ""
    return [
        pytest.param(
            dtype,
            marks=pytest.mark.skipif(
                not has_matrices(dtype, what), reason=f"the device has no cooperative matrices of {dtype}{of}"
            ),
        )
        for dtype in (torch.float16, torch.bfloat16)
    ]
