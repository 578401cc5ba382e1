"""aule::norm_linear_act: RMSNorm, a product, a gate and a residual as one kernel for few rows."""

import itertools
import random

import pytest
import torch

from helpers import FLOATS
from norm_linear_reference import expected

pytestmark = pytest.mark.validated
OP = torch.ops.aule.norm_linear_act


def check(out, reference, bound):
    assert out.shape == reference.shape and out.is_contiguous()
    excess = ((out.cpu().double() - reference).abs() - bound).nan_to_num(nan=torch.inf)
    assert excess.numel() == 0 or excess.max() <= 0, f"{excess.max().item():.3g} past the bound"


def operands(sizes, n, k, dtype, gated, with_bias, with_norm, with_residual):
    """Tensors on the CPU, some of them None."""
    rows = 2 * n if gated else n
    x, weight = torch.randn(*sizes, k) * 2, torch.randn(rows, k) / k**0.5
    bias, residual = torch.randn(rows), torch.randn(*sizes, n)
    x, weight, bias, residual = (t.to(dtype) for t in (x, weight, bias, residual))
    return (
        x,
        weight,
        bias if with_bias else None,
        torch.randn(k) if with_norm else None,
        residual if with_residual else None,
    )


def run(x, weight, bias, norm, eps, activation, residual):
    def put(t):
        return None if t is None else t.to("aule")

    return OP(put(x), put(weight), put(bias), put(norm), eps, activation, put(residual))


@pytest.mark.parametrize("activation", ["none", "silu", "gelu_tanh"])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_norm_linear_act(dtype, activation):
    """Rows from 1 to more than one kernel takes; sizes that divide nothing; each part there or not."""
    some = random.sample(list(itertools.product((False, True), repeat=3)), 3)
    for m, (with_bias, with_norm, with_residual) in itertools.product((1, 2, 3, 4, 9), some):
        n, k = int(torch.randint(1, 70, ())), 8 * int(torch.randint(1, 90, ()))
        x, weight, bias, norm, residual = operands(
            (m,), n, k, dtype, activation != "none", with_bias, with_norm, with_residual
        )
        out = run(x, weight, bias, norm, 1e-5, activation, residual)
        check(out, *expected(x, weight, bias, norm, 1e-5, activation, residual))


@pytest.mark.parametrize("k", [1, 12, 20, 4096, 14336])
def test_lengths(k):
    """Those that no load of 16 bytes divides take other kernels; long ones several turns."""
    x, weight, bias, norm, residual = operands((2, 1), 33, k, torch.bfloat16, True, True, True, True)
    out = run(x, weight, bias, norm, 1e-6, "silu", residual)
    check(out, *expected(x, weight, bias, norm, 1e-6, "silu", residual))


def test_many_workgroups():
    x, weight, *_ = operands((1,), 70_001 * 32, 8, torch.bfloat16, False, False, False, False)
    norm = torch.randn(8)
    check(run(x, weight, None, norm, 0.0, "none", None), *expected(x, weight, None, norm, 0.0, "none", None))


def test_strided_and_offset():
    """Views of larger tensors, whose neighbours are poisoned: rows of the gate and the rest are one weight."""
    k, n = 64, 10
    weight = torch.full((2 * n + 6, k + 8), torch.nan, dtype=torch.float16)
    weight[3 : 3 + 2 * n, :k] = torch.randn(2 * n, k)
    x = torch.full((5, 3 * k), torch.nan, dtype=torch.float16)
    x[1:4, k : 2 * k] = torch.randn(3, k)
    norm = torch.randn(k)
    x_view, w_view = x[1:4, k : 2 * k], weight[3 : 3 + 2 * n, :k]
    out = OP(x.to("aule")[1:4, k : 2 * k], weight.to("aule")[3 : 3 + 2 * n, :k], None, norm.to("aule"), 0.1, "silu")
    check(out, *expected(x_view, w_view, None, norm, 0.1, "silu", None))
    turned = torch.randn(k, n, dtype=torch.float16)  # a weight whose rows no load takes whole
    out = OP(x.to("aule")[1:4, k : 2 * k], turned.to("aule").t())
    check(out, *expected(x_view, turned.t(), None, None, 0.0, "none", None))


def test_special_numbers():
    """Zeros have no norm but eps; infinities and NaN stay in their row."""
    k = 32
    x = torch.zeros(3, k)
    x[1, 4], x[2, 5] = torch.inf, torch.nan
    weight, norm = torch.randn(6, k), torch.ones(k)
    out = run(x, weight, None, norm, 1e-5, "none", torch.ones(3, 6)).cpu()
    assert torch.equal(out[0], torch.ones(6)) and not bool(torch.isfinite(out[1:]).any())


def test_empty():
    for m, n in ((0, 4), (3, 0)):
        x, weight, bias, norm, residual = operands((m,), n, 16, torch.float32, True, True, True, True)
        assert run(x, weight, bias, norm, 1e-5, "silu", residual).shape == (m, n)


def test_errors():
    x, w = torch.zeros(2, 8, device="aule"), torch.zeros(6, 8, device="aule")
    half, norm = torch.zeros(6, dtype=torch.float16, device="aule"), torch.zeros(8, device="aule")
    for kind, message, call in (
        (ValueError, "'none', 'silu' or 'gelu_tanh', but got 'relu'", lambda: OP(x, w, activation="relu")),
        (RuntimeError, "x to have sizes", lambda: OP(x, w[:, :4])),
        (RuntimeError, "weight to have two dimensions", lambda: OP(x, w[0])),
        (RuntimeError, "rows of a gate and as many others", lambda: OP(x, w[:5], activation="silu")),
        (RuntimeError, "bias to have sizes", lambda: OP(x, w, half)),
        (RuntimeError, "norm to have sizes", lambda: OP(x, w, None, norm.half())),
        (RuntimeError, "norm to have sizes", lambda: OP(x, w, None, norm[:4])),
        (RuntimeError, "residual to have the result's sizes", lambda: OP(x, w, residual=x)),
        (RuntimeError, "same device", lambda: OP(x, w, None, norm.cpu())),
        (RuntimeError, "derivative|not implemented", lambda: OP(x.requires_grad_(), w).sum().backward()),
    ):
        with pytest.raises(kind, match=message):
            call()


def test_fake_kernel():
    x, weight, bias, norm, residual = (
        t.to("aule") for t in operands((2, 3), 6, 16, torch.bfloat16, True, True, True, True)
    )
    torch.library.opcheck(OP, (x, weight, bias, norm, 1e-5, "silu", residual), test_utils="test_faketensor")


def test_one_kernel():
    """A decoding step's product and what surrounds it is one launch."""
    x, weight, bias, norm, residual = (
        t.to("aule") for t in operands((1,), 16, 64, torch.float32, True, True, True, True)
    )
    OP(x, weight, bias, norm, 1e-5, "silu", residual)
    with torch.aule.profiler.profile() as p:
        OP(x, weight, bias, norm, 1e-5, "silu", residual)
    kernels = [e.name for e in p.events() if e.device_type == torch.autograd.DeviceType.PrivateUse1]
    assert [name.split("(")[0] for name in kernels] == ["gemv_norm"]
