"""A model that no buffer could hold, on a device with buffers of 64 MiB: it loads, runs and gives the right numbers.

The bound is that of float32 sums: each of k products and k additions rounds by 2^-24 of the terms' sizes, and the
errors of a layer's input pass through its weights.
"""

import io

import torch

import torch_aule

SIDE, LAYERS, ROWS = 1792, 7, 3
LARGEST = torch_aule._C.device_limits(0)["max_buffer_bytes"]

saved = io.BytesIO()
torch.manual_seed(torch.seed() % 2**32)
reference = torch.nn.Sequential(*(torch.nn.Linear(SIDE, SIDE) for _ in range(LAYERS)))
torch.save(reference.state_dict(), saved)
saved.seek(0)
model = torch.nn.Sequential(*(torch.nn.Linear(SIDE, SIDE, device="aule") for _ in range(LAYERS)))
model.load_state_dict(torch.load(saved, map_location="aule", weights_only=True))
assert sum(p.numel() * p.element_size() for p in model.parameters()) > LARGEST == 64 << 20

x = torch.randn(ROWS, SIDE)
found = model(x.to("aule")).cpu().double()
value, error, gamma = x.double(), torch.zeros(ROWS, SIDE, dtype=torch.float64), (SIDE + 2) * 2.0**-24
for layer in reference:
    weight, bias = layer.weight.double(), layer.bias.double()
    sizes = (value.abs() + error) @ weight.abs().T + bias.abs()
    error = error @ weight.abs().T + gamma * sizes
    value = value @ weight.T + bias
assert ((found - value).abs() <= error).all()
