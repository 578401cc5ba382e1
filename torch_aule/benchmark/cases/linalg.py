"""Factorizations: many small matrices, and one large one, beside cuSOLVER and MAGMA as torch calls them."""

from __future__ import annotations

import torch

from torch_aule.benchmark.harness.case import Case, Sizes
from torch_aule.benchmark.harness.targets import Target
from torch_aule.benchmark.report import dearest

LARGE = ("solve", "cholesky", "qr")  # the others take seconds at that size, on CUDA too


def _calls(a: torch.Tensor, spd: torch.Tensor, b: torch.Tensor):
    linalg = torch.linalg
    return {
        "solve": lambda: linalg.solve_ex(a, b),
        "cholesky": lambda: linalg.cholesky_ex(spd),
        "qr": lambda: linalg.qr(a),
        "eigh": lambda: linalg.eigh(spd),
        "svd": lambda: linalg.svd(a, full_matrices=False),
    }


def _case(name: str, batch: int, n: int, least: float, main: bool) -> Case:
    def make(device):
        generator = torch.Generator().manual_seed(n)
        a = torch.randn(batch, n, n, generator=generator).to(device)
        b = torch.randn(batch, n, 4, generator=generator).to(device)
        spd = a @ a.mT / n + torch.eye(n, device=device)
        return _calls(a, spd, b)[name]

    return Case("linalg", name, f"{batch}x{n}x{n}", "float32", make, target=Target("cuda", least, 1.0), main=main,
                queued=False, values=dearest.of_aule)  # fmt: skip


def linalg(sizes: Sizes) -> list[Case]:
    if sizes.software:
        return [_case(name, 20, 32, 0.5, True) for name in ("solve", "cholesky", "qr", "eigh", "svd")]
    cases = [_case(name, 1000, n, 0.5, True) for n in (32, 128) for name in ("solve", "cholesky", "qr", "eigh", "svd")]
    cases += [_case(name, 1, 1024, 0.3, False) for name in ("solve", "cholesky", "qr", "eigh", "svd")]
    return cases + [_case(name, 1, 4096, 0.3, False) for name in LARGE]
