"""linalg.cross against the CPU; made of rolls and products."""

import pytest
import torch

from helpers import FLOATS, INTS, assert_close, assert_close_to_float64, layouts, like_strided, random_tensor

pytestmark = pytest.mark.validated


@pytest.mark.parametrize("dtype", [*FLOATS, torch.float64], ids=str)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_floats(dim, dtype):
    x, y = torch.randn(3, 3, 3), torch.randn(3, 3, 3)
    assert_close_to_float64(lambda a, b: torch.linalg.cross(a, b, dim=dim), x, y, dtype=dtype, gradients=True, scale=5)


@pytest.mark.parametrize("dtype", INTS, ids=str)
def test_integers(dtype):
    x, y = random_tensor(4, 3, 5, dtype=dtype), random_tensor(4, 3, 5, dtype=dtype)
    assert torch.equal(torch.linalg.cross(x.to("aule"), y.to("aule"), dim=1).cpu(), torch.linalg.cross(x, y, dim=1))


def test_broadcast_strides_and_out():
    x, y = torch.randn(4, 1, 3), torch.randn(5, 3)[None]
    expected = torch.linalg.cross(x, y)
    for _, view in layouts(x):
        for _, other in layouts(y):
            assert_close(torch.linalg.cross(like_strided(view), like_strided(other)), expected)
    out = like_strided(torch.full((4, 3, 5), 9.0).mT)
    torch.linalg.cross(x.to("aule"), y.to("aule"), out=out)
    assert_close(out, expected)
    out = torch.empty(0, device="aule")
    torch.linalg.cross(x.to("aule"), y.to("aule"), out=out)
    assert_close(out, expected)
    assert_close(torch.cross(x.to("aule"), x.to("aule"), dim=2), torch.zeros_like(x))


def test_no_elements():
    assert torch.linalg.cross(torch.ones(0, 3, device="aule"), torch.ones(0, 3, device="aule")).shape == (0, 3)


def test_refused():
    x = torch.ones(4, 3, device="aule")
    with pytest.raises(RuntimeError, match="length 3"):
        torch.linalg.cross(x, x, dim=0)
    with pytest.raises(RuntimeError, match="length 3"):
        torch.linalg.cross(x, x, dim=0, out=torch.empty(0, device="aule"))
    with pytest.raises(RuntimeError, match="Bool"):
        torch.linalg.cross(x.bool(), x.bool())
