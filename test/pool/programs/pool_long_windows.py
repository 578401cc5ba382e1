"""Pooling and resampling of float64 and int64 where a device ends loops early."""

import torch
import torch.nn.functional as F

import torch_aule  # noqa: F401

torch.manual_seed(7)
calls = [
    lambda x: F.avg_pool2d(x, (70, 3), (3, 2), (7, 1)),
    lambda x: F.max_pool2d(x, (70, 3), (3, 2), (7, 1)),
    lambda x: F.avg_pool2d(x, (3, 70), ceil_mode=True, count_include_pad=False),
]
adaptive = [lambda x: F.adaptive_avg_pool2d(x, (2, 3)), lambda x: F.adaptive_max_pool2d(x, (2, 3))]
for dtype in (torch.float64, torch.int64):
    if dtype == torch.float64:
        x = torch.randn(2, 3, 90, 150, dtype=dtype)
    else:
        x = torch.randint(-1 << 40, 1 << 40, (2, 3, 90, 150)) * 4096
    for call in calls + adaptive * (dtype == torch.float64):
        torch.testing.assert_close(call(x.to("aule")).cpu(), call(x), rtol=1e-13, atol=1e-13)
x = torch.randn(1, 2, 90, 150, dtype=torch.float64)
for call in [
    *calls,
    *adaptive,
    lambda x: F.interpolate(x, (3, 4), mode="bilinear"),
    lambda x: F.interpolate(x, (200, 310), mode="bilinear"),
]:
    ours, theirs = x.to("aule").requires_grad_(), x.clone().requires_grad_()
    out = call(theirs)
    seed = torch.randn_like(out)
    out.backward(seed)
    call(ours).backward(seed.to("aule"))
    torch.testing.assert_close(ours.grad.cpu(), theirs.grad, rtol=1e-12, atol=1e-12)
