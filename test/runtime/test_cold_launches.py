"""Kernels that are launched before they are compiled, in fresh processes whose every pipeline is cold.

The layers below Torch have tests of their own, with drivers that are slow or fail: test/cpp/cold_kernels.h.
"""

import os

import pytest

from helpers import check_program, without

pytestmark = pytest.mark.validated


def cold(tmp_path, *names):
    """A software device would compile at once, if it did not pass for a GPU."""
    caches = {"TORCH_AULE_CACHE_DIR": str(tmp_path), "MESA_SHADER_CACHE_DIR": str(tmp_path)}
    return {**caches, **without("cpu_kernels", *names)}


def test_results(device, tmp_path):
    counts = {
        check_program("cold_results", **cold(tmp_path, "pipeline_cache")),
        check_program("cold_results", **cold(tmp_path, "pipeline_cache", "compile_threads")),
    }
    assert len(counts) == 1  # every kernel is compiled once


@pytest.mark.parametrize("way", ["at once"] + (["fork"] if hasattr(os, "fork") else []))
def test_a_process_ends(device, tmp_path, way):
    assert "ends" in check_program("cold_exit", way, **cold(tmp_path))
