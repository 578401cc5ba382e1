"""Operators that move complex numbers without arithmetic, and what Python does with them."""

import io

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from helpers import to_device

pytestmark = pytest.mark.validated

DTYPES = [torch.complex64, torch.complex128, torch.complex32]


def same(actual, expected):
    """Equal dtype, shape and numbers."""
    actual, expected = actual.cpu().resolve_conj().resolve_neg(), expected.resolve_conj().resolve_neg()
    assert actual.dtype == expected.dtype and actual.shape == expected.shape
    if actual.is_complex():  # complex32 has no comparison on the CPU
        actual, expected = torch.view_as_real(actual), torch.view_as_real(expected)
    assert torch.equal(actual, expected)


# Of a [5, 7] and another tensor, indices of [3] and a mask of [5, 7].
MOVES = {
    "fill": lambda a, b, i, m: a.clone().fill_(1 + 2j),
    "fill of a tensor": lambda a, b, i, m: a.clone().fill_(b[0, 0]),
    "fill of a view": lambda a, b, i, m: a.clone().t()[1::2].fill_(-1j),
    "zero": lambda a, b, i, m: a.clone().zero_(),
    "full": lambda a, b, i, m: torch.full((3, 2), 2 - 1j, device=a.device, dtype=a.dtype),
    "cat": lambda a, b, i, m: torch.cat([a, b.conj(), a[:1]]),
    "stack": lambda a, b, i, m: torch.stack([a, b], 1),
    "index": lambda a, b, i, m: a[i],
    "index of a conjugate": lambda a, b, i, m: a.conj()[:, i],
    "mask": lambda a, b, i, m: a[m],
    "index_select": lambda a, b, i, m: a.index_select(1, i),
    "index_put": lambda a, b, i, m: a.index_put((i,), b[:3]),
    "index_copy": lambda a, b, i, m: a.index_copy(0, i, b[:3].conj()),
    "masked_fill": lambda a, b, i, m: a.masked_fill(m, 1j),
    "masked_fill of a tensor": lambda a, b, i, m: a.masked_fill(m, b[1, 1]),
    "where": lambda a, b, i, m: torch.where(m, a, b.conj()),
    "where of a number": lambda a, b, i, m: torch.where(m[:1], a, 2.5),
    "roll": lambda a, b, i, m: a.roll((1, 3), (0, 1)),
    "repeat": lambda a, b, i, m: a.conj().repeat(2, 3),
    "repeat_interleave": lambda a, b, i, m: a.repeat_interleave(3, 1),
    "tril": lambda a, b, i, m: a.tril(-1),
    "triu": lambda a, b, i, m: a.conj().triu(1),
    "pad": lambda a, b, i, m: F.pad(a, (1, 2, 0, 3), value=2.0),
    "diagonal": lambda a, b, i, m: torch.diag_embed(a),
    "unfold": lambda a, b, i, m: a.unfold(1, 3, 2).contiguous(),
    "transposed": lambda a, b, i, m: a.mH.contiguous(),
    "split": lambda a, b, i, m: torch.split(a, 2)[1].clone(),
    "parts": lambda a, b, i, m: torch.view_as_real(a).flip(-1).contiguous(),
    "of parts": lambda a, b, i, m: torch.view_as_complex(torch.view_as_real(a).flip(-1).contiguous()),
    "imaginary parts": lambda a, b, i, m: a.conj().imag.contiguous(),
    "empty": lambda a, b, i, m: torch.cat([a[:0], b[:0]]).t().contiguous(),
}
# What the CPU has in no complex32.
WIDE = {
    "flip": lambda a, b, i, m: a.flip(0, 1),
    "gather": lambda a, b, i, m: a.gather(0, i[None, :].expand(2, 3)),
    "scatter": lambda a, b, i, m: a.scatter(1, i[None, :].expand(2, 3), b),
    "scatter of a number": lambda a, b, i, m: a.scatter(1, i[:, None].expand(3, 2), 2j),
    "masked_scatter": lambda a, b, i, m: a.masked_scatter(m, b),
    "take": lambda a, b, i, m: a.take(i),
    "put": lambda a, b, i, m: a.clone().put_(i, b[0, :3]),
    "edges": lambda a, b, i, m: F.pad(a[None], (1, 2), mode="reflect"),
    "eye": lambda a, b, i, m: torch.eye(3, 5, dtype=a.dtype, device=a.device),
}


def operands(dtype):
    a, b = torch.randn(2, 5, 7, dtype=torch.complex64).to(dtype)
    return a, b, torch.tensor([4, 0, 2]), torch.rand(5, 7) < 0.5


@pytest.mark.sampled(40)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", [*MOVES, *WIDE])
def test_move(device, name, dtype):
    if dtype == torch.complex32 and name in WIDE:
        dtype = torch.complex64
    function, tensors = (MOVES | WIDE)[name], operands(dtype)
    same(function(*to_device(tensors)), function(*tensors))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_python_reads_them(device, dtype):
    a = operands(dtype)[0]
    d = a.to(device)
    assert d[1, 2].item() == a[1, 2].item()
    assert d.conj()[1, 2].item() == a[1, 2].item().conjugate()
    assert d.tolist() == a.tolist()
    if dtype != torch.complex32:
        assert np.array_equal(d.cpu().numpy(), a.numpy())
        same(torch.from_numpy(a.numpy()).to(device), a)
        assert repr(d.cpu()) == repr(a)
        assert repr(d).startswith("tensor([[") and "j" in repr(d.conj())
    file = io.BytesIO()
    torch.save({"z": d, "conjugate": d.conj()}, file)
    file.seek(0)
    loaded = torch.load(file, map_location="cpu")
    same(loaded["z"], a)
    same(loaded["conjugate"], a.conj())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_empty_is_filled_in_deterministic_mode(device, dtype):
    torch.use_deterministic_algorithms(True)
    try:
        filled = torch.empty(3, 5, dtype=dtype, device=device)
    finally:
        torch.use_deterministic_algorithms(False)
    assert torch.isnan(filled).all()  # as on the CPU: NaN and 0


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
def test_normal_numbers(device, dtype):
    z = torch.randn(100_000, dtype=dtype, device=device)
    parts = torch.view_as_real(z).cpu().double()
    assert (parts.mean(0).abs() < 0.02).all()
    assert ((parts.var(0) - 0.5).abs() < 0.02).all()  # each part has half of the variance
    assert abs((parts[:, 0] * parts[:, 1]).mean()) < 0.01
