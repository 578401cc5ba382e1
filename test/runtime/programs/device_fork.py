"""A child of a process that has used the device cannot, and is told so."""

import os

import torch

import torch_aule  # noqa: F401

torch.ones(2, device="aule").cpu()
pid = os.fork()
if pid == 0:
    code = 1
    try:
        assert torch.aule._is_in_bad_fork()
        torch.ones(2, device="aule")
    except RuntimeError as e:
        code = 0 if "fork" in str(e) else 2
    os._exit(code)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
assert not torch.aule._is_in_bad_fork() and torch.ones(2, device="aule").sum().item() == 2
