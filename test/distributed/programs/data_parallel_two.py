"""Several devices: the error names the way out."""

import torch

import torch_aule  # noqa: F401

assert torch.aule.device_count() == 2
model = torch.nn.DataParallel(torch.nn.Linear(3, 2).to("aule:0"))
try:
    model(torch.ones(4, 3))
except RuntimeError as error:
    assert "DistributedDataParallel" in str(error), error
else:
    raise AssertionError("no error")
