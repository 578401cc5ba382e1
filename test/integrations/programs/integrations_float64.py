"""With TORCH_AULE_DISABLE=float64 diffusers computes rotary positions in float32, as on other such devices."""

import copy

import torch

import diffusion_families
import torch_aule.integrations

assert not torch.aule.get_device_properties().float64
torch.manual_seed(0)
model, inputs = diffusion_families.DIFFUSERS["flux"]()
on_device = copy.deepcopy(model).to("aule")
with torch.no_grad():
    expected = model(**inputs).sample
    actual = on_device(**{name: value.to("aule") for name, value in inputs.items()}).sample.cpu()
error = (actual - expected).abs().max() / expected.abs().max()
assert expected.std() > 1e-3 and error < 1e-4, error
(row,) = (row for row in torch_aule.integrations.status() if row.package == "diffusers")
assert row.state == "applied"
