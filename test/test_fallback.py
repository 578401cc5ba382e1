"""The CPU fallback: right results, one warning an operator, the report; strict mode; operators it cannot reach."""

import warnings

import pytest
import torch

from helpers import assert_close

# A dense factorization and a polynomial: neither has a kernel.
REFUSED = [
    lambda x: torch.linalg.qr(x)[1],
    lambda x: torch.special.bessel_j1(x),
]


def test_strict_refuses_by_name(device):
    assert torch.aule.is_strict()
    with pytest.raises(NotImplementedError, match=r"aten::linalg_qr.*strict"):
        torch.linalg.qr(torch.randn(3, 3, device=device))


@pytest.mark.parametrize("function", REFUSED)
def test_fallback_computes(device, not_strict, function):
    x = torch.randn(4, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = function(x.to(device))
    assert y.device.type == "aule"
    assert_close(y, function(x), rtol=1e-4)


def test_report_and_warning(device, not_strict):
    torch.aule.reset_fallback_report()
    x = torch.randn(3, 3, device=device)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.linalg.eigvalsh(x @ x.t())
        torch.linalg.eigvalsh(x @ x.t())
    mine = [w for w in caught if "linalg_eigh" in str(w.message)]
    assert len(mine) <= 1
    (entry,) = [e for e in torch.aule.fallback_report() if "linalg_eigh" in e.op]
    assert entry.count == 2 and "3, 3" in entry.first_arguments
    torch.aule.reset_fallback_report()
    assert torch.aule.fallback_report() == []


def test_in_place_out_and_views(device, not_strict):
    x = torch.randn(6, 6)
    y = x.to(device)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y[1:4, ::2].copy_(torch.special.bessel_j0(y[1:4, ::2]))
        x[1:4, ::2].copy_(torch.special.bessel_j0(x[1:4, ::2]))
        assert_close(y, x, rtol=1e-4)
        out = torch.empty(0, device=device)
        torch.special.bessel_y0(y.abs() + 1, out=out)
        assert_close(out, torch.special.bessel_y0(x.abs() + 1), rtol=1e-3, atol=1e-4)
        y.polygamma_(1)
        x.polygamma_(1)
        assert_close(y, x, rtol=1e-3)


def test_strict_context(device):
    assert torch.aule.is_strict()
    with torch.aule.strict(False):
        assert not torch.aule.is_strict()
        with torch.aule.strict():
            assert torch.aule.is_strict()
        assert not torch.aule.is_strict()
    assert torch.aule.is_strict()
    torch.aule.set_strict(None)
    assert torch.aule.is_strict()  # what TORCH_AULE_STRICT says


def test_complex_is_whole_or_refused(device):
    z = torch.randn(4, dtype=torch.complex64)
    on_device = z.to(device)  # moving bits needs no arithmetic
    assert torch.equal(on_device.cpu(), z)
    with pytest.raises((NotImplementedError, RuntimeError, TypeError)):
        (on_device * on_device).cpu()
    with torch.aule.strict(False), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            product = on_device * on_device
        except (RuntimeError, TypeError):
            return  # refused whole
        assert_close(product, z * z, rtol=1e-5, atol=1e-6)


def test_operators_that_look_composite(device):
    """These reach kernels of their own on this device, not the CPU, nor an internal error."""
    torch.manual_seed(0)
    x = torch.randn(2, 5, 8)
    for module, inputs in (
        (torch.nn.LSTM(8, 6, batch_first=True), (x,)),
        (torch.nn.GRU(8, 6, batch_first=True), (x,)),
        (torch.nn.MultiheadAttention(8, 2, batch_first=True), (x, x, x)),
        (torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (x,)),
    ):
        module.eval()
        with torch.no_grad():
            expected = module(*inputs)[0]
            actual = module.to(device)(*(t.to(device) for t in inputs))[0]
        assert_close(actual, expected, rtol=1e-3, atol=1e-5)


def test_transformer_encoder_with_a_padding_mask(device):
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
    encoder = torch.nn.TransformerEncoder(layer, 2).eval()
    x = torch.randn(3, 5, 8)
    mask = torch.arange(5)[None] >= torch.tensor([5, 3, 2])[:, None]
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = encoder(x, src_key_padding_mask=mask)
        actual = encoder.to(device)(x.to(device), src_key_padding_mask=mask.to(device)).cpu()
    keep = ~mask
    assert_close(actual[keep], expected[keep], rtol=1e-3, atol=1e-5)
