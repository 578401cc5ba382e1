"""`import torch` loads torch_aule by its entry point, or does not.

The argument: True or False, whether it registers the device then; `explicit` imports torch_aule before torch.
"""

import sys

import entry_point  # noqa: F401

expected = sys.argv[1]
if expected == "explicit":
    import torch_aule  # noqa: F401

import torch

registered = hasattr(torch, "aule")
assert expected in ("explicit", str(registered)), registered

import torch_aule

assert torch.aule.is_available() and torch_aule.print_backend_info
assert torch_aule._C.device_count() and torch.ones(2, device="aule").sum().item() == 2
