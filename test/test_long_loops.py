"""Drivers that end a shader's loops early: the limit is found when the device is created, and planners may be given
another one."""

import pytest
import torch

from helpers import check_python

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
    shown = check_python(SHOW, AULE_MAX_LOOP_ITERATIONS=given).split()
    assert shown == [given, str(driver)]


@pytest.mark.parametrize("given", [None, "", "many", "-5"])
def test_without_a_number_planners_obey_the_driver(device, given):
    shown = check_python(SHOW, AULE_MAX_LOOP_ITERATIONS=given).split()
    assert shown[0] == shown[1]


def test_asking_for_properties_does_not_create_the_device():
    """The limit is then the one assumed; afterwards it is the device's own."""
    check_python(
        "import torch, torch_aule\n"
        "first = torch.aule.get_device_properties()\n"
        "assert not first.created and not torch.aule.is_initialized()\n"
        "assert first.driver_loop_limit == (65535 if first.kind == 'cpu' else 0)\n"
        "torch.empty(1, device='aule')\n"
        "assert torch.aule.get_device_properties().created\n"
    )


def test_info_shows_the_limit(device):
    text = check_python(
        "import runpy, torch_aule; runpy.run_module('torch_aule.info', run_name='__main__')",
        AULE_MAX_LOOP_ITERATIONS="4321",
    )
    assert "kernels plan with 4321" in text and "assumed" not in text
