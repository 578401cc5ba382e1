"""Lists of copies and norms, by kernels of GPUs: a workgroup for each chunk, no transfer commands."""

import math

import torch

import torch_aule  # noqa: F401

torch.manual_seed(1)
sizes = [1 << 17, 8192, 8193, 77, 1, 128, 40000]
for dtype in (torch.float32, torch.bfloat16):
    values = [torch.randn(n).to(dtype) for n in sizes]
    mine = [v.to("aule") for v in values]
    for result in (dtype, torch.float32):
        for order in (1, 2, math.inf):
            for norm, v in zip(torch._foreach_norm(mine, order, result), values, strict=True):
                expected = torch.linalg.vector_norm(v.double(), order)
                bound = 2e-6 if result == torch.float32 else 8e-3
                assert abs(norm.item() - expected) <= bound * expected, (dtype, result, order, len(v))
    before = torch_aule._C.recorded_commands()
    for target in (torch.float32, torch.bfloat16):
        flat = torch.full((sum(sizes) + 1,), 9, dtype=target, device="aule")
        torch._foreach_copy_(flat[:-1].split(sizes), mine)
        assert torch.equal(flat.cpu(), torch.cat([*(v.to(target) for v in values), torch.tensor([9.0]).to(target)]))
    assert torch_aule._C.recorded_commands() - before <= 8
    for length in (1 << 21, (1 << 21) + 8):  # more than a dispatch for the aligned ones costs
        a, b = torch.randn(length).to(dtype), torch.randn(33).to(dtype)
        out = [torch.empty(length, dtype=dtype, device="aule"), torch.empty(33, dtype=dtype, device="aule")]
        torch._foreach_copy_(out, [a.to("aule"), b.to("aule")])
        assert torch.equal(out[0].cpu(), a) and torch.equal(out[1].cpu(), b)
    turned = torch.randn(64, 48).to(dtype)
    joined = torch.cat([turned.to("aule").t(), turned.t().contiguous().to("aule")], 1)
    assert torch.equal(joined.cpu(), torch.cat([turned.t(), turned.t()], 1))
