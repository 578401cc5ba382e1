"""``python -m torch_aule.doctor``."""

import sys

from torch_aule.doctor import main

sys.exit(main())
