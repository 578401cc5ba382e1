"""Ctrl-C while the host waits for the device."""

import sys

import pytest
import torch

from helpers import check_program

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="os.kill ends the process on Windows"),
    pytest.mark.skipif(
        torch.aule.get_device_properties().kind != "cpu",
        reason="a GPU is done with all that may be in flight before a signal can arrive",
    ),
]

WAITS = [
    "item",
    "cpu",
    "strided_cpu",
    "pinned",
    "nonzero",
    "synchronize",
    "stream",
    "event",
    "elapsed_time",
    "empty_cache",
    "recording",
]
UNDIVIDED = {"TORCH_AULE_TIME_BUDGET_MS": "100000"}  # else what may be in flight takes a second


@pytest.mark.sampled(5)
@pytest.mark.parametrize("wait", WAITS)
def test_a_wait_ends_with_keyboard_interrupt(wait):
    assert float(check_program("interrupted", wait, **UNDIVIDED)) < 2


@pytest.mark.parametrize("program", ["handled_during_a_wait", "interrupted_beside_a_thread"])
def test_what_does_not_end_a_wait(program):
    assert check_program(program, **UNDIVIDED).strip() == "good"
