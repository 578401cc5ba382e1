"""Without a driver attention is computed on the CPU, and one warning says so."""

import warnings

import numpy as np
import torch

import torch_aule

assert not torch.aule.is_available()
rng = np.random.default_rng()
q, k, v = (rng.standard_normal((2, 3, 9, 8)).astype(np.float32) for _ in range(3))
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    out = torch_aule.flash_attention(q, k, v)
    again, lse = torch_aule.flash_attention(*(torch.from_numpy(t).requires_grad_() for t in (q, k, v)), return_lse=True)
said = [str(w.message) for w in seen if "Falling back to CPU simulation backend" in str(w.message)]
assert len(said) == 1 and torch.aule.unavailable_reason() in said[0] and "driver" in said[0], said
expected = torch.nn.functional.scaled_dot_product_attention(*map(torch.from_numpy, (q, k, v)), is_causal=True)
assert isinstance(out, np.ndarray) and np.abs(out - expected.numpy()).max() < 1e-5
again.sum().backward()
assert torch.allclose(again, expected, atol=1e-5) and lse.shape == (2, 3, 9)
try:
    torch.ones(1, device="aule")
except RuntimeError as error:
    assert torch.aule.unavailable_reason() in str(error), error
else:
    raise AssertionError("a tensor on a device that is not there")
