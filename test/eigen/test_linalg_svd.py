"""Singular values and vectors: residuals, orthonormal factors also of matrices without full rank, LAPACK's values."""

import pytest
import torch

from helpers import like_strided
from linalg_reference import check_orthonormal, dtypes, near, rounding, wide

pytestmark = pytest.mark.validated
dtype = dtypes()


def check_svd(a: torch.Tensor, full_matrices: bool = False) -> None:
    """U diag(S) Vh is A, U and V have orthonormal columns, S descends and is LAPACK's, in roundings of the largest."""
    m, n = a.shape[-2:]
    u, s, vh = torch.linalg.svd(like_strided(a), full_matrices=full_matrices)
    expected = torch.linalg.svd(a, full_matrices=full_matrices)
    for actual, wanted in zip((u, s, vh), expected):
        assert (actual.shape, actual.dtype) == (wanted.shape, wanted.dtype)
        assert actual.stride() == wanted.stride()
    values = torch.linalg.svdvals(like_strided(a))
    assert (values.shape, values.dtype) == (s.shape, s.dtype)
    bound = rounding(a, max(m, n))
    check_orthonormal(u, bound)
    check_orthonormal(wide(vh).mH, bound)
    if a.numel() == 0:
        return
    exact = torch.linalg.svdvals(wide(a))
    scale = exact.amax(-1, keepdim=True)
    s = wide(s)
    assert (s >= 0).all() and (s.diff(dim=-1) <= 0).all()
    near(s, exact, scale, bound)
    near(values, exact, scale, bound)
    k = s.shape[-1]
    near((wide(u)[..., :k] * s.unsqueeze(-2)) @ wide(vh)[..., :k, :], wide(a), scale.unsqueeze(-1), bound)


SHAPES = [(1, 1), (2, 2), (3, 3), (4, 3), (3, 7), (1, 9), (9, 1), (16, 16), (33, 31), (48, 64), (90, 20)]


@pytest.mark.sampled(20)
@pytest.mark.parametrize("full_matrices", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_shapes(shape, full_matrices, dtype):
    check_svd(torch.randn(*shape, dtype=dtype), full_matrices)
    check_svd(torch.randn(3, *shape, dtype=dtype), full_matrices)


@pytest.mark.parametrize("shape", [(77, 90), (120, 100)])
def test_blocks(shape, dtype):
    check_svd(torch.randn(*shape, dtype=dtype), True)


@pytest.mark.parametrize("shape", [(200, 260), (1024, 60), (5000, 5)])
def test_large(shape):
    check_svd(torch.randn(*shape))


def test_many_tiny_matrices():
    check_svd(torch.randn(66_001, 3, 3))


@pytest.mark.sampled(8)
@pytest.mark.parametrize("shape", [(5, 4), (40, 30), (30, 40), (82, 72)])
@pytest.mark.parametrize("full_matrices", [False, True])
def test_special_matrices(shape, full_matrices, dtype):
    m, n = shape
    random = torch.randn(m, n, dtype=dtype)
    graded = random * torch.logspace(0, -25, n).to(dtype)
    for a in (
        torch.zeros(m, n, dtype=dtype),
        torch.ones(m, n, dtype=dtype),
        torch.eye(m, n, dtype=dtype),
        torch.eye(m, n, dtype=dtype) * torch.arange(n).to(dtype),
        torch.randn(m, 2, dtype=dtype) @ torch.randn(2, n, dtype=dtype),
        random * (torch.arange(n) % 2).to(dtype),
        graded,
        graded.mH.reshape(m, n),
        random * 1e-25,
        random * 1e25,
    ):
        check_svd(a, full_matrices)


@pytest.mark.parametrize("condition", [1e1, 1e4, 1e10])
def test_small_singular_values_of_scaled_columns(condition):
    """One-sided rotations keep them to roundings of their own size, where the columns' scale made them small."""
    a = torch.linalg.qr(torch.randn(40, 24, dtype=torch.float64))[0] + 0.01 * torch.randn(40, 24, dtype=torch.float64)
    a = (a * torch.logspace(0, -torch.tensor(condition).log10().item(), 24, dtype=torch.float64)).float()
    actual, exact = torch.linalg.svdvals(a.to("aule")), torch.linalg.svdvals(a.double())
    near(actual / exact.to("aule", torch.float32), torch.ones(24), torch.tensor(1.0), 3e-5)


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (0, 4, 3), (2, 0, 3), (2, 3, 0)])
@pytest.mark.parametrize("full_matrices", [False, True])
def test_no_elements(shape, full_matrices):
    check_svd(torch.randn(*shape), full_matrices)


def test_layouts(dtype):
    base = torch.randn(4, 20, 26, dtype=dtype)
    check_svd(base.mT)
    check_svd(base[1:, 2:18, 3:20:2])
    check_svd(base[:, ::2].transpose(0, 1)[1:5])
    check_svd(base[0].expand(3, 20, 26))
    check_svd(torch.randn(2, 3, 6, 5, dtype=dtype))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_infinities_are_an_error(value, dtype):
    """In the words of the CPU."""
    for n in (5, 40, 100):
        a = torch.randn(2, n, n, dtype=dtype)
        a[1, 3, 3] = value
        for function in (torch.linalg.svd, torch.linalg.svdvals):
            with pytest.raises(torch.linalg.LinAlgError, match="Batch element 1.*non-finite values"):
                function(a.to("aule"))


def test_out(dtype):
    a = torch.randn(2, 9, 6, dtype=dtype).to("aule")
    expected = torch.linalg.svd(a)
    fresh = tuple(torch.empty(0, dtype=t.dtype, device="aule") for t in expected)
    poisoned = tuple(torch.full((*t.shape[:-1], 2 * t.shape[-1]), 3, dtype=t.dtype, device="aule")[..., ::2]
                     for t in expected)  # fmt: skip
    for outs in (fresh, poisoned):
        torch.linalg.svd(a, out=outs)
        for out, wanted in zip(outs, expected):
            assert torch.equal(out.cpu(), wanted.cpu())
    out = torch.empty(0, dtype=fresh[1].dtype, device="aule")
    assert torch.equal(torch.linalg.svdvals(a, out=out).cpu(), torch.linalg.svdvals(a).cpu())


def test_gradient(dtype):
    a = torch.randn(2, 7, 5, dtype=dtype)
    grads = []
    for x in (a.to(wide(a).dtype), a.to("aule")):
        x = x.requires_grad_(True)
        u, s, vh = torch.linalg.svd(x, full_matrices=False)
        (s.cumsum(-1).sum() + u.abs().cumsum(-1).sum() + vh.abs().sum(-1).cumsum(-1).sum()).backward()
        grads.append(x.grad)
    near(grads[1], grads[0], grads[0].abs().amax(), 100 * rounding(a, 7))
