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
# Half types' long rows, more of them than workgroups; weights of their own dtype, or none.
for rows, n, dtype, kind in ((700, 2056, torch.float16, torch.float16), (5, 4096, torch.bfloat16, torch.float32),
                             (3, 2112, torch.float16, None)):
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
"""

COLUMNS = """
import torch, torch_aule
torch.manual_seed(1)
def check(x, tolerance, **kwargs):
    y = x.to("aule")
    for name in ("sum", "mean"):
        a, b = getattr(y, name)(0, **kwargs).cpu().double(), getattr(x.double(), name)(0, **kwargs)
        assert a.shape == b.shape and ((a - b).abs().max() / b.abs().max()).item() < tolerance, (x.shape, x.dtype, name)
for dtype, tolerance in ((torch.float32, 1e-6), (torch.float16, 2e-3), (torch.bfloat16, 2e-2)):
    for rows, n in ((64, 8), (400, 600), (777, 264), (5000, 16), (65, 1024), (100, 12)):
        check((torch.randn(rows, n) + 1).to(dtype), tolerance, keepdim=rows == 400)
    check((torch.randn(300, 96) + 1).to(dtype)[:, 16:80], tolerance)
    check((torch.randn(10, 30, 64) + 1).to(dtype).flatten(0, 1), tolerance)
x = torch.randn(300, 64) + 1
torch.testing.assert_close(x.half().to("aule").sum(0, dtype=torch.float32).cpu(), x.half().float().sum(0))
out = torch.empty(64, 2, device="aule")[:, 0]
assert torch.allclose(torch.sum(x.to("aule"), 0, out=out).cpu(), x.sum(0), rtol=1e-5)
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

LOSSES = """
import os, torch, torch_aule
import torch.nn.functional as F
def error(a, b):
    a, b = a.detach().cpu().double(), b.detach().double()
    return ((a - b).abs().max() / b.abs().max().clamp(min=0.1)).item()
TYPES = ((torch.float32, 2e-5), (torch.float16, 2e-3), (torch.bfloat16, 1e-2))
for dtype, tolerance in TYPES[:1 if "TORCH_AULE_DISABLE_SUBGROUP_ARITHMETIC" in os.environ else 3]:
    # The last is of more rows than workgroups.
    for rows, n in ((7, 1003), (1, 8), (300, 50), (5, 9000), (3, 13), (5000, 21)):
        for reduction in ("mean", "sum", "none")[:3 if dtype is torch.float32 else 1]:
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
torch.testing.assert_close(torch.func.vmap(F.cross_entropy)(a.detach().expand(2, 6, 40), there.expand(2, 6)).cpu(),
                           F.cross_entropy(x, t).float().expand(2))
b.grad = None
F.cross_entropy(b, t).backward()
assert error(torch.func.grad(lambda x: F.cross_entropy(x, there))(a.detach()), b.grad) < 1e-5
torch.func.jvp(lambda x: F.cross_entropy(x, there), (a.detach(),), (a.detach(),))
torch.library.opcheck(torch.ops.aule.cross_entropy_fwd, (a, there, 1, -100, False),
                      test_utils=("test_schema", "test_faketensor"))
try:
    F.cross_entropy(a, torch.full((6,), 40, device="aule")).item()
except Exception as error:
    assert "cross_entropy_loss" in str(error), error
else:
    raise AssertionError("no error")
"""


UNALIGNED = """
import os, torch, torch_aule
torch.manual_seed(1)
A = torch.ops.aten
def error(a, b):
    a = a.detach().cpu().double()
    assert not a.isnan().any()
    return ((a - b).abs().max() / b.abs().max().clamp(min=1e-30)).item()
TYPES = ((torch.float16, 1e-3), (torch.float32, 3e-6), (torch.bfloat16, 8e-3))
for dtype, tolerance in TYPES[:1 if "TORCH_AULE_DISABLE_SUBGROUP_ARITHMETIC" in os.environ else 3]:
    # Rows that begin anywhere in a block of 16 bytes: in registers, and in several chunks.
    for rows, n in ((9, 257), (3, 1029), (2, 33001))[:3 if dtype is torch.float16 else 2]:
        x, g = torch.randn(rows, n).to(dtype), torch.randn(rows, n).to(dtype)
        x[0, 3:9], x[-1, -1] = -torch.inf, 7
        buffer = torch.full((rows * n + 64,), 5.0, dtype=dtype, device="aule")
        out = buffer[:rows * n].view(rows, n)
        for forward, backward in ((A._softmax, A._softmax_backward_data),
                                  (A._log_softmax, A._log_softmax_backward_data)):
            y = forward(x.to("aule"), 1, False)
            finite = [t.masked_fill(x == -torch.inf, 0) for t in (y.cpu(), forward(x.double(), 1, False))]
            errors = [error(*finite)]
            there = backward(g.double(), y.cpu().double(), 1, torch.double)
            errors.append(error(backward(g.to("aule"), y, 1, dtype), there))
            assert max(errors) < tolerance, (forward, dtype, rows, n, errors)
            forward.out(x.to("aule"), 1, False, out=out)  # beside others' memory
            assert (out == y).all().item() and (buffer[rows * n:] == 5).all().item()
"""


TRANSPOSES = """
import torch, torch_aule
torch.manual_seed(2)
for shape in ((16, 16), (33, 70), (3, 100, 17), (2, 3, 40, 65), (5, 31, 16)):
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.uint8, torch.bool):
        x = (torch.randn(shape) * 50).to(dtype)
        here = x.to("aule")
        for dims in ((-1, -2), (0, -1)):
            copy = here.transpose(*dims).contiguous()
            assert copy.is_contiguous() and torch.equal(copy.cpu(), x.transpose(*dims)), (shape, dtype, dims)
        target = torch.zeros(*shape[:-2], shape[-1] + 3, shape[-2], dtype=dtype)
        there = target.to("aule")
        there[..., 2:-1, :].copy_(here.transpose(-1, -2))  # into a view
        target[..., 2:-1, :].copy_(x.transpose(-1, -2))
        assert torch.equal(there.cpu(), target), (shape, dtype)
"""


@pytest.mark.parametrize("subgroups", [True, False])
def test_unaligned_rows(subgroups):
    check_python(
        UNALIGNED, TORCH_AULE_DISABLE_CPU_KERNELS="1", TORCH_AULE_DISABLE_SUBGROUP_ARITHMETIC=None if subgroups else "1"
    )


@pytest.mark.parametrize("subgroups", [True, False])
def test_rows(subgroups):
    check_python(
        ROWS, TORCH_AULE_DISABLE_CPU_KERNELS="1", TORCH_AULE_DISABLE_SUBGROUP_ARITHMETIC=None if subgroups else "1"
    )


def test_columns():
    check_python(COLUMNS, TORCH_AULE_DISABLE_CPU_KERNELS="1")


def test_transposes():
    check_python(TRANSPOSES, TORCH_AULE_DISABLE_CPU_KERNELS="1")


def test_elements():
    check_python(ELEMENTS, TORCH_AULE_DISABLE_CPU_KERNELS="1")


@pytest.mark.parametrize("subgroups", [True, False])
def test_losses(subgroups):
    check_python(
        LOSSES, TORCH_AULE_DISABLE_CPU_KERNELS="1", TORCH_AULE_DISABLE_SUBGROUP_ARITHMETIC=None if subgroups else "1"
    )
