"""Connectionist temporal classification with a workgroup for a sequence, as on GPUs."""

import torch
import torch.nn.functional as F

import torch_aule  # noqa: F401

torch.manual_seed(2)
for steps, batch, classes, longest in ((30, 3, 5, 4), (700, 2, 9, 200), (1100, 1, 4, 515)):
    for dtype in (torch.float32, torch.float64):
        x = torch.randn(steps, batch, classes, dtype=dtype).log_softmax(-1)
        targets = torch.randint(1, classes, (batch, longest))
        frames, lengths = torch.full((batch,), steps), torch.randint(longest // 2, longest + 1, (batch,))
        frames[0] -= 3
        results = []
        for device, wide in (("cpu", torch.float64), ("aule", dtype)):
            leaf = x.detach().to(device, wide).requires_grad_()
            out = F.ctc_loss(leaf, targets.to(device), frames, lengths, reduction="none")
            results.append((out.detach().cpu(), torch.autograd.grad(out.sum(), leaf)[0].cpu()))
        for e, a, most in zip(*results, (3e-6, 3e-3)):  # of a loss, of a gradient: see test_loss_ctc.py
            error = ((a.double() - e).abs().max() / e.abs().max()).item()
            assert error < (1e-9 if dtype == torch.float64 else most), (steps, batch, classes, longest, dtype, error)
