"""Fourier transforms by workgroups: one pass and several, real ends, columns, a chirp, in float64 too."""

import math

import torch

import torch_aule  # noqa: F401


def check(function, x, n):
    wide = torch.complex128 if x.is_complex() else torch.float64
    actual, expected = function(x.to("aule")).cpu(), function(x.to(wide))
    error = ((actual.to(expected.dtype) - expected).norm() / expected.norm()).item()
    assert error <= 5 * torch.finfo(actual.dtype).eps * math.log2(n), (tuple(x.shape), n, error)


complex64 = {"dtype": torch.complex64}
for n in (8, 30, 210, 512, 4096):  # one pass; 4096 exchanges one part after the other
    check(torch.fft.fft, torch.randn(5, n, **complex64), n)
check(torch.fft.fft, torch.randn(2, 8192, **complex64), 8192)
check(torch.fft.fft, torch.randn(2, 127, **complex64), 127)
check(torch.fft.rfft, torch.randn(5, 60), 60)
check(torch.fft.rfft, torch.randn(2, 8192), 8192)
check(torch.fft.irfft, torch.randn(5, 31, **complex64), 60)
check(torch.fft.fft2, torch.randn(2, 64, 20, **complex64), 64)
check(lambda t: torch.fft.fft(t, dim=0), torch.randn(8192, 9, **complex64), 8192)
if torch.aule.get_device_properties().float64:
    check(torch.fft.fft, torch.randn(3, 200, dtype=torch.complex128), 200)
