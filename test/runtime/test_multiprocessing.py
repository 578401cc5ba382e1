"""Tensors of the device in other processes."""

import multiprocessing

import pytest

from helpers import check_program


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_tensors_between_processes(method):
    """Every wait of the program has a timeout, so that a child that hangs is a failure."""
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system has no {method}")
    assert check_program("tensors_between_processes", method).strip() == "good"
