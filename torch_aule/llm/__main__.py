"""``python -m torch_aule.llm``."""

import sys

from torch_aule.llm.commands import main

sys.exit(main())
