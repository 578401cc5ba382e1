"""A rank of the progressive example's L5, whose problem lies in a folder."""

from __future__ import annotations

import sys

from torch_aule.examples import _levels

_levels._rank(int(sys.argv[1]), int(sys.argv[2]), sys.argv[4], runs=1)
