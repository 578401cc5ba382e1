"""Kernels that only GPUs take (a workgroup per row, 16-byte accesses), on whatever device there is, against the CPU."""

import pytest

from helpers import check_python

ROWS = """
import torch, torch_aule
import torch.nn.functional as F
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
    for rows, n in ((7, 512), (70, 40), (3, 50), (5, 1026), (2, 33000))[:5 if dtype is torch.float32 else 3]:
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
x, w = torch.randn(9, 64), torch.randn(64)
y = F.layer_norm(x.to("aule"), (64,), w.to("aule").requires_grad_())
y.backward(y.detach())  # neither dx nor db
x = torch.randn(400, 600)
assert error(x.to("aule").sum(0), x.double().sum(0)) < 1e-6
assert error(x.to("aule").var(0), x.double().var(0)) < 1e-5
"""

ELEMENTS = """
import torch, torch_aule
torch.manual_seed(1)
for n in (5, 1024, 1024 * 3 + 77):
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.uint8):
        x, y = ((torch.randn(n) * 50).to(dtype) for _ in range(2))
        assert torch.equal((x.to("aule") + y.to("aule")).cpu(), x + y), (n, dtype)
        assert torch.equal((x.to("aule") > y.to("aule")).cpu(), x > y), (n, dtype)
        assert torch.equal((x.to("aule") + 1).cpu(), x + 1), (n, dtype)
        assert torch.equal((x.to("aule") + y.float().to("aule")).cpu(), x + y.float()), (n, dtype)
edges = torch.tensor([65519.0, 65520.0, 1e6, -1e6, float("inf"), 6e-8, 2.9e-8, 3.1e-8, 1.00073242]).repeat(200)
assert torch.equal(torch.add(edges.to("aule"), 0, out=torch.empty(1800, dtype=torch.float16, device="aule")).cpu(),
                   edges.half())
for dtype, amsgrad in ((torch.float32, True), (torch.float16, False), (torch.bfloat16, False)):
    start = [torch.randn(s).to(dtype) for s in (3, 1024, 5000)]
    here, there = ([t.clone().to(d).requires_grad_() for t in start] for d in ("aule", "cpu"))
    a, b = (torch.optim.AdamW(p, lr=1e-2, amsgrad=amsgrad, fused=d) for p, d in ((here, True), (there, False)))
    for _ in range(2):
        for p, q in zip(here, there):
            q.grad = torch.randn(q.shape).sign().to(dtype)
            p.grad = q.grad.to("aule")
        a.step()
        b.step()
    for p, q in zip(here, there):
        tolerance = (1e-5, 1e-6) if dtype is torch.float32 else (2e-2, 1e-2)
        torch.testing.assert_close(p.detach().cpu(), q.detach(), rtol=tolerance[0], atol=tolerance[1])
"""


@pytest.mark.parametrize("subgroups", [True, False])
def test_rows(subgroups):
    check_python(ROWS, AULE_DISABLE_CPU_KERNELS="1", AULE_DISABLE_SUBGROUP_ARITHMETIC=None if subgroups else "1")


def test_elements():
    check_python(ELEMENTS, AULE_DISABLE_CPU_KERNELS="1")
