"""Gradients of gamma and Dirichlet draws in float32 arithmetic."""

import torch

import torch_aule  # noqa: F401

torch.manual_seed(3)
a = torch.cat([torch.rand(500) * 10 + 0.05, torch.rand(500) * 2000 + 8])
x = torch._standard_gamma(a).clamp_min(1e-3)
grad = torch.ops.aten._standard_gamma_grad
torch.testing.assert_close(
    grad(a.to("aule"), x.to("aule")).cpu().double(), grad(a.double(), x.double()), rtol=5e-3, atol=5e-3
)
a = torch.cat([torch.rand(500, 3) * 20 + 0.1, torch.rand(500, 3) * 900 + 7])
x = torch._sample_dirichlet(a).clamp(1e-3, 0.999)
total = a.sum(-1, True).expand_as(a).contiguous()
actual = torch._dirichlet_grad(x.to("aule"), a.to("aule"), total.to("aule")).cpu().double()
expected = torch._dirichlet_grad(x.double(), a.double(), total.double())
torch.testing.assert_close(actual, expected, rtol=2e-2, atol=1e-6)
