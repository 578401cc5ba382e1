"""No visible device: what needs none works, and the rest says why."""

import torch

import torch_aule

assert not torch.aule.is_available() and torch.aule.device_count() == 0
assert torch.aule.unavailable_reason()
torch.manual_seed(0)
torch.aule.empty_cache()
torch.aule.manual_seed(1)
torch.aule.seed_all()
assert torch.aule.memory_allocated.__name__ and not torch.aule.is_bf16_supported()
for call in (lambda: torch.ones(2, device="aule"), torch.aule.get_device_name, lambda: torch.ones(2).aule()):
    try:
        call()
    except RuntimeError as e:
        assert "aule" in str(e).lower() or "vulkan" in str(e).lower(), e
    else:
        raise SystemExit("no error")
torch_aule.print_backend_info()
