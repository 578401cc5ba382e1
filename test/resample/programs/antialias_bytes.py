"""Antialiased resizing of bytes on a device without float64: at most two away from the CPU, and seldom."""

import torch
import torch.nn.functional as F

import torch_aule  # noqa: F401

for mode in ("bilinear", "bicubic"):
    for size in ((33, 41), (224, 224), (7, 300)):
        x = torch.randint(0, 256, (2, 3, 96, 130), dtype=torch.uint8)
        expected = F.interpolate(x, size, mode=mode, antialias=True).int()
        apart = (F.interpolate(x.to("aule"), size, mode=mode, antialias=True).cpu().int() - expected).abs()
        assert apart.max() <= 2 and (apart > 0).double().mean() < 0.01, (mode, size, apart.max(), apart.double().mean())
