"""Ranks that are lost, that never come and that disagree: an error that names the collective, and no hang."""

import sys

import pytest

from ranks import check_ranks, run_ranks

posix = pytest.mark.skipif(sys.platform == "win32", reason="kills with a signal")
linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@posix
@pytest.mark.parametrize(
    "how", ["killed", "killed in all_reduce", "killed in backward", "killed, not destroyed", "hangs", "never comes"]
)
def test_lost_rank(how):
    *others, lost = run_ranks("distributed_lost_rank", 2, how)
    assert [end.status for end in others] == [0], others
    assert lost.status == (0 if how == "hangs" else -9), lost


@pytest.mark.parametrize("how", ["sync", "async"])
def test_out_of_memory(how):
    check_ranks("distributed_out_of_memory", 2, how)


@linux
@pytest.mark.parametrize("how", ["destroyed and aborted", "left", "left by both"])
def test_pending(how):
    check_ranks("distributed_pending", 2, how)


@posix
def test_forked():
    check_ranks("distributed_forked", 2)


def test_mismatch():
    check_ranks("distributed_mismatch", 2, TORCH_DISTRIBUTED_DEBUG="DETAIL")
