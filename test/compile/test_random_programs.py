"""Random programs give the same on the device and on the CPU: a short run of random_programs.py, always the same ones.

TORCH_AULE_RANDOM_PROGRAMS=10000 makes it the long one (or run ``python test/support/random_programs.py --jobs N``).
"""

import os

import pytest

from random_programs import check

COUNT = int(os.environ.get("TORCH_AULE_RANDOM_PROGRAMS", "80"))
PARTS = 8


@pytest.mark.sampled(3)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.timeout(max(1200, 4 * COUNT))
def test_programs_give_what_the_cpu_gives(device, part):
    failures = [found for seed in range(part, COUNT, PARTS) if (found := check(seed))]
    assert not failures, f"{len(failures)} programs differ; the first:\n{failures[0]}"
