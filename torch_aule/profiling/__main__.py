"""``python -m torch_aule.profiling``."""

import sys

from torch_aule.profiling import main

sys.exit(main())
