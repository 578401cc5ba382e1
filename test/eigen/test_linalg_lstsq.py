"""Least squares: shapes, ranks and residuals as the CPU's drivers give them, solutions against float64, gradients."""

import pytest
import torch

from helpers import layouts
from linalg_reference import assert_gradients, dtypes, near, on_device, rounding, well_conditioned, wide

pytestmark = pytest.mark.validated
dtype = dtypes()
DRIVERS = ["gels", "gelsy", "gelsd", "gelss"]


def check(a: torch.Tensor, b: torch.Tensor, driver: str | None, rcond: float | None = None, condition=1.0) -> None:
    """Kinds of the results are the CPU's, values those of float64, with the rank that a's own dtype has."""
    actual = torch.linalg.lstsq(on_device(a), on_device(b), rcond=rcond, driver=driver)
    own = torch.linalg.lstsq(a, b, rcond=rcond, driver=driver)
    if rcond is None:
        rcond = max(a.shape[-2:]) * torch.finfo(a.dtype).eps
    # The CPU's gelsy puts columns first by what its memory held before.
    exact_driver = "gels" if driver == "gels" else "gelsd"
    expected = torch.linalg.lstsq(wide(a).resolve_conj(), wide(b).resolve_conj(), rcond=rcond, driver=exact_driver)
    for name in ("solution", "residuals", "rank", "singular_values"):
        found, of_cpu, exact = (getattr(t, name) for t in (actual, own, expected))
        assert (found.shape, found.dtype) == (of_cpu.shape, of_cpu.dtype), name
        if name == "solution":
            assert found.stride() == of_cpu.stride()
        if name == "rank" and driver != "gels":
            assert torch.equal(found.cpu(), exact)
        elif name == "residuals" and a.shape[-1] == 0 and found.numel():  # where the CPU's gels gives 0
            near(found, wide(b).square().sum(-2), wide(b).square().sum(), rounding(a, 4))
        elif found.numel():
            scale = exact.abs().amax()  # and more, for solutions and residuals may come near zero
            if name == "residuals":
                scale = scale + wide(b).abs().square().sum()
            elif name == "solution" and a.any():
                scale = scale + torch.linalg.norm(wide(b)) / torch.linalg.norm(wide(a))
            near(found, exact, scale, condition * rounding(a, max(a.shape[-2:])))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("m, n", [(1, 1), (5, 3), (3, 5), (7, 7), (1, 6), (6, 1), (40, 33), (33, 40), (90, 20)])
def test_shapes(m, n, driver, dtype):
    a = torch.randn(2, m, n, dtype=dtype) + 3 * torch.eye(m, n, dtype=dtype) * max(m, n) ** 0.5
    b = torch.randn(2, m, 4, dtype=dtype)
    check(a, b, driver)
    check(a[0], b[0], driver)
    check(a[0], b[0, :, 0], driver)
    check(a, b[..., 0], driver)


@pytest.mark.parametrize("driver", DRIVERS)
def test_batches_of_both(driver, dtype):
    a, b = torch.randn(3, 1, 6, 4, dtype=dtype), torch.randn(1, 2, 6, 3, dtype=dtype)
    check(a, b, driver, condition=30)
    check(a.mT, torch.randn(3, 2, 4, 3, dtype=dtype), driver, condition=30)


@pytest.mark.parametrize("driver", ["gelsy", "gelsd", "gelss"])
@pytest.mark.parametrize("m, n", [(9, 6), (6, 9), (8, 8)])
def test_rank(m, n, driver, dtype):
    """The solution of the least norm, and residuals where every matrix has full rank."""
    a = torch.randn(2, m, n, dtype=dtype)
    a[1] = torch.randn(m, 3, dtype=dtype) @ torch.randn(3, n, dtype=dtype)
    b = torch.randn(2, m, 2, dtype=dtype)
    check(a, b, driver, rcond=1e-4, condition=100)
    check(a[1], b[1], driver, rcond=1e-4, condition=100)
    check(torch.zeros(m, n, dtype=dtype), b[0], driver)
    scaled = torch.diag(torch.tensor([1.0, 0.5, 1e-3, 1e-6])).to(dtype)
    for rcond in (1e-2, 1e-5, 0.7):
        check(scaled, torch.randn(4, 1, dtype=dtype), driver, rcond=rcond)


def test_layouts(dtype):
    a, b = torch.randn(2, 8, 5, dtype=dtype), torch.randn(2, 8, 3, dtype=dtype)
    for (_, x), (_, y) in zip(layouts(a), layouts(b)):
        for driver in ("gels", "gelsd"):
            check(x, y, driver, condition=30)


@pytest.mark.parametrize("driver", DRIVERS)
def test_no_elements(driver):
    for shape, other in [((0, 3), (0, 2)), ((3, 0), (3, 2)), ((0, 5, 3), (0, 5, 2)), ((2, 0, 3), (2, 0, 2))]:
        check(torch.randn(shape), torch.randn(other), driver)
    result = torch.linalg.lstsq(torch.randn(5, 3, device="aule"), torch.randn(5, 0, device="aule"), driver=driver)
    assert result.solution.shape == (3, 0)  # the CPU's fails


def test_out(device):
    a, b = torch.randn(6, 4, device=device), torch.randn(6, 2, device=device)
    for driver in DRIVERS:
        expected = torch.linalg.lstsq(a, b, driver=driver)
        outs = [torch.full_like(t, 3) for t in expected]
        torch.ops.aten.linalg_lstsq.out(a, b, None, driver=driver, solution=outs[0], residuals=outs[1], rank=outs[2],
                                        singular_values=outs[3])  # fmt: skip
        for out, wanted in zip(outs, expected, strict=True):
            assert torch.equal(out.cpu(), wanted.cpu())


def test_errors(device):
    """In the words of the CPU."""
    a, b = torch.randn(5, 3), torch.randn(5, 2)
    singular = torch.eye(4)[:, [0, 1, 1]] * torch.tensor([1.0, 1.0, 0.0])
    cases = [(a, b[:4], "gels"), (a, b.double(), None), (a[0], b, None), (a, b, "other"), (a[None, None], b, None)]
    for x, y, driver in cases:
        with pytest.raises(RuntimeError) as expected:
            torch.linalg.lstsq(x, y, driver=driver)
        with pytest.raises(RuntimeError) as actual:
            torch.linalg.lstsq(x.to(device), y.to(device), driver=driver)
        assert str(actual.value) == str(expected.value)
    with pytest.raises(RuntimeError, match="does not have full rank"):
        torch.linalg.lstsq(singular.to(device), torch.randn(4, 1, device=device), driver="gels")
    zeros = torch.linalg.lstsq(torch.zeros(4, 3, device=device), torch.randn(4, 1, device=device), driver="gels")
    assert torch.equal(zeros.solution.cpu(), torch.zeros(3, 1))


@pytest.mark.parametrize("shape", [(7, 4), (4, 7), (2, 5, 5)])
def test_gradient(shape, dtype):
    a, b = well_conditioned(*shape, dtype=dtype), torch.randn(*shape[:-1], 3, dtype=dtype)
    for driver in ("gels", "gelsd"):
        assert_gradients(lambda x, y, driver=driver: torch.linalg.lstsq(x, y, driver=driver).solution, a, b,
                         factor=1e4)  # fmt: skip
