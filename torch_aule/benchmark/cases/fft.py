"""Fourier transforms in batches that fill the device, and of planes; x + 1 is their measure, cuFFT stands beside them.

Bytes are those of one reading and one writing. A transform of several passes, or of several dimensions, moves more.
"""

from __future__ import annotations

import math

import torch

from torch_aule.benchmark.harness.case import Case, Sizes, short
from torch_aule.benchmark.harness.targets import Target

ONE_PASS, TWO_PASSES, CHIRP = Target("copy", 0.7, 0.9), Target("copy", 0.35, 0.45), Target("copy", 0.15, 0.25)


def fft(sizes: Sizes) -> list[Case]:
    if sizes.software:
        within_ten = Target("cpu", 10.0, 3.0)
        return [
            _case("fft", torch.fft.fft, (64, 4096), target=within_ten, clock="wall"),
            _case("rfft", torch.fft.rfft, (64, 4096), torch.float32, target=within_ten, clock="wall"),
            _case("fft2", torch.fft.fft2, (4, 256, 256), target=within_ten, clock="wall", main=False),
        ]
    points = sizes.fft_points
    cases = []
    for power in range(8, 21):
        n = min(1 << power, points)
        target = ONE_PASS if power <= 12 else TWO_PASSES
        cases.append(_case("fft", torch.fft.fft, (points // n, n), target=target, main=power % 4 == 0))
    for n in (1000, 1155, 1009, 3 << 15, 65537):
        target = ONE_PASS if n < 1009 else CHIRP if n in (1009, 65537) else TWO_PASSES
        n = min(n, points)
        cases.append(_case("fft", torch.fft.fft, (max(1, points // n), n), target=target, main=False))
    for n in (400, 1024, 1 << 16):
        n = min(n, points)
        cases.append(_case("rfft", torch.fft.rfft, (2 * points // n, n), torch.float32, main=n == 1024))
        cases.append(_case("irfft", torch.fft.irfft, (2 * points // n, n // 2 + 1), main=n == 1024))
    for n in (512, 1024, 2048, 4096):
        n = min(n, math.isqrt(points))
        cases.append(_case("fft2", torch.fft.fft2, (max(1, points // n**2), n, n), target=TWO_PASSES, main=n == 1024))
    cases.append(_case("fft", torch.fft.fft, (points // min(1024, points), min(1024, points)), torch.complex128))
    return cases


def _case(name, function, shape, dtype=torch.complex64, **more) -> Case:
    elements = math.prod(shape)

    def make(device):
        x = torch.randn(shape, dtype=dtype).to(device)
        return lambda: function(x)

    # Of a real signal, as much goes out as comes in, but for one element.
    return Case("fft", name, "x".join(map(str, shape)), short(dtype), make, bytes=2.0 * dtype.itemsize * elements,
                **more)  # fmt: skip
