"""Process groups over aule: every collective, groups beside each other, the order of streams, ranks that die."""

import pytest

from ranks import check_ranks


@pytest.mark.parametrize("ranks", [2, 3])
def test_collectives(ranks):
    check_ranks("distributed_collectives", ranks)
