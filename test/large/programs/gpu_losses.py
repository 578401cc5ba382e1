"""The cross entropy and its gradients, by kernels of GPUs."""

import torch
import torch.nn.functional as F

import torch_aule  # noqa: F401
from helpers import does_without


def error(a, b):
    a, b = a.detach().cpu().double(), b.detach().double()
    return ((a - b).abs().max() / b.abs().max().clamp(min=0.1)).item()


TYPES = ((torch.float32, 2e-5), (torch.float16, 2e-3), (torch.bfloat16, 1e-2))
for dtype, tolerance in TYPES[: 1 if does_without("subgroup_arithmetic") else 3]:
    # The last is of more rows than workgroups.
    for rows, n in ((7, 1003), (1, 8), (300, 50), (5, 9000), (3, 13), (5000, 21)):
        for reduction in ("mean", "sum", "none")[: 3 if dtype is torch.float32 else 1]:
            x, target = (torch.randn(rows, n) * 3).to(dtype), torch.randint(n, (rows,))
            ignored = 4 if rows > 1 else -100
            target[rows // 2] = 4
            target[0] = 5 if rows > 1 else 4  # the mean over nothing is no number
            a, b = x.to("aule").requires_grad_(), x.double().requires_grad_()
            y = F.cross_entropy(a, target.to("aule"), reduction=reduction, ignore_index=ignored)
            z = F.cross_entropy(b, target, reduction=reduction, ignore_index=ignored)
            assert y.dtype == dtype and "cross_entropy_fwd" in str(y.grad_fn), y.grad_fn
            g = torch.randn_like(z).to(dtype)
            y.backward(g.to("aule"))
            z.backward(g.double())
            errors = error(y, z), error(a.grad, b.grad)
            assert max(errors) < tolerance, (dtype, rows, n, reduction, errors)
x, t = torch.randn(6, 40).double(), torch.randint(40, (6,))
a, b, there = x.float().to("aule").requires_grad_(), x.clone().requires_grad_(), t.to("aule")
for q, target in ((a, there), (b, t)):  # a gradient's gradient
    (g,) = torch.autograd.grad(F.cross_entropy(q, target), q, create_graph=True)
    g.pow(2).sum().backward()
assert error(a.grad, b.grad) < 1e-4
with torch.autocast("aule", dtype=torch.bfloat16):
    assert F.cross_entropy(a.to(torch.bfloat16), there).dtype == torch.float32
nothing, a.grad = torch.full((6,), -100, device="aule"), None
loss = F.cross_entropy(a, nothing)
loss.backward()
assert loss.isnan().item() and (a.grad == 0).all().item()
# Where PyTorch has rules of its own, it is log_softmax and nll_loss.
torch.testing.assert_close(
    torch.func.vmap(F.cross_entropy)(a.detach().expand(2, 6, 40), there.expand(2, 6)).cpu(),
    F.cross_entropy(x, t).float().expand(2),
)
b.grad = None
F.cross_entropy(b, t).backward()
assert error(torch.func.grad(lambda x: F.cross_entropy(x, there))(a.detach()), b.grad) < 1e-5
torch.func.jvp(lambda x: F.cross_entropy(x, there), (a.detach(),), (a.detach(),))
torch.library.opcheck(
    torch.ops.aule.cross_entropy_fwd, (a, there, 1, -100, False), test_utils=("test_schema", "test_faketensor")
)
try:
    F.cross_entropy(a, torch.full((6,), 40, device="aule")).item()
except Exception as error:
    assert "cross_entropy_loss" in str(error), error
else:
    raise AssertionError("no error")
