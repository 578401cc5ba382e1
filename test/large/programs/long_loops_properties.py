"""The limit of loops is assumed until the device is created."""

import torch

import torch_aule  # noqa: F401

first = torch.aule.get_device_properties()
assert not first.created and not torch.aule.is_initialized()
assert first.driver_loop_limit == (65535 if first.kind == "cpu" else 0)
torch.empty(1, device="aule")
assert torch.aule.get_device_properties().created
