"""Elementwise operators and AdamW, by kernels of GPUs."""

import torch

import torch_aule  # noqa: F401

torch.manual_seed(1)
for n in (5, 1024, 1024 * 3 + 77):
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.uint8):
        x, y = ((torch.randn(n) * 50).to(dtype) for _ in range(2))
        assert torch.equal((x.to("aule") + y.to("aule")).cpu(), x + y), (n, dtype)
        assert torch.equal((x.to("aule") > y.to("aule")).cpu(), x > y), (n, dtype)
        assert torch.equal((x.to("aule") + 1).cpu(), x + 1), (n, dtype)
        assert torch.equal((x.to("aule") + y.float().to("aule")).cpu(), x + y.float()), (n, dtype)
edges = torch.tensor([65519.0, 65520.0, 1e6, -1e6, float("inf"), 6e-8, 2.9e-8, 3.1e-8, 1.00073242]).repeat(200)
assert torch.equal(
    torch.add(edges.to("aule"), 0, out=torch.empty(1800, dtype=torch.float16, device="aule")).cpu(), edges.half()
)
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
