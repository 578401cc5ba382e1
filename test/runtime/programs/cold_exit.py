"""Ends while threads compile what it has launched: at once, or after a fork."""

import os
import sys

import torch

import torch_aule  # noqa: F401

x = torch.arange(1000.0, device="aule")
results = [f(x) for f in (torch.sin, torch.cosh, torch.erf, torch.lgamma, torch.digamma, torch.sort, torch.frac)]
results.append((x.view(50, 20) @ x.view(20, 50)).softmax(0))
if "fork" in sys.argv:
    child = os.fork()
    if child == 0:
        sys.exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert results[-2].sum().item() == 0
    results.append(x.expm1())
print("ends")
