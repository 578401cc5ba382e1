"""bitsandbytes' operators on the device, on a stand-in for its library; test_integrations_others.py has the package."""

import importlib
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from torch_aule.integrations import bitsandbytes
from torch_aule.integrations._registry import Registry

STAND_IN = Path(__file__).parent / "stand_ins" / "bitsandbytes_init.py"
NF4 = np.array([-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
                -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
                0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023,
                1.0], np.float32)  # fmt: skip


@pytest.fixture
def ops(tmp_path, monkeypatch, device):
    """torch.ops.bitsandbytes of the stand-in, with the device's kernels."""
    if "bitsandbytes" in sys.modules:
        pytest.skip("bitsandbytes itself is there: test_integrations_others.py")
    (tmp_path / "bitsandbytes").mkdir()
    shutil.copy(STAND_IN, tmp_path / "bitsandbytes" / "__init__.py")
    monkeypatch.syspath_prepend(tmp_path)
    hooks = [hook for hook in bitsandbytes.HOOKS if hook.package == "bitsandbytes"]
    told = [(hook.state, hook.reason) for hook in hooks]  # by integrations.status(), whose hooks they are too
    registry = Registry(hooks)
    registry.start()
    package = importlib.import_module("bitsandbytes")
    assert [row.state for row in registry.status()] == ["applied"], registry.status()
    assert "aule" in package.supported_torch_devices
    yield torch.ops.bitsandbytes
    registry.disable(())
    assert "aule" not in package.supported_torch_devices
    for hook, (hook.state, hook.reason) in zip(hooks, told):
        hook.patches.forget()
    package.LIBRARY._destroy()
    del sys.modules["bitsandbytes"]


def packed(values, blocksize):
    rng = np.random.default_rng(torch.randint(2**31, ()).item())
    nibbles = rng.integers(0, 16, values + values % 2, dtype=np.uint8)
    absmax = rng.uniform(0.1, 2, -(-values // blocksize)).astype(np.float32)
    w = NF4[nibbles[:values]] * np.repeat(absmax, blocksize)[:values]
    weight = torch.from_numpy(nibbles[0::2] << 4 | nibbles[1::2])[:, None]
    return weight, torch.from_numpy(absmax), torch.from_numpy(w)


# Whole octets and rows that are none; storage as bytes and as other numbers.
@pytest.mark.parametrize("shape, storage", [((16, 64), torch.uint8), ((16, 64), torch.bfloat16), ((3, 7), torch.uint8),
                                            ((5, 9, 24), torch.uint8), ((129,), torch.uint8)])  # fmt: skip
def test_numbers_and_products(ops, shape, storage):
    count = int(np.prod(shape))
    weight, absmax, w = packed(count, 32)
    weight, w = weight.view(-1).view(storage)[:, None].to("aule"), w.view(shape)
    absmax = absmax.to("aule")
    for dtype in (torch.float32, torch.bfloat16):
        numbers = ops.dequantize_4bit(weight, absmax, 32, "nf4", shape, dtype)
        assert torch.equal(numbers.cpu(), w.to(dtype))
        out = torch.empty(shape, dtype=dtype, device="aule")
        ops.dequantize_4bit.out(weight, absmax, 32, "nf4", shape, dtype, out=out)
        assert torch.equal(out.cpu(), numbers.cpu())
    if len(shape) != 2:
        return
    n, k = shape
    x, bias = torch.randn(2, 3, k), torch.randn(n)
    expected = x.double() @ w.double().mT + bias.double()
    out = ops.gemm_4bit(x.to("aule"), weight, shape, absmax, 32, "nf4", bias.to("aule"))
    bound = (k + 32) * 2.0**-23 * (x.double().abs() @ w.double().abs().mT + bias.double().abs())
    assert bool(((out.cpu() - expected).abs() <= bound).all())
    code = torch.from_numpy(NF4).to("aule")
    out = ops.gemv_4bit(x[:1, :1].to("aule"), weight, shape, absmax, code, 32)
    assert bool(((out.cpu() + bias - expected[:1, :1]).abs() <= 2 * bound[:1, :1]).all())


def test_nested_scales(ops):
    weight, absmax, _ = packed(40 * 64, 64)
    codes, table = torch.randint(256, (40,), dtype=torch.uint8), torch.linspace(-1, 1, 256)
    outer, offset = torch.rand(1) + 0.5, torch.tensor(1.25)
    device = [t.to("aule") for t in (codes, table, outer, offset)]
    scale = ops.dequantize_blockwise(device[0], device[2], device[1], 256, torch.float32)
    assert torch.equal(scale.cpu(), table[codes.long()] * outer)
    x = torch.randn(4, 64, device="aule")
    flat = ops.gemm_4bit(x, weight.to("aule"), (40, 64), scale + device[3], 64, "nf4")
    nested = ops.gemm_4bit(x, weight.to("aule"), (40, 64), device[2], 64, "nf4", None, device[0], device[1], device[3])
    assert torch.equal(nested, flat)


def test_bytes_and_their_products(ops):
    a, b = (torch.randint(-127, 128, size, dtype=torch.int8) for size in ((2, 5, 24), (7, 24)))
    expected = a.int() @ b.int().mT
    assert torch.equal(ops.int8_linear_matmul(a.to("aule"), b.to("aule")).cpu(), expected)
    out = torch.empty(2, 5, 7, dtype=torch.int32, device="aule")
    ops.int8_linear_matmul.out(a.to("aule"), b.to("aule"), out=out)
    assert torch.equal(out.cpu(), expected)
    x = torch.randn(6, 16).half()
    x[2, 3] = 9
    by_row, by_column, rows, columns, outliers = ops.int8_double_quant(x.to("aule"), 6.0)
    kept = x.float().masked_fill(x.float().abs() >= 6, 0)
    assert torch.equal(outliers.cpu(), torch.tensor([3]))
    assert torch.equal(rows.cpu(), kept.abs().amax(1)) and torch.equal(columns.cpu(), kept.abs().amax(0))
    # Steps of a 127th, and half a step more where float16 has rounded before.
    for quantized, largest in ((by_row, rows[:, None]), (by_column, columns[None])):
        assert bool((quantized.cpu().float() * largest.cpu() / 127 - kept).abs().le(1.1 * largest.cpu() / 127).all())
