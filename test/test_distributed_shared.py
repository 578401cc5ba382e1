"""Memory that ranks of one host share, beside gloo."""

import sys

import pytest

from ranks import check_ranks


@pytest.mark.parametrize("ranks", [2, 3])
def test_shared(ranks):
    check_ranks("distributed_shared", ranks, timeout=100)


def test_copied_through_a_second_buffer():
    """Of a device that cannot import memory of the host."""
    check_ranks("distributed_shared", 2, TORCH_AULE_DISABLE_EXTERNAL_MEMORY_HOST="1", timeout=100)


def test_not_shared():
    """The same by gloo."""
    check_ranks("distributed_shared", 2, TORCH_AULE_DISABLE_SHARED_MEMORY="1", timeout=100)


@pytest.mark.skipif(sys.platform != "linux", reason="by gloo, ranks that call different things end at std::terminate")
def test_mistakes():
    outputs = check_ranks("distributed_shared", 2, "mistakes")
    for mistake in ("size", "nothing", "operator", "collective", "dtype"):
        assert any(f"{mistake}: " in line and " called " in line for o in outputs for line in o.splitlines()), outputs
