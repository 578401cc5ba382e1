"""Without a loader the reason names it, and attention runs on the CPU."""

import warnings

import torch

import torch_aule

assert "Vulkan driver not detected" in torch.aule.unavailable_reason(), torch.aule.unavailable_reason()
q = torch.randn(1, 1, 4, 8)
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    torch_aule.flash_attention(q, q, q)
assert any("Falling back to CPU simulation backend" in str(w.message) for w in seen)
