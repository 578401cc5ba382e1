"""No memory for the stream's own chunks."""

import torch

import torch_aule  # noqa: F401
from torch_aule import _C

x, host = torch.zeros(10, device="aule"), torch.arange(10.0)
_C.inject_allocation_failures(1 << 20, 0)
for _ in range(1000):
    try:
        x.add_(1)  # as a rule it is recorded only, so that the copy must be staged
        x.copy_(host)
    except torch.OutOfMemoryError as e:
        assert "MiB" in str(e) and "free" in str(e), e
        break
else:
    raise SystemExit("no error")
_C.inject_allocation_failures(0, 0)
x.copy_(host)
assert torch.equal((x + 1).cpu(), host + 1)
