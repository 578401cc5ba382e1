"""Transposing copies, by kernels of GPUs."""

import torch

import torch_aule  # noqa: F401

torch.manual_seed(2)
for shape in ((16, 16), (33, 70), (3, 100, 17), (2, 3, 40, 65), (5, 31, 16), (64, 66), (2, 150, 100)):
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.uint8, torch.bool,
                  torch.complex64, torch.complex128):  # fmt: skip
        x = (torch.randn(shape, dtype=dtype if dtype.is_complex else None) * 50).to(dtype)
        here = x.to("aule")
        for dims in ((-1, -2), (0, -1)):
            copy = here.transpose(*dims).contiguous()
            assert copy.is_contiguous() and torch.equal(copy.cpu(), x.transpose(*dims)), (shape, dtype, dims)
        target = torch.zeros(*shape[:-2], shape[-1] + 3, shape[-2], dtype=dtype)
        there = target.to("aule")
        there[..., 2:-1, :].copy_(here.transpose(-1, -2))  # into a view
        target[..., 2:-1, :].copy_(x.transpose(-1, -2))
        assert torch.equal(there.cpu(), target), (shape, dtype)

# Pairs of elements of two bytes: tiles that end inside, views that do or do not begin at a pair, rows of odd length.
for rows, columns, row, column in ((64, 64, 0, 0), (130, 68, 2, 4), (68, 130, 1, 2), (66, 66, 2, 1), (100, 65, 0, 0)):
    for pitch in (columns + 4, columns + 5):
        x = torch.randn(3, rows + 2, pitch).half()
        part = (slice(None), slice(row, rows), slice(column, columns))
        assert torch.equal(x.to("aule")[part].mT.contiguous().cpu(), x[part].mT.contiguous()), (rows, columns, pitch)

# Pointwise operands that lie across the result: 2^20 elements or more.
a, b = torch.randn(4, 520, 520).half(), torch.randn(4, 520, 520).half()
for left, right in ((a.mT, b), (a, b.mT), (a.permute(1, 2, 0), b.permute(2, 1, 0)), (a.mT, b.mT)):
    here, there = left + right, left.to("aule") + right.to("aule")
    assert there.stride() == here.stride() and torch.equal(there.cpu(), here), left.stride()
    assert torch.equal((left.to("aule") > right.to("aule")).cpu(), left > right), left.stride()
    out = torch.empty(here.shape, dtype=torch.half)
    there = torch.where(left.to("aule") > 0, left.to("aule"), right.to("aule"), out=out.to("aule"))
    assert torch.equal(there.cpu(), torch.where(left > 0, left, right, out=out)), left.stride()
    assert torch.equal(left.to("aule").mul_(right.to("aule")).cpu(), left * right)
c = torch.randn(1024, 1024)
column = torch.randn(1, 1024).half()
assert torch.equal((c.to("aule") + c.to("aule").T + column.to("aule").T).cpu(), c + c.T + column.T)  # one for a row
assert torch.equal((c.to("aule")[:, 1:].T - c.to("aule")[1:]).cpu(), c[:, 1:].T - c[1:])
