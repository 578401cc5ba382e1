"""``torch.ops.aule._test_multiply``: the least operator that has all parts of one. csrc/c_api/c_api.cpp has its C form.

Schema, function, fake kernel and gradient: test/compat/test_skeleton.py takes it through each of them.
"""

from __future__ import annotations

import torch

_library = torch.library.Library("aule", "FRAGMENT")
_library.define("_test_multiply(Tensor input) -> Tensor")


@torch.library.impl(_library, "_test_multiply", "CompositeExplicitAutograd")
def _multiply(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@torch.library.register_fake("aule::_test_multiply")
def _fake(x):
    return torch.empty_like(x)


torch.library.register_autograd("aule::_test_multiply", lambda context, grad: grad * 2)
