"""Convolutions of thin groups as GPUs take them: weights summed by workgroups, in parts; against float64."""

import torch
import torch.nn.functional as F

import torch_aule  # noqa: F401
from helpers import RELATIVE_TOLERANCES, relative_error

print("seed", torch.seed())
CASES = [  # images, groups, channels and out channels of a group, extent, kernel, options
    (10, 24, 1, 1, (20, 21), (5, 5), dict(padding=2)),  # parts in slices, a row of taps less than a block
    (8, 20, 1, 1, (14, 14), (7, 7), dict(padding=3)),  # idle lanes
    (5, 16, 1, 1, (30, 32), (3, 3), dict(padding=1, stride=2)),
    (2, 6, 1, 1, (17, 33), (9, 21), dict(padding=(4, 10))),  # more blocks of taps than a workgroup has
    (6, 4, 8, 4, (14, 15), (3, 3), dict(padding=1)),
    (20, 5, 1, 2, (13, 7), (3, 3), dict(padding=1, dilation=(2, 1))),
    (70, 3, 1, 1, (301,), (4,), dict(padding=3)),
]
for images, groups, channels, outs, extent, kernel, options in CASES:
    conv = getattr(F, f"conv{len(extent)}d")
    options = dict(options, groups=groups)
    x, w = torch.randn(images, groups * channels, *extent), torch.randn(groups * outs, channels, *kernel)
    seed = torch.randn_like(conv(x, w, **options))
    for last, dtype in ((False, torch.float32), (True, torch.float16))[: len(extent)]:
        operands = [t.to(dtype).double().requires_grad_() for t in (x, w)]
        out = conv(*operands, **options)
        expected = [out, *torch.autograd.grad(out, operands, seed.to(dtype).double())]
        form = torch.channels_last if last else torch.contiguous_format
        leaves = [t.to("aule", dtype).contiguous(memory_format=form).requires_grad_() for t in (x, w)]
        grad = seed.to("aule", dtype)
        results = []
        for _ in range(2):
            out = conv(*leaves, **options)
            results.append([out, *torch.autograd.grad(out, leaves, grad)])
        for first, again, wanted in zip(*results, expected):
            assert torch.equal(first, again), "not deterministic"
            error = relative_error(first, wanted)
            assert error <= RELATIVE_TOLERANCES[dtype], (groups, channels, extent, kernel, dtype, last, error)
