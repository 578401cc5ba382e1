"""Memory that ranks of one host share, beside gloo."""

import sys

import pytest

from helpers import without
from ranks import check_ranks

SMALL = {"TORCH_AULE_SHM_SLOT_KIB": "256"}  # many rounds of small tensors


@pytest.mark.parametrize("ranks", [2, 3])
def test_shared(ranks):
    check_ranks("distributed_shared", ranks, **SMALL)


def test_copied_through_a_second_buffer():
    """Of a device that cannot import memory of the host."""
    check_ranks("distributed_shared", 3, **without("external_memory_host"), **SMALL)


@pytest.mark.parametrize("ranks,elements", [(2, 11_000_003), (3, 5_000_003)])
def test_large(ranks, elements):
    """Copies beside kernels, in several groups of rounds."""
    check_ranks("distributed_large", ranks, str(elements))


def test_more_groups_than_places():
    """With 1 GiB of memory all places together have 64 MiB."""
    check_ranks("distributed_large", 2, "20000003", TORCH_AULE_LIMITS="device_heap_bytes=1GiB")


@pytest.mark.parametrize("ranks", [2, 3])
def test_late(ranks):
    """The host is free while a stream beside the default one waits for a collective."""
    check_ranks("distributed_late", ranks)


def test_not_shared():
    """The same by gloo."""
    check_ranks("distributed_shared", 2, **without("shm"))


@pytest.mark.skipif(sys.platform != "linux", reason="by gloo, ranks that call different things end at std::terminate")
def test_mistakes():
    outputs = check_ranks("distributed_shared", 2, "mistakes")
    for mistake in ("size", "nothing", "operator", "collective", "dtype"):
        assert any(f"{mistake}: " in line and " called " in line for o in outputs for line in o.splitlines()), outputs
