"""Two devices in one process: copies and their order, streams and events of both, training over both."""

import pytest

from helpers import check_program


@pytest.mark.validated
def test_copies():
    check_program("two_devices_copies", TORCH_AULE_VISIBLE_DEVICES="0,0")


def test_training():
    """Stages with micro-batches, and replicas, have one device's losses."""
    check_program("two_devices_training", TORCH_AULE_VISIBLE_DEVICES="0,0")
