"""Grids past 32,768 and 65,535 workgroups, with neighbours of the results that nothing may write.

A linear grid is launched in rows of 32,768 workgroups (linear_grid in csrc/core/access.h). Kernels whose every
workgroup has work count on exactly as many as were asked for: eager ones of lavapipe, users' own, generated ones.
"""

import os
import random
import re

import pytest
import torch
import torch.nn.functional as F
from torch._inductor.utils import run_and_get_code

import torch_aule
from helpers import check_program

ROW = 32768
GROUPS = (ROW + 1, 40_001, 65_537)
LONG = os.environ.get("TORCH_AULE_LONG_TESTS", "0") not in ("", "0")
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


COUNTS = """
#include <aule/common/indexing.glsl>
layout(buffer_reference, scalar) buffer Counts { uint v[]; };
params { Counts counts; };
void main() { atomicAdd(counts.v[linear_group()], 1u); }
"""


@pytest.mark.parametrize("groups", [*GROUPS, ROW, 2 * ROW, 100_000])
def test_as_many_workgroups_as_were_asked_for(device, groups):
    count = torch_aule.compile_shader(COUNTS, name="counts_groups", group_size=(1,))
    result = Guarded((groups,), torch.int32)
    for _ in range(3):  # of a kernel whose cost is unknown, the rows and the rest may be launched apart
        result.tensor.zero_()
        count(result.tensor, groups=groups)
        assert bool((result.tensor == 1).all())
    result.check_neighbours()


def test_grids_that_are_cut_into_submissions(device):
    """A time budget of a microsecond: rows are submissions of their own, the shorter last one too."""
    check_program("cut_grids", COUNTS, TORCH_AULE_TIME_BUDGET_MS="0.001")


# -- generated kernels: the form, what is computed, and the shapes that have a number of workgroups


# name -> where it is taken, a text of its code, what is computed, and the shape of so many workgroups
FORMS = {
    # lavapipe's: four blocks of 64 elements for a workgroup; a row; eight columns
    "blocks": ("lavapipe", "load_block(", lambda x: x * 2 + 1, lambda groups: (groups, 256)),
    "blocks of two sizes": ("lavapipe", "first, 4, false", lambda x: x.half() + 1, lambda groups: (groups, 256)),
    "lanes share a row": ("lavapipe", "load_pairs(", lambda x: torch.softmax(x, 1), lambda groups: (groups, 16)),
    "lanes have columns": ("lavapipe", "load_lanes(", lambda x: (x * x).sum(0), lambda groups: (3, groups * 8)),
    "a row each": ("any", "if (linear_invocation() >=", lambda x: x.sum(1), lambda groups: (groups * 64 - 5, 3)),
    "elements": ("lavapipe", "linear_invocation() * 1ul", lambda x: x.sin() * 3, lambda groups: (groups * 64 - 3,)),
    # GPUs'
    "vectors": ("gpu", "linear_invocation() * 4ul", lambda x: x * 2 + 1, lambda groups: (groups * 1024 - 4,)),
    "part of a subgroup": ("gpu", "row_exists", lambda x: torch.softmax(x, 1), lambda groups: (groups * 128 - 1, 5)),
    "workgroup for a row": ("gpu", "_shared[", lambda x: x - x.mean(1, keepdim=True), lambda groups: (groups, 161)),
    "squares": ("gpu", "_tile[", lambda x: x.t() * 2, lambda groups: (groups * 32 - 1, 31)),
    "columns": ("gpu", "[v]", lambda x: x.sum(0), lambda groups: (2, groups * 1024)),
}


def workgroups(code: str) -> list[int]:
    """The number of workgroups of each launch in a module that Inductor wrote."""
    return [int(n) for n in re.findall(r"^ +\w+\(.*, (\d+)\)$", code, re.MULTILINE)]


def check_compiled(function, x) -> str:
    """`function` compiled, writing between guards, beside float64 on the CPU; the code."""
    reference = function(x.double())
    dtype = function(x[:1]).dtype
    result = Guarded(reference.shape, dtype)

    def run(out, x):
        out.copy_(function(x))

    # Inductor would write short reductions out as sums of elements.
    with torch._inductor.config.patch(unroll_reductions_threshold=1):
        _, code = run_and_get_code(torch.compile(run, dynamic=False), result.tensor, x.to("aule"))
    expected = reference.to(dtype).double()
    tolerance = 1e-5 if dtype.itemsize == 4 else 1e-2
    scale = max(1.0, expected.abs().max().item())  # long sums may end near zero
    torch.testing.assert_close(result.tensor.cpu().double(), expected, rtol=tolerance, atol=tolerance * scale)
    result.check_neighbours()
    return "\n".join(code)


def is_taken(request, where: str) -> bool:
    """Whether the device has kernels of that place; those of GPUs are made on a software device, too."""
    properties = torch.aule.get_device_properties()
    software = properties.kind == "cpu"
    if where == "gpu" and software:
        request.getfixturevalue("as_gpu")
    return where != "lavapipe" or (software and properties.min_subgroup_size == 8 and properties.subgroup_shuffle)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("groups", GROUPS if LONG else GROUPS[::2])
@pytest.mark.parametrize("form", FORMS)
def test_forms(device, request, fresh_compiler, form, groups):
    where, text, function, shape = FORMS[form]
    if not is_taken(request, where):
        pytest.skip("a form for software devices with subgroups of 8")
    code = check_compiled(function, torch.randn(shape(groups)))
    software = torch.aule.get_device_properties().kind == "cpu"
    if where != "any" or software:
        assert text in code and workgroups(code) == [groups], code


PROGRAMS = (
    lambda x: x * 2 + 1,
    lambda x: F.gelu(x).bfloat16(),
    lambda x: torch.softmax(x, 1),
    lambda x: F.layer_norm(x, x.shape[1:], eps=0.1),  # of two elements that are nearly the same, too
    lambda x: x.sum(1),
    lambda x: x.amax(0),
    lambda x: x.t() + x.shape[1],
    lambda x: x[:, 1:] - x[:, :-1],
    lambda x: x.abs().cumsum(1)[:, -1:] * x,
)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("where", ["lavapipe", "gpu"])
@pytest.mark.parametrize("number", range(6))
def test_random_programs(device, request, fresh_compiler, where, number):
    """Of 32,769 to 70,000 rows, which many forms have a workgroup for, or as many columns."""
    is_taken(request, where)
    pick = random.Random(torch.initial_seed() + number)
    rows, columns = pick.randint(ROW + 1, 70_000), pick.choice([2, 3, 5, 16, 17, 48, 64, 128, 130])
    if pick.random() < 0.3:
        rows, columns = columns, rows * pick.choice([1, 8])
    program = pick.randrange(len(PROGRAMS))
    print(f"program {program}, {rows} x {columns}")
    check_compiled(PROGRAMS[program], torch.randn(rows, columns))


# -- eager kernels


@pytest.mark.parametrize("groups", GROUPS)
def test_eager_kernels(device, groups):
    """Where they number their workgroups by linear_group(): beside float64, between guards."""
    x = torch.randn(groups, 16)
    on = x.to(device)
    rows = Guarded((groups, 16))
    torch.softmax(on, 1, out=rows.tensor)
    torch.testing.assert_close(rows.tensor.cpu().double(), torch.softmax(x.double(), 1), rtol=1e-5, atol=1e-6)
    sums = Guarded((groups,))
    torch.sum(on, 1, out=sums.tensor)
    torch.testing.assert_close(sums.tensor.cpu().double(), x.double().sum(1), rtol=1e-5, atol=1e-5)
    products = Guarded((groups, 64, 1))
    columns = x[:, :, None].expand(-1, -1, 4).reshape(groups, 64, 1)
    torch.bmm(columns.to(device), torch.full((groups, 1, 1), 2.0).to(device), out=products.tensor)
    assert torch.equal(products.tensor.cpu(), columns * 2)
    strided = Guarded((groups, 64))
    wide = torch.randn(64, groups)
    strided.tensor.copy_(wide.to(device).t())
    assert torch.equal(strided.tensor.cpu(), wide.t())
    for guarded in (rows, sums, products, strided):
        guarded.check_neighbours()
