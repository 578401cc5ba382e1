"""Drivers that end a shader's loops early: the limit is found when the device is created, and planners may be given
another one. A kernel that the driver cut all the same is an error."""

import pytest
import torch

from helpers import check_program, check_python, limited, without
from torch_aule import _C

pytestmark = pytest.mark.validated

SHOW = """
import torch, torch_aule
torch.empty(1, device="aule")
p = torch.aule.get_device_properties()
print(p.max_loop_iterations, p.driver_loop_limit)
"""


def test_limit_is_one_of_those_known(device):
    torch.empty(1, device=device)
    p = torch.aule.get_device_properties()
    if p.kind != "cpu":
        assert p.driver_loop_limit == 0
    else:  # lavapipe of Mesa 22.3, or one without a limit
        assert p.driver_loop_limit in (0, 65535)
    if "Mesa 26" in p.driver_info:
        assert p.driver_loop_limit == 0


@pytest.mark.parametrize("given", ["0", "1000", "70000"])
def test_planners_limit_can_be_set(device, given):
    driver = torch.aule.get_device_properties().driver_loop_limit
    shown = check_python(SHOW, TORCH_AULE_LIMITS=given and f"max_loop_iterations={given}").split()
    assert shown == [given, str(driver)]


@pytest.mark.parametrize("given", [None, "", "many", "-5"])
def test_without_a_number_planners_obey_the_driver(device, given):
    shown = check_python(SHOW, TORCH_AULE_LIMITS=given and f"max_loop_iterations={given}").split()
    assert int(shown[0]) == max(int(shown[1]) - 16, 0)  # the guard takes a few turns itself


def test_asking_for_properties_does_not_create_the_device():
    """The limit is then the one assumed; afterwards it is the device's own."""
    check_program("long_loops_properties")


def test_info_shows_the_limit(device):
    text = check_python(
        "import runpy, torch_aule; runpy.run_module('torch_aule.info', run_name='__main__')",
        **limited("max_loop_iterations=4321"),
    )
    assert "kernels plan with 4321" in text and "assumed" not in text


def test_the_guard_understands_every_kernel():
    rows = _C.loop_guard_of_kernels()
    assert len(rows) == len(_C.registered_kernels())
    assert not [f"{name}: {why}" for name, _, why in rows if why]
    assert sum(loops > 0 for _, loops, _ in rows) > len(rows) / 2


@pytest.mark.parametrize("off", [[], ["unified_memory"]], ids=["unified", "staged"])
def test_what_the_driver_cuts_is_an_error(device, off):
    """Planners are told that there is no limit; the guard knows better."""
    check_program("long_loops_cut", **limited("max_loop_iterations=0"), **without(*off))


def test_shaders_that_would_blind_the_guard_are_refused():
    from torch_aule.glsl.compile import compile_text
    from torch_aule.glsl.spirv import ShaderError, check_guard

    def check(declaration, body):
        head = f"#version 460\nlayout(local_size_x = 1) in;\n{declaration}\n"
        spirv, log = compile_text(f"{head}void main() {{ {body} }}")
        assert not log
        check_guard(spirv, "k")

    check("shared uint x;", "for (uint i = 0; i < x; ++i) if (x == 5) return; x = 3;")
    with pytest.raises(ShaderError, match="no descriptor set"):
        check("layout(binding = 0) buffer B { uint x[]; };", "x[0] = 1;")
