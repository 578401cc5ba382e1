"""Settings of the code generator, patched as those of ``torch._inductor.config``; they are part of caches' keys."""

import sys

from torch.utils._config_module import install_config_module

# Vector accesses of 16 bytes where indices allow.
vectors: bool = True
# A row of a reduction is kept in registers, so that it is read once.
persistent_reductions: bool = True

install_config_module(sys.modules[__name__])
