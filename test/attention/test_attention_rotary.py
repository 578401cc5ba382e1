"""Rotary position embedding against its formula in float64."""

import pytest
import torch

import torch_aule
from helpers import FLOATS, assert_close

pytestmark = pytest.mark.validated


def tables(rows, half, dtype=torch.float32):
    angles = torch.outer(torch.arange(rows).double(), 10000 ** (-torch.arange(half).double() / half))
    return angles.cos().to(dtype), angles.sin().to(dtype)


def composed(x, cos, sin, positions=None, interleaved=False):
    x, cos, sin = x.double(), cos.double(), sin.double()
    half = cos.size(1)
    if positions is None:
        cos, sin = cos[: x.size(-2)], sin[: x.size(-2)]
    else:
        cos, sin = cos[positions], sin[positions]
        if positions.dim() == 2:
            cos, sin = cos[:, None], sin[:, None]
    turned, rest = x[..., : 2 * half], x[..., 2 * half :]
    if interleaved:
        a, b = turned[..., 0::2], turned[..., 1::2]
        turned = torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)
    else:
        a, b = turned[..., :half], turned[..., half:]
        turned = torch.cat((a * cos - b * sin, a * sin + b * cos), -1)
    return torch.cat((turned, rest), -1)


def check(x, cos, sin, positions=None, interleaved=False):
    """Value, gradient and the form in place; `x` is a view whose strides the device's tensor has too."""
    here = [t if t is None else t.to("aule") for t in (cos, sin, positions)]
    a, b = x.to("aule").requires_grad_(), x.double().requires_grad_()
    y = torch_aule.rotary_embedding(a, *here, interleaved=interleaved)
    z = composed(b, cos, sin, positions, interleaved)
    assert y.dtype == x.dtype
    assert_close(y, z.to(x.dtype))
    g = torch.randn_like(z).to(x.dtype)
    y.backward(g.to("aule"))
    z.backward(g.double())
    assert_close(a.grad, b.grad.to(x.dtype))
    c = a.detach().clone()
    assert torch_aule.rotary_embedding(c, *here, interleaved=interleaved, inplace=True) is c
    assert torch.equal(c.cpu(), y.detach().cpu())


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("dtype", FLOATS)
def test_values_and_gradients(dtype, interleaved):
    cos, sin = tables(50, 16)
    x = torch.randn(2, 5, 37, 32).to(dtype)
    check(x, cos, sin, interleaved=interleaved)
    check(x, cos.to(dtype), sin.to(dtype), torch.randint(50, (2, 37)), interleaved)
    check(x[0], cos, sin, torch.randint(50, (37,)).int(), interleaved)  # no batch
    check(x[0, 0], cos, sin, interleaved=interleaved)  # nor heads


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("size, half", [(80, 16), (10, 3), (64, 8), (6, 3)])
def test_part_of_the_elements(size, half, interleaved):
    check(torch.randn(2, 3, 11, size), *tables(20, half), interleaved=interleaved)
    check(torch.randn(2, 3, 11, size).half(), *tables(20, half), interleaved=interleaved)


def test_strides():
    cos, sin = tables(40, 16)
    check(torch.randn(2, 40, 6, 32).transpose(1, 2), cos, sin)
    check(torch.randn(2, 40, 3, 6, 32)[:, :, 1].transpose(1, 2), cos, sin)
    check(torch.randn(2, 6, 40, 33)[..., 1:], cos, sin)  # nothing is aligned
    x = torch.randn(2, 32, 40)
    y = torch_aule.rotary_embedding(x.to("aule").transpose(1, 2), cos.to("aule"), sin.to("aule"))
    assert_close(y, composed(x.transpose(1, 2), cos, sin).float())
    wide = torch.randn(2, 40, 3 * 64).to("aule")  # q, k and v side by side: in place through a view
    before, q = wide.cpu(), wide.view(2, 40, 3, 2, 32)[:, :, 0].transpose(1, 2)
    torch_aule.rotary_embedding(q, cos.to("aule"), sin.to("aule"), inplace=True)
    assert_close(q, composed(before.view(2, 40, 3, 2, 32)[:, :, 0].transpose(1, 2), cos, sin).float())
    assert torch.equal(wide.cpu()[..., 64:], before[..., 64:])


def test_gradient_in_place_and_of_gradients():
    cos, sin = (t.to("aule") for t in tables(8, 4))
    x = torch.randn(3, 8, 8, device="aule", requires_grad=True)
    g = torch.randn(3, 8, 8, device="aule")
    torch_aule.rotary_embedding(x * 2, cos, sin, inplace=True).backward(g)
    other = x.detach().clone().requires_grad_()
    (torch_aule.rotary_embedding(other * 2, cos, sin)).backward(g)
    assert_close(x.grad, other.grad.cpu())
    (first,) = torch.autograd.grad(torch_aule.rotary_embedding(x, cos, sin).pow(2).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert_close(second, torch.full((3, 8, 8), 2.0))  # a rotation keeps lengths
    torch.library.opcheck(torch.ops.aule.rotary_embedding, (x, cos, sin), test_utils=("test_schema", "test_faketensor"))


def test_compile():
    cos, sin = (t.to("aule") for t in tables(8, 4))
    x = torch.randn(3, 8, 8, device="aule", requires_grad=True)
    function = torch.compile(lambda x: torch_aule.rotary_embedding(x * 2, cos, sin), backend="aot_eager")
    function(x).sum().backward()
    expected = composed(x.detach().cpu() * 2, cos.cpu(), sin.cpu()).float()
    assert_close(function(x), expected)


def test_refusals():
    cos, sin = (t.to("aule") for t in tables(8, 4))
    x = torch.randn(2, 8, 8, device="aule")
    with pytest.raises(RuntimeError, match="last dimension"):
        torch_aule.rotary_embedding(x[..., :6], cos, sin)
    with pytest.raises(RuntimeError, match="rows"):
        torch_aule.rotary_embedding(torch.randn(9, 8, device="aule"), cos, sin)
    with pytest.raises(RuntimeError, match="float32"):
        torch_aule.rotary_embedding(x.long(), cos, sin)
    with pytest.raises(RuntimeError, match="dense"):
        torch_aule.rotary_embedding(x.transpose(1, 2), cos, sin, inplace=True)
    with pytest.raises(NotImplementedError, match="cos and sin"):
        torch_aule.rotary_embedding(x, cos.clone().requires_grad_(), sin)
    with pytest.raises(IndexError, match="rotary_embedding"):
        torch_aule.rotary_embedding(x, cos, sin, torch.full((8,), 8, device="aule")).cpu()
    assert torch_aule.rotary_embedding(x[:0], cos, sin).shape == (0, 8, 8)
