"""The device is lost: each call says so, and the process ends in peace."""

import gc

import torch

import torch_aule  # noqa: F401
from torch_aule import _C

x = torch.arange(1000.0, device="aule")
y = (x.clone() * 2).sum()
assert y.item() == 999000.0

side, shared = torch.Stream(device="aule"), torch.ones(10, device="aule")
shared.record_stream(side)
graph = None
if hasattr(torch.accelerator, "Graph"):  # torch 2.12 and later
    graph = torch.accelerator.Graph()
    with graph:
        shared += 1
    graph.replay()
_C.inject_device_lost(0)
messages = []
for _ in range(3):
    try:
        (x * 3).sum().item()
        torch.aule.synchronize()
    except RuntimeError as e:
        messages.append(str(e))
assert len(messages) == 3, messages
for m in messages:
    assert "lost" in m.lower(), m
print(messages[0])
del x, y, shared, side, graph  # destructors must not throw
gc.collect()
assert torch.ones(3).sum() == 3
