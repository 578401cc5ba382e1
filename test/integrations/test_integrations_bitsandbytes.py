"""bitsandbytes' operators on the device, on a stand-in for its library; test_integrations_others.py has the package."""

import copy
import importlib
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from quantized_reference import NF4
from torch_aule.integrations import bitsandbytes
from torch_aule.integrations._registry import Registry

STAND_IN = Path(__file__).parent / "stand_ins" / "bitsandbytes_init.py"


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


# Betas, epsilon, learning rate and decay of every optimizer here.
BETA1, BETA2, BETA3, ALPHA, EPS, LR, DECAY = 0.9, 0.99, 0.999, 5.0, 1e-3, 1e-2, 0.1


def expected_step(name, g, p, states, step):
    """Parameter and states after a step, in float64, by each optimizer's paper."""
    decays_apart = name in ("adam", "lion", "ademamix")
    if not decays_apart:
        g = g + DECAY * p
    s = list(states)
    if name == "adam":
        s = [BETA1 * s[0] + (1 - BETA1) * g, BETA2 * s[1] + (1 - BETA2) * g**2]
        update = s[0] / (1 - BETA1**step) / ((s[1] / (1 - BETA2**step)).sqrt() + EPS)
    elif name == "ademamix":
        s = [BETA1 * s[0] + (1 - BETA1) * g, BETA3 * s[1] + (1 - BETA3) * g, BETA2 * s[2] + (1 - BETA2) * g**2]
        update = (s[0] / (1 - BETA1**step) + ALPHA * s[1]) / ((s[2] / (1 - BETA2**step)).sqrt() + EPS)
    elif name == "lion":
        update = (BETA1 * s[0] + (1 - BETA1) * g).sign()
        s = [BETA2 * s[0] + (1 - BETA2) * g]
    elif name == "momentum":
        s = [g if step == 1 else BETA1 * s[0] + g]
        update = s[0]
    else:
        s = [s[0] + g**2 if name == "adagrad" else BETA1 * s[0] + (1 - BETA1) * g**2]
        update = g / (s[0].sqrt() + EPS)
    return p * (1 - LR * DECAY if decays_apart else 1) - LR * update, s


@pytest.mark.parametrize("name", ["adam", "ademamix", "lion", "momentum", "rmsprop", "adagrad"])
@pytest.mark.parametrize("in_bytes", [True, False])
def test_steps_of_optimizers(ops, name, in_bytes):
    """Three steps, each from the states that the step before has left."""
    n = 3 * 256 + 100
    p = torch.randn(n)
    table = {True: torch.linspace(-1, 1, 256), False: torch.linspace(0, 1, 256)}  # with a sign, and without
    two = name in ("adam", "ademamix")
    signs = [name not in ("rmsprop", "adagrad")] * (2 if name == "ademamix" else 1) + [False] * two
    count = len(signs) - two  # of states in the first tensor
    sizes = (count, n) if count > 1 else (n,)
    if in_bytes:
        zero = [127 if s else 0 for s in signs]
        first = torch.full(sizes, zero[0], dtype=torch.uint8, device="aule")
        second = torch.zeros(n, dtype=torch.uint8, device="aule") if two else None
        factors = [torch.zeros(*sizes[:-1], 4, device="aule"), torch.zeros(4, device="aule") if two else None]
        maps = [table[signs[0]].to("aule"), table[False].to("aule") if two else None]
    else:
        first = torch.zeros(sizes, device="aule")
        second = torch.zeros(n, device="aule") if two else None

    def states():
        """In float64, as the next step finds them."""
        found = [*first.reshape(count, n)] + ([second] if two else [])
        if not in_bytes:
            return [s.cpu().double() for s in found]
        scales = [*factors[0].reshape(count, 4)] + ([factors[1]] if two else [])
        return [table[sign][s.cpu().long()].double() * f.cpu().double().repeat_interleave(256)[:n]
                for sign, s, f in zip(signs, found, scales)]  # fmt: skip

    there, numbers = p.to("aule"), (BETA1, BETA2, BETA3, ALPHA, EPS)
    for step in (1, 2, 3):
        g = torch.randn(n)
        g = torch.where(g.abs() < 0.05, 0.05, g)  # Lion's sign of a sum near 0 is that of its rounding
        before, held = states(), there.cpu().double()
        expected, after = expected_step(name, g.double(), held, before, step)
        if in_bytes:
            ops.optimizer_update_8bit_blockwise(name, g.to("aule"), there, first, second, *numbers, step, LR, maps[0],
                                                maps[1], factors[0], factors[1], DECAY, 1.0)  # fmt: skip
        else:
            ops.optimizer_update_32bit(name, g.to("aule"), there, first, second, None, 0.0, 0.0, *numbers, DECAY, step,
                                       LR, 1.0)  # fmt: skip
        mine = there.cpu().double()
        near_zero = (BETA1 * before[0] + (1 - BETA1) * g).abs() < 1e-6 if name == "lion" else torch.zeros(n).bool()
        # Some 20 roundings of float32 of terms that the update is the sum of; it is at most a few hundred.
        assert bool(((mine - expected).abs() <= 1e-5 * (expected.abs() + 1))[~near_zero].all())
        for sign, old, got, want in zip(signs, before, states(), after):
            gap = 2 / 255 if sign else 1 / 255
            blocks = torch.nn.functional.pad(want.abs(), (0, -n % 256)).view(-1, 256)
            half = 0.51 * gap * blocks.amax(1).repeat_interleave(256)[:n] if in_bytes else 0
            # The terms of a state may cancel. At most ten roundings of each: of the gradient with its decay, which may
            # be squared, of the factors, whose constants are rounded too, of products and of the sum.
            own = g.double().abs() + DECAY * held.abs()
            terms = old.abs() + (own if sign else own**2)
            assert bool(((got - want).abs() <= half + 10 * 2.0**-24 * terms + 2.0**-126).all())


def test_updates_that_are_too_long_are_shortened(ops):
    p, g = torch.randn(50), torch.randn(50)
    there, norm = p.to("aule"), torch.zeros(1, device="aule")
    first = torch.zeros(50, device="aule")
    limit = 0.25
    ops.optimizer_update_32bit("lars", g.to("aule"), there, first, None, norm, limit, p.norm().item(), BETA1, 0.0, 0.0,
                               0.0, EPS, 0.0, 1, LR, 1.0)  # fmt: skip
    update = g * min(1.0, (limit * p.norm() / g.norm()).item())
    assert torch.allclose(there.cpu(), p - LR * update, atol=1e-6)
    assert torch.allclose(norm.cpu(), g.norm() ** 2, rtol=1e-5)


class Product4bit(torch.autograd.Function):
    """As bitsandbytes has it: the packed weight forwards, its numbers for the gradient."""

    @staticmethod
    def forward(ctx, x, weight, scales, shape):
        ctx.weight, ctx.scales, ctx.shape = weight, scales, shape
        codes, table, outer, offset = scales
        return torch.ops.bitsandbytes.gemm_4bit(x, weight, shape, outer, 64, "nf4", None, codes, table, offset)

    @staticmethod
    def backward(ctx, grad):
        codes, table, outer, offset = ctx.scales
        ops = torch.ops.bitsandbytes
        absmax = ops.dequantize_blockwise(codes, outer, table, 256, torch.float32) + offset
        return grad @ ops.dequantize_4bit(ctx.weight, absmax, 64, "nf4", ctx.shape, grad.dtype), None, None, None


class Adapted(torch.nn.Module):
    """A layer of NF4 with nested scales, and an adapter; with `numbers`, of a weight that was decoded."""

    def __init__(self, weight, scales, numbers, rank=4):
        super().__init__()
        self.weight, self.scales, self.numbers = weight, scales, numbers
        self.down = torch.nn.Parameter(torch.randn(rank, numbers.shape[1], device="cpu") / 8)
        self.up = torch.nn.Parameter(torch.zeros(numbers.shape[0], rank, device="cpu"))

    def forward(self, x):
        if x.device.type == "cpu":
            y = torch.nn.functional.linear(x, self.numbers)
        else:
            y = Product4bit.apply(x, self.weight, self.scales, tuple(self.numbers.shape))
        return y + x @ self.down.mT @ self.up.mT


def test_qlora_learns_as_on_the_cpu(ops):
    """50 steps of adapters in a tiny Llama; test_integrations_others.py has the packages' own."""
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=64, hidden_size=64, intermediate_size=128, num_hidden_layers=1, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64,
    )  # fmt: skip
    here = transformers.LlamaForCausalLM(config).requires_grad_(False)
    for name, layer in list(here.named_modules()):
        if isinstance(layer, torch.nn.Linear):
            size = layer.weight.numel()
            rng = np.random.default_rng(torch.randint(2**31, ()).item())
            nibbles = rng.integers(0, 16, size, dtype=np.uint8)
            codes, table = torch.randint(256, (size // 64,), dtype=torch.uint8), torch.linspace(-1, 1, 256)
            outer, offset = torch.full((-(-size // 64 // 256),), 0.05), torch.tensor(0.15)
            absmax = table[codes.long()] * 0.05 + offset
            numbers = torch.from_numpy(NF4[nibbles]) * absmax.repeat_interleave(64)
            weight = torch.from_numpy(nibbles[0::2] << 4 | nibbles[1::2])[:, None].to("aule")
            scales = [t.to("aule") for t in (codes, table, outer, offset)]
            here.set_submodule(name, Adapted(weight, scales, numbers.view(layer.weight.shape)))
    data = torch.randint(1, 64, (8, 4, 12))
    losses, there = {}, copy.deepcopy(here).to("aule")
    for place, model in (("cpu", here), ("aule", there)):
        optimizer, seen = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2), []
        for step in range(50):
            batch = data[step % len(data)].to(place)
            loss = model(input_ids=batch, labels=batch).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            seen.append(loss.detach())
        losses[place] = torch.stack(seen).tolist()
    assert len(optimizer.param_groups[0]["params"]) == 2 * (7 + 1)
    assert losses["cpu"][-1] < losses["cpu"][0] - 0.2
    assert losses["aule"] == pytest.approx(losses["cpu"], abs=1e-2)
