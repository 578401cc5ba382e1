"""Norms of lists and what gradient clipping is made of, against float64."""

import math

import pytest
import torch

from helpers import assert_close, launches, random_tensor

pytestmark = [pytest.mark.current_lavapipe, pytest.mark.validated]

ORDERS = [1, 2, math.inf]
SIZES = [(1,), (), (3, 5), (1023,), (1024,), (1025,), (2, 3, 4), (7000,), (100, 301)]


def references(tensors, order, result):
    return [torch.linalg.vector_norm(t.double(), order).to(result) for t in tensors]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dtype, result", [
    (torch.float32, None), (torch.float16, None), (torch.bfloat16, None), (torch.bfloat16, torch.float32),
    (torch.float16, torch.float32), (torch.float32, torch.float64), (torch.float64, None),
], ids=str)  # fmt: skip
def test_norms(device, order, dtype, result):
    """Tensors of one chunk and of several, also views: two dispatches for 48 of them."""
    tensors = [random_tensor(*s, dtype=dtype) * 0.1 for s in SIZES * 6]
    flat = torch.cat([t.flatten() for t in tensors]).to(device)
    mine = [part.view(s) for part, s in zip(flat.split([t.numel() for t in tensors]), SIZES * 6, strict=True)]
    mine[2] = tensors[2].to(device).t().contiguous().t()
    norms = []
    assert launches(lambda: norms.extend(torch._foreach_norm(mine, order, result))) == 4
    assert all(n.shape == () and n.dtype == (result or dtype) for n in norms)
    # float32: an accumulator of a chunk rounds 256 times, by 2^-24 at most, and its terms have one sign.
    table = {torch.float64: 1e-13, torch.float32: 1.6e-5, torch.float16: 1e-3, torch.bfloat16: 8e-3}
    tolerance = table[result or dtype]
    assert_close(norms, references(tensors, order, result or dtype), rtol=tolerance, atol=0)


def test_small_tensors_are_one_dispatch(device):
    tensors = [random_tensor(i % 37 + 1) for i in range(700)]
    mine = [t.to(device) for t in tensors]
    norms = []
    assert launches(lambda: norms.extend(torch._foreach_norm(mine))) == -(-700 // 48)
    assert_close(norms, references(tensors, 2, torch.float32), rtol=1e-6, atol=0)


def test_mixtures(device):
    """Two dtypes, no elements, gaps, another order, NaN and infinity: each as PyTorch's loop has it."""
    tensors = [random_tensor(5), random_tensor(6, dtype=torch.float16), torch.zeros(0), random_tensor(4, 6)[:, ::2],
               torch.tensor([1.0, math.nan, 2]), torch.tensor([1.0, -math.inf]), random_tensor(3)]  # fmt: skip
    mine = [t.to(device) for t in tensors[:3]] + [random_tensor(4, 6).to(device)[:, ::2]]
    mine[3].copy_(tensors[3])
    mine += [t.to(device) for t in tensors[4:]]
    for order in (1, 2, 0):
        assert_close(torch._foreach_norm(mine, order), torch._foreach_norm(tensors, order), rtol=2e-3, atol=1e-6)
    some = [i for i, t in enumerate(tensors) if t.numel()]
    expected = torch._foreach_norm([tensors[i] for i in some], math.inf)
    assert_close(torch._foreach_norm([mine[i] for i in some], math.inf), expected)
    for values, order, dtype in [(mine, math.inf, None), ([m.int() for m in mine], 2, None), (mine, 2, torch.float16)]:
        with pytest.raises((RuntimeError, IndexError)):
            torch._foreach_norm(values, order, dtype)


def test_gradients(device):
    def run(where):
        leaves = [values[i].to(where).requires_grad_() for i in range(3)]
        torch.stack(torch._foreach_norm(leaves)).sum().backward()
        return [t.grad for t in leaves]

    values = [random_tensor(4), random_tensor(2, 3), random_tensor(1)]
    assert_close(run(device), run("cpu"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_multiply_by_a_number_on_the_device(device, dtype):
    tensors = [random_tensor(i % 37 + 1, dtype=dtype) for i in range(100)]
    factor = torch.tensor(0.3)
    mine, number = [t.to(device) for t in tensors], factor.to(device)
    version = mine[0]._version
    assert launches(lambda: torch._foreach_mul_(mine, number)) == 3
    assert mine[0]._version > version
    assert_close(mine, [(t.float() * factor).to(dtype) for t in tensors])
    # Factors of other dtypes, and one that the list writes, too: as PyTorch's loop has it.
    for other in (torch.tensor(2), torch.tensor(0.5, dtype=torch.bfloat16)):
        x = random_tensor(5)
        y = x.to(device)
        torch._foreach_mul_([y[:2], y[2:]], other.to(device))
        assert_close(y, x * other)
        with pytest.raises(RuntimeError, match="single memory location"):
            torch._foreach_mul_([y[:2], y[2:]], y[1])


def test_clipping_700_gradients(device):
    params = [torch.nn.Parameter(torch.zeros(i % 61 + 1, device=device)) for i in range(700)]
    grads = [random_tensor(*p.shape) for p in params]
    for p, g in zip(params, grads, strict=True):
        p.grad = g.to(device)
    total = []
    # 15 each for norms, their stack and the product, and the numbers between.
    assert launches(lambda: total.append(torch.nn.utils.clip_grad_norm_(params, 1.0))) <= 3 * 15 + 6
    expected = torch.cat([g.flatten() for g in grads]).double().norm()
    assert_close(total[0], expected.float())
    assert_close([p.grad for p in params], [(g / (expected + 1e-6)).float() for g in grads])
