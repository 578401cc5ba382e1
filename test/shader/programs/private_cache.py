"""Makes the cache directory under the umask 022, by keeping SPIR-V or the driver's pipelines first."""

import os
import sys
from pathlib import Path

import torch

import torch_aule  # noqa: F401
from torch_aule import _C
from torch_aule.shader import spirv_cache

os.umask(0o022)
if sys.argv[1] == "spirv":
    spirv_cache.store(Path(_C.cache_directory()), "ab" * 32, b"spirv")
torch.ones(3, device="aule").add_(1).cpu()
_C.save_pipelines(0)
assert Path(_C.cache_directory()).is_dir()
