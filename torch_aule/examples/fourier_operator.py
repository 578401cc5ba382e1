"""Trains a Fourier neural operator to solve Burgers' equation.

    python -m torch_aule.examples.fourier_operator

The network maps a periodic velocity u(x, 0) to u(x, 1), where u_t + u u_x = nu u_xx (Li et al., "Fourier Neural
Operator for Parametric Partial Differential Equations", 2021, arXiv:2010.08895). Pairs come from a pseudo-spectral
solver in float64 on the processor. Everything in training runs on the device: real Fourier transforms, complex weights,
their product for each frequency, and the gradients of all of it. The network is then asked on a grid twice as fine,
which it has not seen.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

os.environ.setdefault("TORCH_AULE_STRICT", "1")  # before the backend loads: no operator may run on the CPU

import torch
import torch.nn as nn
import torch.nn.functional as F


def random_velocities(count: int, points: int, generator: torch.Generator) -> torch.Tensor:
    """Smooth periodic functions of random amplitudes and phases, [count, points], float64, of unit size.

    Values on a coarser grid are those of the finer grid's own functions: they have the same 12 frequencies.
    """
    frequencies = 12
    size = torch.arange(1, frequencies + 1, dtype=torch.float64) ** -1.5
    parts = torch.randn(count, frequencies, 2, generator=generator, dtype=torch.float64) * size[:, None]
    spectrum = torch.zeros(count, points // 2 + 1, dtype=torch.complex128)
    spectrum[:, 1 : frequencies + 1] = torch.view_as_complex(parts) * points / 2
    u = torch.fft.irfft(spectrum, n=points)
    return u / size.square().sum().sqrt()


def burgers(u: torch.Tensor, viscosity: float, time_end: float = 1.0, steps: int = 400) -> torch.Tensor:
    """u at the end: Fourier in space (two thirds of the frequencies, so that products do not alias), RK4 in time.

    The viscous term is integrated exactly, by a factor exp(-nu k^2 t) on every frequency.
    """
    points = u.shape[-1]
    k = 2 * torch.pi * torch.fft.rfftfreq(points, 1 / points, dtype=torch.float64)
    kept = (torch.arange(len(k)) < points / 3).to(torch.complex128)
    dt = time_end / steps
    half = torch.exp(-viscosity * k**2 * dt / 2)

    def rate(v):
        u = torch.fft.irfft(v, n=points)
        return -0.5j * k * kept * torch.fft.rfft(u * u)

    v = torch.fft.rfft(u)
    for _ in range(steps):
        a = dt * rate(v)
        b = dt * rate(half * (v + a / 2))
        c = dt * rate(half * v + b / 2)
        d = dt * rate(half * (half * v + c))
        v = half * half * v + (half * half * a + 2 * half * (b + c) + d) / 6
    return torch.fft.irfft(v, n=points)


class SpectralConvolution(nn.Module):
    """A convolution with a kernel as long as the signal, of `modes` frequencies: [B, C, N] -> [B, C, N]."""

    def __init__(self, width: int, modes: int):
        super().__init__()
        self.modes = modes
        self.weight = nn.Parameter(torch.randn(modes, width, width, dtype=torch.complex64) / width)

    def forward(self, x):
        spectrum = torch.fft.rfft(x)[..., : self.modes]
        mixed = torch.einsum("bik,kio->bok", spectrum, self.weight)
        return torch.fft.irfft(F.pad(mixed, (0, x.shape[-1] // 2 + 1 - self.modes)), n=x.shape[-1])


class FourierOperator(nn.Module):
    """Layers of a spectral convolution beside a pointwise one, from a velocity and its places: [B, N] -> [B, N]."""

    def __init__(self, width: int = 32, modes: int = 16, layers: int = 4):
        super().__init__()
        self.lift = nn.Conv1d(2, width, 1)
        self.spectral = nn.ModuleList(SpectralConvolution(width, modes) for _ in range(layers))
        self.pointwise = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(layers))
        self.project = nn.Sequential(nn.Conv1d(width, 4 * width, 1), nn.GELU(), nn.Conv1d(4 * width, 1, 1))

    def forward(self, u):
        places = torch.linspace(0, 1, u.shape[-1] + 1, device=u.device)[:-1].expand_as(u)
        x = self.lift(torch.stack((u, places), 1))
        for spectral, pointwise in zip(self.spectral, self.pointwise, strict=True):
            x = F.gelu(spectral(x) + pointwise(x))
        return self.project(x).squeeze(1)


def relative_error(result: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """Of each function in the 2-norm, their mean."""
    return ((result - expected).norm(dim=-1) / expected.norm(dim=-1)).mean()


def parse_options(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="aule")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--functions", type=int, default=512)
    parser.add_argument("--points", type=int, default=128)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--modes", type=int, default=16)
    parser.add_argument("--viscosity", type=float, default=0.02)
    parser.add_argument("--log-every", type=int, default=25)
    return parser.parse_args(arguments)


def main(arguments=None) -> int:
    options = parse_options(arguments)
    if options.device != "cpu":
        import torch_aule  # noqa: F401  registers the device

        if not torch.aule.is_available():
            print("no Vulkan device: `python -m torch_aule.info` says why", file=sys.stderr)
            return 1
        print(f"device: {torch.aule.get_device_name(options.device)}")
    generator = torch.Generator().manual_seed(0)
    fine = random_velocities(options.functions + 64, 2 * options.points, generator)
    solved = burgers(fine, options.viscosity)
    begins, ends = (t.float().to(options.device) for t in (fine, solved))
    train_x, train_y = (t[64:, ::2].contiguous() for t in (begins, ends))

    torch.manual_seed(0)
    model = FourierOperator(options.width, options.modes).to(options.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=options.steps)
    start = time.perf_counter()
    for step in range(options.steps):
        rows = torch.randint(options.functions, (options.batch,), generator=generator).to(options.device)
        loss = relative_error(model(train_x[rows]), train_y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % options.log_every == 0 or step + 1 == options.steps:
            print(f"step {step}: relative error {loss.item():.4f}", flush=True)
    with torch.no_grad():
        same, finer = (
            relative_error(model(begins[:64, ::every]), ends[:64, ::every]).item() for every in (2, 1)
        )  # fmt: skip
    print(f"{options.steps} steps in {time.perf_counter() - start:.1f} s")
    print(f"new functions: relative error {same:.4f} at {options.points} points, {finer:.4f} at twice as many")
    return 0


if __name__ == "__main__":
    sys.exit(main())
