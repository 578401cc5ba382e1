"""Norms and softmax of rows, by kernels of GPUs."""

import torch
import torch.nn.functional as F

import torch_aule  # noqa: F401

torch.manual_seed(1)


def error(a, b):
    a, b = a.detach().cpu().double(), b.detach().double()
    assert not a.isnan().any()
    return ((a - b).abs().max() / b.abs().max().clamp(min=1e-30)).item()


def functions(n):
    yield "layer_norm", lambda x, w, b: F.layer_norm(x, (n,), w, b)
    yield "rms_norm", lambda x, w, b: F.rms_norm(x, (n,), w, 1e-5) + b.sum()
    yield "softmax", lambda x, w, b: x.softmax(-1) * w + b
    yield "log_softmax", lambda x, w, b: x.log_softmax(-1) * w + b


for dtype, tolerance in ((torch.float32, 5e-5), (torch.float16, 1e-2), (torch.bfloat16, 6e-2)):
    # Rows that fill their workgroup, that end within it, of no whole quads, and kept in no registers.
    for rows, n in ((7, 512), (70, 40), (3, 50), (5, 1026), (2, 33000))[: 5 if dtype is torch.float32 else 3]:
        x, w, b, g = (torch.randn(s).to(dtype) for s in ((rows, n), (n,), (n,), (rows, n)))
        x = x + 3
        for name, function in functions(n):
            here = [t.to("aule").requires_grad_() for t in (x, w, b)]
            there = [t.double().requires_grad_() for t in (x, w, b)]
            y, z = function(*here), function(*there)
            y.backward(g.to("aule"))
            z.backward(g.double())
            errors = [error(y, z)] + [error(p.grad, q.grad) for p, q in zip(here, there)]
            assert max(errors) < tolerance, (name, dtype, rows, n, errors)
far = torch.randn(3, 4096) + 3000
far[1, 0] = 9000
assert error(F.layer_norm(far.to("aule"), (4096,)), F.layer_norm(far.double(), (4096,))) < 1e-3
# Half types' long rows, more of them than workgroups; weights of their own dtype, or none.
for rows, n, dtype, kind in (
    (700, 2056, torch.float16, torch.float16),
    (5, 4096, torch.bfloat16, torch.float32),
    (3, 2112, torch.float16, None),
):
    x, w, b = torch.randn(rows, n).to(dtype) + 2, torch.randn(n), torch.randn(n)
    w, b = (None, None) if kind is None else (w.to(kind), b.to(kind))
    here = (t if t is None else t.to("aule") for t in (w, b))
    y, mean, rstd = torch.native_layer_norm(x.to("aule"), (n,), *here, 1e-5)
    z, m, r = torch.native_layer_norm(x.double(), (n,), *(t if t is None else t.double() for t in (w, b)), 1e-5)
    errors = error(y, z), error(mean, m), error(rstd, r)
    assert max(errors) < (1e-3 if dtype is torch.float16 else 8e-3), (rows, n, dtype, errors)
x, w = torch.randn(9, 64), torch.randn(64)
y = F.layer_norm(x.to("aule"), (64,), w.to("aule").requires_grad_())
y.backward(y.detach())  # neither dx nor db
x = torch.randn(400, 600)
assert error(x.to("aule").sum(0), x.double().sum(0)) < 1e-6
assert error(x.to("aule").var(0), x.double().var(0)) < 1e-5
