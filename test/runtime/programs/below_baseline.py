"""On a driver that lacks what every device must have: the doctor and the first tensor name it, and what to do."""

import sys

import torch

import torch_aule
from torch_aule import doctor

lacks = "SwiftShader Device (Subzero) by SwiftShader driver lacks shaderInt64, storageBuffer16BitAccess, " \
    "storageBuffer8BitAccess; "  # fmt: skip
advice = "update its driver, or use another device"
reason = torch.aule.unavailable_reason()
assert not torch.aule.is_available() and reason.startswith(lacks) and advice in reason[len(lacks) :], reason
try:
    torch.ones(1, device="aule")
except torch_aule.VulkanInitError as error:
    assert str(error).endswith(reason), error
else:
    raise AssertionError("a tensor on a device that every kernel would fail on")
sys.exit(doctor.main([]))
