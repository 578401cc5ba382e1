"""Products of int8, exact."""

import torch

import torch_aule  # noqa: F401

torch.manual_seed(1)


def lay(t, across):
    return (t.t().contiguous().t() if across else t).to("aule")


for m, k, n in ((64, 64, 64), (37, 77, 21), (16, 200, 40), (1, 3, 5), (3, 0, 7), (68, 36, 132)):
    a, b = (torch.randint(-128, 128, size, dtype=torch.int8) for size in ((m, k), (k, n)))
    expected = (a.long() @ b.long()).int()
    for across_a in (False, True):
        for across_b in (False, True):
            x, y = lay(a, across_a), lay(b, across_b)
            assert torch.equal(torch._int_mm(x, y).cpu(), expected), (m, k, n, across_a, across_b)
    wide = torch.full((m, n + 3), 7, dtype=torch.int32, device="aule")
    torch._int_mm(x, y, out=wide[:, 2:-1])
    assert torch.equal(wide[:, 2:-1].cpu(), expected) and (wide[:, :2] == 7).all() and (wide[:, -1:] == 7).all()
    turned = torch.empty(n, m, dtype=torch.int32, device="aule").t()
    assert torch.equal(torch._int_mm(x, y, out=turned).cpu(), expected)
    pair = torch.stack([a, a], 2).to("aule")[:, :, 1]
    assert torch.equal(torch._int_mm(pair, y).cpu(), expected)
