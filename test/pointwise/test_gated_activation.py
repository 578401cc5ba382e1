"""aule::gated_activation: an activation of one tensor times another one."""

import pytest
import torch

pytestmark = pytest.mark.validated


@pytest.mark.parametrize("activation", ["silu", "gelu_tanh"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_gated_activation(dtype, activation):
    """Beside float64: one rounding to the dtype, and a few of float32 in the exponential."""
    both = torch.randn(3, 7, 2 * 37) * 3
    gate, up = both.to(dtype).to("aule").chunk(2, -1)
    out = torch.ops.aule.gated_activation(gate, up, activation)
    g, u = (t.cpu().double() for t in (gate, up))
    f = torch.nn.functional
    expected = (f.silu(g) if activation == "silu" else f.gelu(g, approximate="tanh")) * u
    eps = torch.finfo(dtype).eps if dtype != torch.float64 else 2.0**-50
    assert out.dtype == dtype and out.is_contiguous()
    bound = expected.abs() * max(eps, 2.0**-20 if dtype != torch.float64 else 0) + u.abs() * eps * 1e-3
    assert bool(((out.cpu().double() - expected).abs() <= bound + 2.0**-24).all())


def test_gated_activation_errors():
    x = torch.zeros(2, 3, device="aule")
    gated = torch.ops.aule.gated_activation
    for kind, message, call in (
        (ValueError, "'silu' or 'gelu_tanh'", lambda: gated(x, x, "relu")),
        (RuntimeError, "one shape", lambda: gated(x, x[:1], "silu")),
        (RuntimeError, "floating point", lambda: gated(x.long(), x.long(), "silu")),
    ):
        with pytest.raises(kind, match=message):
            call()
    assert gated(x[:0], x[:0], "silu").shape == (0, 3)
