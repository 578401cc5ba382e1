"""Compiles a function where Triton is not installed."""

import sys

sys.modules["triton"] = None  # type: ignore[assignment]  # its import fails

import torch  # noqa: E402
from torch.utils._triton import has_triton  # noqa: E402

import torch_aule  # noqa: E402, F401

x = torch.randn(50)
assert torch.equal(torch.compile(lambda t: t.relu() * 2, fullgraph=True)(x.to("aule")).cpu(), x.relu() * 2)
assert not has_triton() and not any(name.startswith("triton.") for name in sys.modules)
print("well")
