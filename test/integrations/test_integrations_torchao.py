"""Weights of torchao on the device, on a stand-in for its classes; test_integrations_others.py has the package."""

import importlib
import shutil
import sys
from pathlib import Path

import pytest
import torch

from helpers import FLOATS
from quantized_reference import EPS
from torch_aule.integrations import torchao
from torch_aule.integrations._registry import Registry

STAND_IN = Path(__file__).parent / "stand_ins" / "torchao_tensors.py"


@pytest.fixture
def module(tmp_path, monkeypatch, device):
    """The stand-in in the place of both modules of torchao, with the hooks."""
    if "torchao" in sys.modules:
        pytest.skip("torchao itself is there: test_integrations_others.py")
    names = {hook.module for hook in torchao.HOOKS}
    for name in names:
        path = tmp_path.joinpath(*name.split(".")).with_suffix(".py")
        path.parent.mkdir(parents=True)
        shutil.copy(STAND_IN, path)
    monkeypatch.syspath_prepend(tmp_path)
    told = [(hook.state, hook.reason) for hook in torchao.HOOKS]
    registry = Registry(torchao.HOOKS)
    registry.start()
    found = {hook.name: importlib.import_module(hook.module) for hook in torchao.HOOKS}
    assert [row.state for row in registry.status()] == ["applied"] * 2, registry.status()
    yield found
    registry.disable(())
    for hook, (hook.state, hook.reason) in zip(torchao.HOOKS, told):
        hook.patches.forget()
    with pytest.raises(NotImplementedError, match="not for aule"):  # taken back
        found["int4"].Int4PlainInt32Tensor.from_hp(torch.ones(8, 8, device=device), [1, 8])
    for name in [name for name in sys.modules if name.split(".")[0] == "torchao"]:
        del sys.modules[name]


def check(weight, w, x, bias):
    """F.linear and its gradient against float64 of the weights as numbers."""
    leaf = x.to("aule").requires_grad_()
    y = torch.nn.functional.linear(leaf, weight, None if bias is None else bias.to("aule"))
    assert y.dtype == x.dtype
    expected = x.double() @ w.T + (0 if bias is None else bias.double())
    # Of k products and sums in float32, whose terms are at most so large, and of one rounding to x's dtype.
    terms = x.double().abs() @ w.abs().T + w.abs().amax() * x.double().abs().sum(-1, keepdim=True)
    # Of many rows the weight itself is rounded first.
    rounded = EPS[x.dtype] * (x.double().abs() @ w.abs().T) if x.shape[0] > 16 else 0
    bound = (x.shape[-1] + 16) * EPS[torch.float32] * terms + 2 * EPS[x.dtype] * expected.abs() + rounded + 1e-30
    assert ((y.detach().cpu().double() - expected).abs() <= bound).all()
    grad = torch.randn(expected.shape).to(x.dtype)
    y.backward(grad.to("aule"))
    expected = grad.double() @ w
    terms = grad.double().abs() @ w.abs()
    # The weight is rounded to x's dtype first.
    bound = ((w.shape[0] + 16) * EPS[torch.float32] + 3 * EPS[x.dtype]) * terms + 1e-30
    assert ((leaf.grad.cpu().double() - expected).abs() <= bound).all()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("group", [32, 128])
def test_int4(module, dtype, group):
    w = torch.randn(24, 256).to(dtype)
    weight = module["int4"].Int4PlainInt32Tensor.from_hp(w.to("aule"), [1, group])
    q = torch.stack([weight.qdata.cpu() >> shift & 15 for shift in range(0, 32, 4)], 2).reshape(24, 256)
    scale, zero = (t.cpu().double().t().repeat_interleave(group, 1) for t in (weight.scale, weight.zero_point))
    numbers = scale * (q - zero)
    half_a_step = scale.amax() * 0.5 + 0.02 * w.double().abs().amax()  # scales and quotients are rounded to the dtype
    assert (numbers - w.double()).abs().amax() <= half_a_step + scale.amax() * 0.5
    for m in (1, 5, 33):
        check(weight, numbers, torch.randn(m, 256).to(dtype), torch.randn(24).to(dtype))
    check(weight, numbers, torch.randn(2, 3, 256).to(dtype)[0], None)
    weight.scale.mul_(2)  # what was kept of the scales is made anew
    check(weight, 2 * numbers, torch.randn(3, 256).to(dtype), None)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("group, zeros", [(64, False), (64, True), (192, False)])
def test_int8(module, dtype, group, zeros):
    q = torch.randint(-128, 128, (17, 192), dtype=torch.int8)
    scale = torch.rand(17, 192 // group) / 128
    zero = torch.randint(-9, 9, scale.shape, dtype=torch.int8)
    zero = zero if zeros else torch.zeros_like(zero)
    cls = module["int8"].Int8Tensor
    weight = cls(q.to("aule"), scale.to("aule"), [1, group], dtype, zero_point=zero.to("aule"))
    spread = [t.double().repeat_interleave(group, 1) for t in (scale, zero)]
    numbers = spread[0] * (q.double() - spread[1])
    for m in (1, 7, 20):
        check(weight, numbers, torch.randn(m, 192).to(dtype), torch.randn(17).to(dtype))


def test_what_is_not_served_stays_torchaos(module):
    cls, x = module["int8"].Int8Tensor, torch.randn(2, 24, device="aule")
    q, scale = torch.ones(8, 24, dtype=torch.int8, device="aule"), torch.ones(8, 2, device="aule")
    for weight in (
        cls(q, scale, [1, 12], torch.float32),
        cls(q, scale[:1, :1], [8, 24], torch.float32),
        cls(q, scale[:, :1], [1, 24], torch.float32, act_quant_kwargs=object()),
        cls(q.cpu(), scale[:, :1].cpu(), [1, 24], torch.float32),
    ):
        with pytest.raises(NotImplementedError, match="own way"):
            torch.nn.functional.linear(x, weight)
    with pytest.raises(ValueError, match=r"int4 weights on aule.*\[8, 20\]"):
        module["int4"].Int4PlainInt32Tensor.from_hp(torch.ones(8, 20, device="aule"), [1, 8])
