"""docs/use/operators.md: the operators that it lists are the registered ones, and each cell of its table is true."""

import importlib.util
import re

import pytest
import torch
import torch.nn.functional as F

from helpers import FLOATS, ROOT

PAGE = (ROOT / "docs/use/operators.md").read_text()
DTYPES = {
    "float32, float16, bfloat16": FLOATS,
    "float64": [torch.float64],
    "integers, bool": [torch.int64, torch.uint8, torch.bool],
    "complex": [torch.complex64],
}


def rows(text: str) -> dict[str, list[str]]:
    """Family -> cells of the table whose header is that of the families."""
    header = "| family | " + " | ".join(DTYPES) + " |"
    lines = text[text.index(header) :].splitlines()[2:]
    table = lines[: next((i for i, line in enumerate(lines) if not line.startswith("|")), len(lines))]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    return {family: rest for family, *rest in cells}


def operators_page():
    spec = importlib.util.spec_from_file_location("operators_page", ROOT / "tools/operators_page.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_list_is_what_the_sources_say():
    assert operators_page().table() in PAGE, "run: python tools/operators_page.py"


def test_the_list_is_what_is_registered():
    names = torch._C._dispatch_get_registrations_for_dispatch_key("PrivateUse1")
    registered = {re.sub(r"^\w+::", "", n).split(".")[0] for n in names if n.startswith(("aten::", "aule::"))}
    page = operators_page()
    registered -= page.without_kernel()
    # PyTorch 2.11 lacks some operators that later ones have.
    ours = {
        n
        for n in set().union(*page.families().values())
        if any(hasattr(o, n) for o in (torch.ops.aten, torch.ops.aule))
    }
    assert set(page.listed(registered)) == set(page.listed(ours))


def indices(*sizes, below):
    return torch.randint(0, below, sizes).to("aule")


def lstm(x):
    state = (torch.zeros_like(x(1, 2, 4)),) * 2
    return torch._VF.lstm(x(3, 2, 8), state, [x(16, 8), x(16, 4), x(16), x(16)], True, 1, 0.0, False, False, False)[0]


def interpolated(x):
    if made_of_reals(x):
        return F.interpolate(x(1, 4, 8, 8), scale_factor=2.0, mode="bilinear")
    return F.interpolate(x(1, 4, 8, 8).to(torch.uint8), scale_factor=2.0)  # of whole numbers the CPU has bytes


def step(x, form):
    parameter = torch.nn.Parameter(x(4, 16).detach())
    parameter.grad = x(4, 16).detach()
    torch.optim.AdamW([parameter], **{form: True}).step()


# Some calls of each family; `x` makes an operand of the sizes.
ORTHOGONAL = "QR, symmetric eigenvalues, singular values"
SPECTRA = "eigenvalues, least squares, matrix exponential"
CALLS = {
    "attention": [lambda x: F.scaled_dot_product_attention(*(x(1, 2, 16, 16) for _ in "qkv"), is_causal=True)],
    "matrix products": [
        lambda x: x(8, 16) @ x(16, 8),
        lambda x: torch.bmm(x(2, 8, 16), x(2, 16, 8)),
        lambda x: F.linear(x(4, 16), x(8, 16), x(8)),
    ],
    "convolutions": [
        lambda x: F.conv1d(x(1, 4, 8), x(8, 4, 3)),
        lambda x: F.conv2d(x(1, 4, 8, 8), x(8, 4, 3, 3), x(8)),
        lambda x: F.conv3d(x(1, 2, 5, 5, 5), x(4, 2, 3, 3, 3)),
        lambda x: F.conv_transpose2d(x(1, 4, 8, 8), x(4, 8, 3, 3)),
    ],
    "pooling, resampling": [
        lambda x: F.max_pool2d(x(1, 4, 8, 8), 2),
        lambda x: F.avg_pool2d(x(1, 4, 8, 8), 2),
        interpolated,
    ],
    "normalisation, softmax": [
        lambda x: F.layer_norm(x(4, 16), (16,), x(16), x(16)),
        lambda x: F.rms_norm(x(4, 16), (16,), x(16)),
        lambda x: F.group_norm(x(2, 4, 8), 2, x(4), x(4)),
        lambda x: F.batch_norm(x(4, 4, 8), None, None, x(4), x(4), training=True),
        lambda x: x(4, 16).softmax(-1),
    ],
    "losses": [
        lambda x: F.mse_loss(x(4, 16), x(4, 16)),
        lambda x: F.cross_entropy(x(4, 16), indices(4, below=16)),
        lambda x: F.binary_cross_entropy_with_logits(x(4), x(4)),
    ],
    "reductions, scans": [
        lambda x: x(4, 16).sum(0),
        lambda x: x(4, 16).abs().amax(1),
        lambda x: x(4, 16).prod(1),
        lambda x: x(4, 16).cumsum(1),
    ],
    "pointwise functions": [
        lambda x: x(4, 16) + x(16),
        lambda x: x(4, 16).exp(),
        lambda x: torch.where(x(4, 16) == x(4, 16), x(4, 16), x(4, 16)),
    ],
    "indexing, embedding": [
        lambda x: x(8, 16).gather(0, indices(2, 16, below=8)),
        lambda x: x(8, 16)[indices(3, below=8)],
        lambda x: x(8, 16).index_put((indices(3, below=8),), x(3, 16)),
        lambda x: x(8, 16).index_add(0, indices(3, below=8), x(3, 16)),
    ],
    "copies, shapes, views": [
        lambda x: x(4, 16).t().contiguous(),
        lambda x: torch.cat([x(4, 16), x(2, 16)]),
        lambda x: x(4, 16).roll(1),
        lambda x: x(4, 16).flip(0),
        lambda x: F.pad(x(4, 16), (1, 1)),
    ],
    "sorting, searching": [lambda x: x(4, 16).sort(1)[0], lambda x: torch.searchsorted(x(16).sort()[0], x(4))],
    "dropout": [lambda x: F.dropout(x(4, 16), 0.5)],
    "random numbers": [lambda x: torch.empty_like(x(4, 16)).normal_() if made_of_reals(x) else x(4, 16).random_(0, 2)],
    "recurrent layers, cells": [lstm],
    "optimizers, foreach": [lambda x: step(x, "foreach")],
    "optimizers, fused": [lambda x: step(x, "fused")],
    "Fourier transforms": [
        lambda x: torch.fft.fft2(x(4, 15)),
        lambda x: torch.fft.irfft(x(4, 17)),
    ],
    "Cholesky, LU, LDL, linear systems": [
        lambda x: torch.linalg.solve(x(4, 4), x(4, 4)),
        lambda x: torch.linalg.solve_triangular(x(4, 4), x(4, 2), upper=True),
        lambda x: torch.linalg.cholesky_ex(x(4, 4))[0],
        lambda x: torch.linalg.lu(x(5, 4))[1],
        lambda x: torch.linalg.slogdet(x(4, 4))[1],
        lambda x: torch.linalg.ldl_factor_ex(x(4, 4))[0].detach(),
    ],
    ORTHOGONAL: [
        lambda x: torch.linalg.qr(x(5, 4))[1],
        lambda x: torch.linalg.eigvalsh(x(4, 4) + x(4, 4).mH),
        lambda x: torch.linalg.svdvals(x(5, 4)),
    ],
    SPECTRA: [
        lambda x: torch.linalg.eigvals(x(4, 4)),
        lambda x: torch.linalg.lstsq(x(5, 4), x(5, 2))[0],
        lambda x: torch.linalg.matrix_exp(x(4, 4)),
    ],
}  # fmt: skip
WHOLE = (torch.float32, torch.float64, torch.int64, torch.complex64)  # dtypes that make all calls, others the first
# Families that PyTorch itself refuses for a dtype of a column that otherwise works, or asks for in other words.
REFUSED = {
    ("matrix products", torch.bool),
    ("convolutions", torch.bool),
    ("pooling, resampling", torch.bool),
    *(("Fourier transforms", dtype) for dtype in FLOATS[1:]),
    *(("Cholesky, LU, LDL, linear systems", dtype) for dtype in FLOATS[1:]),
    *((ORTHOGONAL, dtype) for dtype in FLOATS[1:]),
    *((SPECTRA, dtype) for dtype in FLOATS[1:]),
    ("recurrent layers, cells", torch.bool),
}


def made_of_reals(x):
    return x(1).is_floating_point() or x(1).is_complex()


def maker(dtype, requires_grad=False):
    def x(*sizes):
        if dtype.is_floating_point or dtype.is_complex:
            kind = torch.float32 if dtype.is_floating_point else dtype
            return torch.randn(sizes, dtype=kind).to("aule", dtype).requires_grad_(requires_grad)
        return torch.randint(0, 2, sizes).to(dtype).to("aule")

    return x


def test_families_of_the_table_are_those_below():
    assert list(rows(PAGE)) == list(CALLS)
    assert all(cell in ("", "CPU", "forward", "forward, backward") for cells in rows(PAGE).values() for cell in cells)


def test_the_readme_has_the_same_table():
    assert rows((ROOT / "README.md").read_text()) == rows(PAGE)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("family", CALLS)
def test_cells_are_true(family, request):
    if not torch.aule.get_device_properties().float64:
        pytest.skip("the table is of a device with float64")
    was_strict = torch.aule.is_strict()
    torch.aule.set_strict(True)
    request.addfinalizer(lambda: torch.aule.set_strict(was_strict))
    for cell, dtypes in zip(rows(PAGE)[family], DTYPES.values(), strict=True):
        for dtype in dtypes:
            if cell == "" or (family, dtype) in REFUSED:
                continue
            for call in CALLS[family] if dtype in WHOLE else CALLS[family][:1]:
                if cell == "CPU":
                    with pytest.raises(NotImplementedError):
                        call(maker(dtype))
                    continue
                call(maker(dtype))
                if cell == "forward, backward":
                    out = call(maker(dtype, requires_grad=True))
                    if out.requires_grad:  # places found by searching have no gradient
                        (out.real if out.is_complex() else out).sum().backward()
    torch.aule.synchronize()
