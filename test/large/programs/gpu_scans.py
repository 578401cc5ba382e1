"""Cumulative operations by kernels of GPUs: a workgroup for each chunk of a row."""

import torch

import torch_aule  # noqa: F401

torch.manual_seed(4)


def check(function, x, tolerance):
    """Against float64, as a part of the largest value; exactly with a tolerance of 0."""
    wide = x.to(torch.complex128 if x.is_complex() else torch.float64) if tolerance else x
    ours, theirs = function(x.to("aule")).cpu(), function(wide)
    if tolerance == 0:
        assert torch.equal(ours, theirs), (function, x.dtype, x.shape)
        return
    error = (ours - theirs).abs().max() / theirs.abs().max()
    assert error < tolerance, (function, x.dtype, x.shape, error)


for rows, n in ((3, 32), (2, 257), (1, 9001), (5, 1000)):  # a part of a tile, one and more, more chunks than one
    for dtype, tolerance in (
        (torch.float32, 1e-5), (torch.float64, 1e-13), (torch.complex64, 2e-5), (torch.complex128, 1e-12),
    ):  # fmt: skip
        x = torch.randn(rows, n, dtype=dtype)
        check(lambda x: x.cumsum(1), x, tolerance)
        check(lambda x: (x / x.abs()).cumprod(1), x, 100 * tolerance)
        if n < 1000 or tolerance > 1e-9:  # series of float64, in turns with barriers, are slow on a CPU
            check(lambda x: x.logcumsumexp(1).exp(), x, 10 * tolerance)  # an angle may be a whole turn more
    whole = torch.randint(-9, 9, (rows, n))
    check(lambda x: x.cumsum(1), whole, 0)
    for part in (0, 1):
        check(lambda x, part=part: x.cummax(1)[part], whole, 0)
        check(lambda x, part=part: x.float().cummin(1)[part], whole, 0)
