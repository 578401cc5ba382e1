"""NF4 and FP4 of bitsandbytes: scales in tensors of their own, plain and nested, against float64."""

import numpy as np
import pytest
import torch

import torch_aule
from helpers import FLOATS
from quantized_reference import EPS, NF4
from torch_aule import quantized

pytestmark = pytest.mark.validated
FP4 = np.array([0, 0.0625, 8, 12, 4, 6, 2, 3], np.float32) / np.float32(12)
LEVELS = {"nf4": NF4, "fp4": np.concatenate([FP4, -FP4])}  # fmt: skip


def made(format, n, k, group, is_nested):
    """Packed weights, their scales, and the weights as float32 numbers, on the CPU."""
    rng = np.random.default_rng(torch.randint(2**31, ()).item())
    nibbles = rng.integers(0, 16, n * k, dtype=np.uint8)
    packed = (nibbles[0::2] << 4 | nibbles[1::2]).reshape(n, k // 2)
    groups = -(-n * k // group)
    if is_nested:
        codes = rng.integers(0, 256, groups, dtype=np.uint8)
        table = np.sort(rng.uniform(-1, 1, 256)).astype(np.float32)
        outer = rng.uniform(0.1, 1, -(-groups // 256)).astype(np.float32)
        offset = np.float32(rng.uniform(0.5, 1))
        absmax = table[codes] * np.repeat(outer, 256)[:groups] + offset
        scales = [codes, table, outer, offset]
    else:
        absmax = rng.uniform(0.1, 2, groups).astype(np.float32)
        scales = [absmax]
    w = LEVELS[format][nibbles] * np.repeat(absmax, group)[: n * k]
    return torch.from_numpy(packed), [torch.from_numpy(np.asarray(s)) for s in scales], torch.from_numpy(w).view(n, k)


def on_device(tensors):
    return [t.to("aule") for t in tensors]


# Groups within rows, of several rows, and that end within rows.
@pytest.mark.parametrize("n, k, group", [(7, 256, 64), (40, 64, 32), (9, 72, 64), (3, 8, 128), (5, 4096, 4096)])
@pytest.mark.parametrize("is_nested", [False, True])
@pytest.mark.parametrize("format", LEVELS)
def test_weights_and_products(format, is_nested, n, k, group):
    packed, scales, w = made(format, n, k, group, is_nested)
    packed, scales = packed.to("aule"), on_device(scales)
    for dtype in FLOATS:
        assert torch.equal(quantized.dequantize(packed, format, k, dtype, scales, group).cpu(), w.to(dtype))
    indices = torch.tensor([n - 1, 0])
    assert torch.equal(
        quantized.rows(packed, indices.to("aule"), format, k, torch.float32, scales, group).cpu(), w[indices]
    )
    for m, dtype in ((1, torch.bfloat16), (6, torch.float16), (19, torch.float32)):
        x = torch.randn(m, k).to(dtype)
        expected, terms = x.double() @ w.double().mT, x.double().abs() @ w.double().abs().mT
        out = quantized.linear(x.to("aule"), packed, format, None, scales, group).cpu().double()
        # At most k + 32 roundings of float32, and one of the result; 2^-25 is half the smallest float16.
        tolerance = (k + 32) * 2.0**-23 * terms * (1 + EPS[dtype]) + EPS[dtype] * expected.abs() + 2.0**-25
        assert bool(((out - expected).abs() <= tolerance).all())


def test_gradients_over_nested_scales():
    packed, scales, w = made("nf4", 48, 128, 64, True)
    x = torch.randn(3, 128, device="aule", requires_grad=True)
    grad = torch.randn(3, 48)
    quantized.linear(x, packed.to("aule"), "nf4", None, on_device(scales), 64).backward(grad.to("aule"))
    expected, terms = grad.double() @ w.double(), grad.double().abs() @ w.double().abs()
    assert bool(((x.grad.cpu() - expected).abs() <= (48 + 32) * 2.0**-23 * terms + 2.0**-60).all())


def test_experts_have_the_scales_of_all_before_them():
    packed, scales, w = made("nf4", 3 * 5, 128, 64, False)
    x, ids = torch.randn(4, 128), torch.tensor([[0, 2], [1, 1], [2, 0], [0, 1]], dtype=torch.int32)
    out = quantized.linear_by_expert(x.to("aule"), packed.view(3, 5, 64).to("aule"), ids.to("aule"), "nf4",
                                     on_device(scales), 64)  # fmt: skip
    expected = torch.einsum("mk,msnk->msn", x.double(), w.view(3, 5, 128)[ids.long()].double())
    assert torch.allclose(out.cpu().double(), expected, rtol=0, atol=(128 + 32) * 2.0**-23 * 128 * 8)


def test_gradients_by_expert_over_nested_scales(monkeypatch):
    packed, scales, w = made("nf4", 3 * 16, 128, 64, True)
    monkeypatch.setattr(torch_aule.ops.quantized, "CHUNK_BYTES", 2 * 16 * 128 * 4)  # two experts at a time
    x, ids = torch.randn(7, 128, device="aule", requires_grad=True), torch.randint(3, (7, 2))
    grad, w = torch.randn(7, 2, 16), w.view(3, 16, 128)[ids].double()
    out = quantized.linear_by_expert(x, packed.view(3, 16, 64).to("aule"), ids.to("aule"), "nf4", on_device(scales), 64)
    out.backward(grad.to("aule"))
    expected = torch.einsum("msn,msnk->mk", grad.double(), w)
    terms = torch.einsum("msn,msnk->mk", grad.double().abs(), w.abs())
    assert bool(((x.grad.cpu() - expected).abs() <= (2 * 16 + 32) * 2.0**-23 * terms + 2.0**-60).all())


def test_scales_that_do_not_fit_are_refused():
    packed, scales, _ = made("nf4", 4, 64, 64, False)
    packed, scales = packed.to("aule"), on_device(scales)
    x = torch.ones(1, 64, device="aule")
    with pytest.raises(RuntimeError, match="one tensor of scales, two or four for nf4, but got 0"):
        quantized.linear(x, packed, "nf4")
    with pytest.raises(RuntimeError, match="powers of two up to 2\\^30, or a whole row, but got .48."):
        quantized.linear(x, packed, "nf4", None, scales, 48)
    with pytest.raises(RuntimeError, match="expected scales to be 8 numbers of Float .*, but got 4 of Float"):
        quantized.linear(x, packed, "nf4", None, scales, 32)
    with pytest.raises(RuntimeError, match="numbers of Float or a dtype beside it, but got 4 of Int"):
        quantized.linear(x, packed, "nf4", None, [scales[0].int()], 64)
    with pytest.raises(RuntimeError, match="no scales for q8_0"):
        quantized.dequantize(torch.zeros(1, 80, dtype=torch.uint8, device="aule"), "q8_0", 64, scales=scales)
