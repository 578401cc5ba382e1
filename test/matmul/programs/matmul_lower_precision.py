"""float32 products at each setting of torch.set_float32_matmul_precision."""

import torch

import torch_aule

torch.manual_seed(1)


def lay(t, across):
    return (t.mT.contiguous().mT if across else t).to("aule")


units = any(s[3:] == (0, 0, 1, 1) for s in torch_aule._C.device_properties(0)["coopmat_shapes"])
bounds = {"highest": (0, 2e-6), "high": (0, 2e-5), "medium": (2e-5 if units else 0, 2e-3)}
for precision, (least, most) in bounds.items():
    torch.set_float32_matmul_precision(precision)
    for m, k, n in ((37, 45, 35), (40, 64, 70)):
        a, b, c = torch.randn(2, m, k), torch.randn(2, k, n), torch.randn(n)
        size = a.abs().double() @ b.abs().double()
        plain = a.double() @ b.double()
        for x, y in ((False, False), (True, False), (False, True)):
            error = (torch.bmm(lay(a, x), lay(b, y)).cpu().double() - plain).abs() / size
            assert least <= error.max() <= most, (precision, x, y, error.max())
        wide = torch.zeros(m, 2 * n, device="aule")
        torch.addmm(c.to("aule"), a[0].to("aule"), b[0].to("aule"), beta=2, alpha=0.5, out=wide[:, ::2])
        error = (wide[:, ::2].cpu().double() - 0.5 * plain[0] - 2 * c.double()).abs() / size[0]
        assert error.max() <= most and (wide[:, 1::2] == 0).all(), (precision, error.max())
        error = (torch.matmul(a.to("aule"), b[:1].to("aule")).cpu().double() - a.double() @ b[:1].double()).abs() / size
        assert error.max() <= 2 * most, (precision, error.max())
    a[0, 3, 5], a[0, 4, 5], a[0, 5, 5] = 6e4, -6e4, 1e-30
    assert torch.isfinite(torch.bmm(a.to("aule"), b.to("aule"))).all()
