"""Distances by tiles, as on GPUs."""

import torch

import torch_aule  # noqa: F401

torch.manual_seed(1)
for dtype, tolerance in ((torch.float32, 1e-5), (torch.float16, 1e-3), (torch.bfloat16, 8e-3), (torch.float64, 1e-12)):
    for rows, columns, features in ((1, 1, 1), (16, 16, 16), (19, 33, 37), (5, 70, 2), (100, 3, 65)):
        x, y = torch.randn(3, rows, features).to(dtype), torch.randn(3, columns, features).to(dtype)
        for p in (0.0, 0.7, 1.0, 2.0, 3.0, float("inf")):
            mode = "donot_use_mm_for_euclid_dist"
            actual = torch.cdist(x.to("aule"), y.to("aule"), p, mode).cpu().double()
            expected = torch.cdist(x.double(), y.double(), p, mode)
            assert actual.shape == expected.shape
            error = ((actual - expected).abs().max() / expected.abs().max()).item()
            assert error < tolerance * max(1, 10 * (p == 0.7)), (dtype, rows, columns, features, p, error)
