"""No Vulkan loader: the package imports, and says what is missing."""

import torch

import torch_aule  # noqa: F401

assert not torch.aule.is_available()
print(torch.aule.unavailable_reason())
try:
    torch.ones(2, device="aule")
except RuntimeError as e:
    assert "loader" in str(e), e
else:
    raise SystemExit("no error")
assert torch.ones(2).sum() == 2
