"""Transposing copies, by kernels of GPUs."""

import torch

import torch_aule  # noqa: F401

torch.manual_seed(2)
for shape in ((16, 16), (33, 70), (3, 100, 17), (2, 3, 40, 65), (5, 31, 16)):
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.uint8, torch.bool,
                  torch.complex64, torch.complex128):  # fmt: skip
        x = (torch.randn(shape, dtype=dtype if dtype.is_complex else None) * 50).to(dtype)
        here = x.to("aule")
        for dims in ((-1, -2), (0, -1)):
            copy = here.transpose(*dims).contiguous()
            assert copy.is_contiguous() and torch.equal(copy.cpu(), x.transpose(*dims)), (shape, dtype, dims)
        target = torch.zeros(*shape[:-2], shape[-1] + 3, shape[-2], dtype=dtype)
        there = target.to("aule")
        there[..., 2:-1, :].copy_(here.transpose(-1, -2))  # into a view
        target[..., 2:-1, :].copy_(x.transpose(-1, -2))
        assert torch.equal(there.cpu(), target), (shape, dtype)
