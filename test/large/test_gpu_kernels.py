"""Kernels that only GPUs take (a workgroup per row, 16-byte accesses), on whatever device there is, against the CPU."""

import pytest

from helpers import check_program, without


def check(name, subgroups=True):
    check_program(name, **without("cpu_kernels", *([] if subgroups else ["subgroup_arithmetic"])))


@pytest.mark.parametrize("subgroups", [True, False])
def test_unaligned_rows(subgroups):
    check("gpu_unaligned_rows", subgroups)


@pytest.mark.parametrize("subgroups", [pytest.param(True, marks=pytest.mark.validated), False])
def test_rows(subgroups):
    check("gpu_rows", subgroups)


@pytest.mark.validated
def test_columns():
    check("gpu_columns")


@pytest.mark.validated
def test_scans():
    check("gpu_scans")


@pytest.mark.validated
def test_transposes():
    check("gpu_transposes")


def test_elements():
    check("gpu_elements")


@pytest.mark.parametrize("subgroups", [pytest.param(True, marks=pytest.mark.validated), False])
def test_losses(subgroups):
    check("gpu_losses", subgroups)


@pytest.mark.validated
def test_distances():
    check("gpu_distances")


@pytest.mark.validated
def test_factors():
    check("gpu_factors")
