"""Grouped products by the kernel's other form, against products of the groups in float64."""

import torch

import torch_aule  # noqa: F401

for dtype, tolerance in ((torch.float32, 1e-5), (torch.float16, 3e-3), (torch.bfloat16, 2e-2)):
    ends = [5, 5, 69, 133, 133, 300]
    groups = list(enumerate(zip([0, *ends], ends)))
    offs = torch.tensor(ends, dtype=torch.int32, device="aule")
    for turned in (False, True):
        x, weight, y = (torch.randn(s).to(dtype) for s in ((300, 37), (6, 37, 71), (300, 29)))
        if turned:
            x, weight = x.t().contiguous().t(), weight.transpose(1, 2).contiguous().transpose(1, 2)
        a, w, b = x.to("aule"), weight.to("aule"), y.to("aule")
        rows = torch._grouped_mm(a, w, offs=offs)
        columns = torch._grouped_mm(w.transpose(1, 2), a.t(), offs=offs)
        inner = torch._grouped_mm(a.t(), b, offs=offs)
        expected_rows = torch.cat([x[i:j].double() @ weight[g].double() for g, (i, j) in groups])
        expected_inner = torch.stack([x[i:j].double().t() @ y[i:j].double() for _, (i, j) in groups])
        for actual, expected in ((rows, expected_rows), (columns, expected_rows.t()), (inner, expected_inner)):
            error = (actual.cpu().double() - expected).abs().max() / expected.abs().max()
            assert error <= tolerance, (dtype, turned, error)
