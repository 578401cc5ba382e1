"""Grids past 32,768 and 65,535 workgroups, with neighbours of the results that nothing may write.

A linear grid is launched in rows of 32,768 workgroups (linear_grid in csrc/core/access.h). Kernels whose every workgroup
has work count on exactly as many as were asked for: eager ones of lavapipe, users' own, and generated ones.
"""

import random
import re

import pytest
import torch
import torch.nn.functional as F
from torch._inductor.utils import run_and_get_code

import torch_aule

ROW = 32768
GROUPS = (ROW + 1, 40_001, 65_537)
GUARD = 256  # elements before and after a result
LANES = "lanes.glsl"


class Guarded:
    """A tensor on the device between elements that must stay as they are."""

    def __init__(self, shape, dtype=torch.float32):
        size = torch.Size(shape).numel()
        self.all = torch.full((size + 2 * GUARD,), 77, dtype=dtype, device="aule")
        self.tensor = self.all[GUARD : GUARD + size].view(shape)
        self.tensor.fill_(55)

    def check_neighbours(self):
        assert bool((self.all[:GUARD] == 77).all())
        assert bool((self.all[-GUARD:] == 77).all())


# -- users' kernels: no bound, as a grid is said to be exact


@pytest.mark.parametrize("groups", [*GROUPS, ROW, 2 * ROW, 100_000])
def test_as_many_workgroups_as_were_asked_for(device, groups):
    count = torch_aule.compile_shader(
        """
        #include <aule/common/indexing.glsl>
        layout(buffer_reference, scalar) buffer Counts { uint v[]; };
        params { Counts counts; };
        void main() { atomicAdd(counts.v[linear_group()], 1u); }""",
        name="counts_groups", group_size=(1,),
    )  # fmt: skip
    result = Guarded((groups,), torch.int32)
    result.tensor.zero_()
    count(result.tensor, groups=groups)
    assert bool((result.tensor == 1).all())
    result.check_neighbours()


# -- generated kernels: the form, what is computed, and the shapes that have a number of workgroups


def _rows(n):
    return lambda groups: (groups, n)


FORMS = {
    # lavapipe's: blocks of 64 elements, four for a workgroup; rows; eight columns; an invocation for each row
    "blocks": ("lavapipe", lambda x: x * 2 + 1, lambda groups: (groups, 256)),
    "blocks of two sizes": ("lavapipe", lambda x: (x.abs() + 0.5).bfloat16(), lambda groups: (groups, 256)),
    "lanes share a row": ("lavapipe", lambda x: torch.softmax(x, 1), lambda groups: (groups, 16)),
    "lanes have columns": ("lavapipe", lambda x: (x * x).sum(0), lambda groups: (3, groups * 8)),
    "a row each": ("any", lambda x: x.sum(1), lambda groups: (groups * 64 - 5, 3)),
    "elements": ("any", lambda x: torch.sin(x) * 3, lambda groups: (groups * 64 - 3,)),
    # GPUs'
    "vectors": ("gpu", lambda x: x * 2 + 1, lambda groups: (groups * 1024 - 4,)),
    "parts of a subgroup": ("gpu", lambda x: torch.softmax(x, 1), lambda groups: (groups * 64 - 1, 16)),
    "a workgroup for a row": ("gpu", lambda x: x - x.mean(1, keepdim=True), lambda groups: (groups, 161)),
    "squares": ("gpu", lambda x: x.t().contiguous() * 2, lambda groups: (groups * 32 - 1, 31)),
    "columns": ("gpu", lambda x: x.sum(0), lambda groups: (2, groups * 1024)),
}


def workgroups(code: str) -> list[int]:
    """The number of workgroups of each launch in a module that Inductor wrote."""
    return [int(n) for n in re.findall(r"^ +\w+\(.*, (\d+)\)$", code, re.MULTILINE)]


def check_compiled(function, x, seed: int = 0) -> list[int]:
    """`function` compiled, writing between guards, beside float64 on the CPU; the numbers of workgroups."""
    reference = function(x.double())
    dtype = function(x[:1]).dtype if x.dim() == 2 else x.dtype
    result = Guarded(reference.shape, dtype)

    def run(out, x):
        out.copy_(function(x))

    _, code = run_and_get_code(torch.compile(run, dynamic=False), result.tensor, x.to("aule"))
    got = result.tensor.cpu().double()
    torch.testing.assert_close(got, reference.to(dtype).double(), rtol=1e-2 if dtype.itemsize < 4 else 1e-5, atol=1e-5)
    result.check_neighbours()
    return workgroups("\n".join(code))


@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.parametrize("form", FORMS)
def test_forms(device, request, fresh_compiler, form, groups):
    where, function, shape = FORMS[form]
    if where == "gpu":
        request.getfixturevalue("as_gpu")
    made = check_compiled(function, torch.randn(shape(groups)))
    print(made)
