"""Attention over jagged tensors by PyTorch's math path, with gradients and without: prints the errors."""

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import torch_aule  # noqa: F401


def jagged(requires_grad):
    values, offsets = torch.randn(8, 2, 16, device="aule"), torch.tensor([0, 3, 8], device="aule")
    made = torch.nested.nested_tensor_from_jagged(values.requires_grad_(requires_grad), offsets)
    return made.transpose(1, 2)


for requires_grad in (True, False):
    q, k, v = (jagged(requires_grad) for _ in range(3))
    try:
        with sdpa_kernel(SDPBackend.MATH):  # which makes nested tensors of the strided layout
            F.scaled_dot_product_attention(q, k, v)
    except (NotImplementedError, RuntimeError) as error:
        print(type(error).__name__, error)
    else:
        raise AssertionError("accepted")
