"""GPTQ and AWQ layers on a stand-in for gptqmodel's; test_integrations_others.py has the package."""

import copy
import importlib
import shutil
import sys
from pathlib import Path

import pytest
import torch

from helpers import FLOATS
from quantized_reference import EPS
from torch_aule import quantized
from torch_aule.integrations import gptqmodel
from torch_aule.integrations._registry import Registry

STAND_IN = Path(__file__).parent / "stand_ins" / "gptqmodel_layers.py"
KINDS = ["gptq", "gptq ordered", "awq"]


@pytest.fixture
def modules(tmp_path, monkeypatch, device):
    """The stand-in in the place of the package's modules, with the hooks."""
    if "gptqmodel" in sys.modules:
        pytest.skip("gptqmodel itself is there: test_integrations_others.py")
    hooks = [hook for hook in gptqmodel.HOOKS if hook.package == "gptqmodel"]
    for hook in hooks:
        path = tmp_path.joinpath(*hook.module.split(".")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(STAND_IN, path)
    monkeypatch.syspath_prepend(tmp_path)
    told = [(hook.state, hook.reason) for hook in hooks]
    registry = Registry(hooks)
    registry.start()
    found = {hook.name: importlib.import_module(hook.module) for hook in hooks}
    assert [row.state for row in registry.status()] == ["applied"] * 3, registry.status()
    yield found
    registry.disable(())
    for hook, (hook.state, hook.reason) in zip(hooks, told):
        hook.patches.forget()
    with pytest.raises(ValueError, match="aule"):  # taken back
        found["devices"].DEVICE("aule")
    for name in [name for name in sys.modules if name.split(".")[0] == "gptqmodel"]:
        del sys.modules[name]


def layer(modules, kind, n, k, group, bits=4, scales=torch.float16, bias=True):
    """A layer of random bits on the CPU, as the package loads it."""
    owner = modules["awq"].AwqTorchLinear if kind == "awq" else modules["gptq"].TorchLinear
    made = owner(bits, group, False, kind == "gptq ordered", k, n, bias)
    for name in ("qweight", "qzeros"):
        words = getattr(made, name)
        words.copy_(torch.randint(-(2**31), 2**31, words.shape))
    made.scales = (torch.rand(made.scales.shape) / 2 ** (bits - 1)).to(scales)
    if kind == "gptq ordered":
        made.g_idx = made.g_idx[torch.randperm(k)]
    if bias:
        made.bias.copy_(torch.randn(n))
    return made


def packed_numbers(made):
    """The weight [n, k] that the kernels read, with the inputs in their order."""
    k, buffers = made.in_features, made._buffers
    scales, format = made.scales.t(), "int4" if made.bits == 4 else "int8"
    weight = quantized.dequantize(
        buffers["_aule_rows"], format, k, scales=[scales, buffers["_aule_zeros"]], group=k // scales.shape[1]
    ).cpu()
    order = buffers["_aule_order"]
    return weight if order is None else weight[:, order.cpu().argsort()]


def test_device(modules):
    known = modules["devices"].DEVICE
    assert known("aule") is known.ALL and known("cpu") is known.CPU
    with pytest.raises(ValueError, match="aula"):
        known("aula")


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("group", [32, -1])
def test_layers_stay_packed(modules, dtype, bits, kind, group):
    made = layer(modules, kind, 24, 192, group, bits)
    exact = copy.deepcopy(made)
    exact.scales = exact.scales.float()  # with float32 the package rounds once, as the kernels do
    numbers = exact.dequantize_weight().t()
    there = made.to("aule")
    there.post_init()
    assert torch.equal(packed_numbers(there), numbers)
    rows = there._buffers["_aule_rows"]
    assert rows.device.type == "aule" and rows.numel() * 8 == 24 * 192 * bits and "qweight" not in there._buffers
    w, bias = numbers.double(), there.bias.cpu().double()
    for m in (1, 5, 20):
        x = torch.randn(m, 192).to(dtype)
        leaf = x.to("aule").requires_grad_()
        y = there(leaf)
        expected = x.double() @ w.T + bias
        # Sums of k terms in float32, which are at most so large, a weight that is rounded first for many rows, one
        # rounding of the product, and one of the sum with a bias of another dtype.
        terms = x.double().abs() @ w.abs().T + w.abs().amax() * 2**bits * x.double().abs().sum(1, keepdim=True)
        bound = 208 * EPS[torch.float32] * terms
        bound += 2 * EPS[dtype] * (expected.abs() + bias.abs() + (m > 16) * terms) + 1e-30
        assert y.dtype == dtype and ((y.detach().cpu().double() - expected).abs() <= bound).all()
        y.sum().backward()
        bound = (40 * EPS[torch.float32] + 3 * EPS[dtype]) * w.abs().sum(0) + 1e-30
        assert ((leaf.grad.cpu().double() - w.sum(0)).abs() <= bound).all()


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("kind", KINDS)
def test_tensors_of_the_checkpoint_come_back(modules, kind, bits):
    """Saved, loaded again, copied, taken to the CPU and back: always the tensors that the layer was loaded from."""
    made = layer(modules, kind, 16, 128, 16, bits)
    before = {name: value.clone() for name, value in made.state_dict().items()}
    x = torch.randn(3, 128, device="aule")

    def check(there, expected=before):
        state = there.state_dict()
        assert state.keys() == expected.keys()
        for name, value in state.items():
            assert value.is_contiguous() and torch.equal(value.cpu(), expected[name]), name

    there = copy.deepcopy(made).to("aule")
    kept = there.forward  # accelerate's hooks keep it from before
    there.post_init()
    check(there)
    y = there(x)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(made), "dequantize_weight", None)
        assert torch.equal(kept(x), y)
    assert torch.equal(there.dequantize_weight().cpu(), made.dequantize_weight())
    again = copy.deepcopy(there)
    assert "_aule_rows" in again._buffers and torch.equal(again(x), y)
    again = again.cpu()
    check(again)
    assert "_aule_rows" not in again._buffers and type(again) is type(made)
    torch.testing.assert_close(again(x.cpu()), y.cpu(), rtol=1e-2, atol=1e-2)  # scales are multiplied in float16
    again = again.to("aule")
    assert "_aule_rows" in again._buffers and torch.equal(again(x), y)
    double = copy.deepcopy(again).double()
    assert "_aule_rows" not in double._buffers and double.to(torch.float16)._buffers.keys() >= {"_aule_rows"}
    other = layer(modules, kind, 16, 128, 16, bits)
    again.load_state_dict(other.state_dict())
    assert "_aule_rows" in again._buffers
    check(again, other.state_dict())
    other = other.to("aule")
    other.post_init()
    assert torch.equal(again(x), other(x))
    there.qweight = other.qweight  # adapters of peft set it
    assert torch.equal(there.qweight, other.qweight)


def test_what_is_not_served_stays_the_packages(modules):
    x = torch.randn(2, 48, device="aule")
    uneven = layer(modules, "gptq", 16, 48, 16)
    uneven.g_idx[0] = 2
    rotated = layer(modules, "gptq", 16, 48, 16)
    rotated.online_full_had = True
    for made in (layer(modules, "gptq", 16, 48, 24), layer(modules, "awq", 16, 48, 16, bits=2), uneven, rotated):
        expected = made(x.cpu())
        there = made.to("aule")
        there.post_init()
        assert "qweight" in there._buffers
        torch.testing.assert_close(there(x).cpu(), expected, rtol=1e-4, atol=1e-4)


def test_gptq_is_saved_in_its_version(modules):
    """The package adds what version 1 subtracts, and a saved file is of version 1 again."""
    quantizers = pytest.importorskip("transformers.quantizers.quantizer_gptq")
    quantizer = object.__new__(quantizers.GptqHfQuantizer)
    for bits, ones in ((4, 0x11111111), (8, 0x01010101)):
        first, second = (layer(modules, "gptq", 16, 64, 32, bits) for _ in range(2))
        before = [made.qzeros.clone() for made in (first, second)]
        first.qzeros += ones
        first.qzero_format(format=2)
        model = torch.nn.Sequential(first, second).to("aule")
        for part in model:
            part.post_init()
        state, _ = quantizer.get_state_dict_and_metadata(model)
        for i, qzeros in enumerate(before):
            assert torch.equal(state[f"{i}.qzeros"].cpu(), qzeros)
    assert quantizer.get_state_dict_and_metadata(torch.nn.Linear(2, 2))[0] is None


@pytest.mark.parametrize("kind", KINDS)
def test_compiled(modules, kind):
    made = layer(modules, kind, 16, 64, 16).to("aule")
    made.post_init()
    x = torch.randn(3, 64, device="aule")
    compiled = torch.compile(made, fullgraph=True)
    torch.testing.assert_close(compiled(x), made(x), rtol=1e-5, atol=1e-5)
