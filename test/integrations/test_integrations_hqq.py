"""Layers of HQQ on a stand-in for the package's; test_integrations_others.py has the package."""

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
from torch_aule.integrations import hqq
from torch_aule.integrations._registry import Registry

STAND_IN = Path(__file__).parent / "stand_ins" / "hqq_quantize.py"


@pytest.fixture
def module(tmp_path, monkeypatch, device):
    """The stand-in in the place of the package's module, with the hook."""
    if "hqq" in sys.modules:
        pytest.skip("hqq itself is there: test_integrations_others.py")
    (hook,) = [hook for hook in hqq.HOOKS if hook.package == "hqq"]
    path = tmp_path.joinpath(*hook.module.split(".")).with_suffix(".py")
    path.parent.mkdir(parents=True)
    shutil.copy(STAND_IN, path)
    monkeypatch.syspath_prepend(tmp_path)
    told = hook.state, hook.reason
    registry = Registry([hook])
    registry.start()
    found = importlib.import_module(hook.module)
    assert [row.state for row in registry.status()] == ["applied"], registry.status()
    yield found
    registry.disable(())
    hook.state, hook.reason = told
    hook.patches.forget()
    for name in [name for name in sys.modules if name.split(".")[0] == "hqq"]:
        del sys.modules[name]


def config(nbits=4, group_size=64, axis=1, **more):
    weights = {"nbits": nbits, "group_size": group_size, "axis": axis, **more}
    return {"weight_quant_params": weights, "scale_quant_params": None, "zero_quant_params": None}


def is_packed(layer):
    return "_aule_rows" in layer._buffers and "W_q" not in layer._parameters


def exact_weight(module, layer):
    """The layer's numbers by the package's own steps in float32, on the CPU."""
    meta = {key: value.cpu().float() if isinstance(value, torch.Tensor) else value for key, value in layer.meta.items()}
    return module.Quantizer.dequantize(layer.W_q.cpu(), {**meta, "compute_dtype": torch.float32})


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("nbits", [4, 8])
@pytest.mark.parametrize("n, k, group", [(24, 192, 64), (6, 200, 200), (6, 24, 8)])
def test_layers_stay_packed(module, dtype, nbits, n, k, group):
    linear = torch.nn.Linear(k, n, device="aule", dtype=dtype)
    layer = module.HQQLinear(linear, config(nbits, group), compute_dtype=dtype, device="aule")
    assert is_packed(layer)
    numbers = exact_weight(module, layer)
    buffers = layer._buffers
    scales, format = [buffers["_aule_scales"], buffers["_aule_zeros"]], {4: "int4", 8: "int8"}[nbits]
    found = quantized.dequantize(buffers["_aule_rows"], format, k, scales=scales, group=group).cpu()
    # Of 8 bits, zero points from which 128 is taken may be rounded: to 2^-18, and q - zero of both to 2^-17.
    bound = layer.meta["scale"].float().max().item() * (0 if nbits == 4 else 2.0**-15)
    assert ((found - numbers).abs() <= bound + (0 if nbits == 4 else 2.0**-22) * numbers.abs()).all()
    step = 1.5 * layer.meta["scale"].max().item() + 0.02  # of a number, and of what is rounded to the dtype
    assert (numbers - linear.weight.detach().cpu().float()).abs().max() <= step
    w, bias = numbers.double(), layer.bias.cpu().double()
    for m in (1, 5, 20):
        x = torch.randn(m, k).to(dtype)
        leaf = x.to("aule").requires_grad_()
        y = layer(leaf)
        expected = x.double() @ w.T + bias
        # Sums of k terms in float32, which are at most so large, a weight that is rounded first for many rows, and one
        # rounding of the result.
        spread = w.abs().amax() + layer.meta["scale"].max().item() * 2**nbits
        terms = x.double().abs() @ w.abs().T + spread * x.double().abs().sum(1, keepdim=True)
        bound = (k + 16) * EPS[torch.float32] * terms + 2 * EPS[dtype] * (expected.abs() + (m > 16) * terms) + 1e-30
        assert y.dtype == dtype and ((y.detach().cpu().double() - expected).abs() <= bound).all()
        y.sum().backward()
        bound = ((n + 16) * EPS[torch.float32] + 3 * EPS[dtype]) * w.abs().sum(0) + 1e-30
        assert ((leaf.grad.cpu().double() - w.sum(0)).abs() <= bound).all()


@pytest.mark.parametrize("nbits", [4, 8])
def test_what_the_package_saves_comes_back(module, nbits):
    linear = torch.nn.Linear(64, 16)
    here = module.HQQLinear(linear, config(nbits, 32), compute_dtype=torch.float32, device="cpu")
    assert not is_packed(here)
    there = copy.deepcopy(here)
    there.cuda("aule")
    assert is_packed(there)
    x = torch.randn(3, 64)
    y = there(x.to("aule"))
    torch.testing.assert_close(y.cpu(), here(x), rtol=1e-5, atol=1e-5)
    saved, expected = torch.nn.Sequential(there).state_dict(), torch.nn.Sequential(here).state_dict()
    assert saved.keys() == expected.keys()
    for name, value in expected.items():
        same = torch.equal(saved[name].cpu(), value) if isinstance(value, torch.Tensor) else saved[name] == value
        assert same, name
    torch.testing.assert_close(there.dequantize().cpu(), here.dequantize(), rtol=1e-6, atol=1e-6)
    again = copy.deepcopy(there)
    assert is_packed(again) and torch.equal(again(x.to("aule")), y)
    again.cuda("cpu")
    assert not is_packed(again) and type(again) is type(here) and torch.equal(again(x), here(x))
    other = module.HQQLinear(torch.nn.Linear(64, 16), config(nbits, 32), compute_dtype=torch.float32, device="aule")
    other.load_state_dict(there.state_dict())
    assert is_packed(other) and torch.equal(other(x.to("aule")), y)
    there.W_q = other.W_q  # adapters of peft set it
    assert is_packed(there) and torch.equal(there(x.to("aule")), y)


@pytest.mark.parametrize(
    "options",
    [{"axis": 0}, {"group_size": 24}, {"group_size": 4}, {"group_size": 96}, {"view_as_float": True}],
    ids=str,
)
def test_what_is_not_served_stays_the_packages(module, options):
    linear = torch.nn.Linear(48, 16)
    made = {
        where: module.HQQLinear(
            copy.deepcopy(linear).to(where), config(**{"group_size": 16, **options}), compute_dtype=torch.float16,
            device=where,
        )
        for where in ("cpu", "aule")
    }  # fmt: skip
    assert not is_packed(made["aule"])
    x = torch.randn(2, 48).half()
    torch.testing.assert_close(made["aule"](x.to("aule")).cpu(), made["cpu"](x), rtol=2e-2, atol=2e-2)


def test_compiled(module):
    layer = module.HQQLinear(torch.nn.Linear(64, 16), config(), compute_dtype=torch.float32, device="cpu").cuda("aule")
    x = torch.randn(3, 64, device="aule")
    torch.testing.assert_close(torch.compile(layer, fullgraph=True)(x), layer(x), rtol=1e-5, atol=1e-5)


@pytest.mark.skipif(torch.cuda.is_available(), reason="beside CUDA models go there, and transformers' own code runs")
def test_models_of_transformers(module):
    """HqqConfig's quantizer makes tagged linear layers HQQ's, whichever of weight and bias comes first."""
    quantizers = pytest.importorskip("transformers.quantizers.quantizer_hqq")
    quantizer = object.__new__(quantizers.HqqHfQuantizer)
    model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(3))).to("aule")
    before = copy.deepcopy(model)
    for layer in model[:2]:
        layer.quant_config = config()
    keys = ["0.bias", "0.weight", "1.weight", "1.bias", "2.weight", "2.bias"]
    missing = set(keys)
    given = {key: before.get_parameter(key).detach() + 1 for key in keys}
    for key in keys:
        for name, value in (
            quantizer.get_quantize_ops()
            .convert({key: [given[key]]}, full_layer_name=key, model=model, missing_keys=missing)
            .items()
        ):
            model.get_parameter(name).data = value
            missing.discard(name)
    assert not missing and [is_packed(layer) for layer in model] == [True, True, False]
    x = torch.randn(2, 64, device="aule")
    for i, layer in enumerate(model):
        weight = layer.weight if i == 2 else exact_weight(module, layer).to("aule")
        torch.testing.assert_close(layer.bias, given[f"{i}.bias"])
        assert (weight - given[f"{i}.weight"]).abs().max() < 0.02  # a step is 1 / 60
        torch.testing.assert_close(layer(x), x @ weight.T + given[f"{i}.bias"], rtol=1e-4, atol=1e-4)
    quantizer.pre_quantized = True
    with pytest.raises(NotImplementedError, match="does not load checkpoints of HQQ"):
        quantizer.validate_environment()
