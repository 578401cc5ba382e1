"""Hooks for HQQ: linear layers of 4 and 8 bits stay packed on aule and are read by the kernels of the device.

A layer of the package is packed to rows once, when its weights are there, and its forward is one product. ``W_q``,
which the package saves, is made again where it is asked for.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

import torch
from torch import nn

from torch_aule.integrations._packed import (
    FORMAT_OF_BITS,
    is_group,
    loads_by_default,
    numbers,
    packed_linear,
    rows_of,
    zeros_of,
)
from torch_aule.integrations._registry import Hook
from torch_aule.integrations.patch import NotAsExpected, Patches, attribute, aule_is_default, parameters_of, wrap

__all__ = ["HOOKS"]

ROWS, SCALES, ZEROS = "_aule_rows", "_aule_scales", "_aule_zeros"
PACKING = {4: "4bit_u8", 8: "8bit_u8"}


def _is_served(module: Any) -> bool:
    """Whether the kernels can read a layer."""
    meta, w = module.meta, module.W_q
    if meta is None or w is None or w.device.type != "aule" or w.dtype != torch.uint8 or meta.get("axis") != 1:
        return False
    if meta.get("view_as_float") or meta.get("nbits") not in PACKING or meta["packing"] != PACKING[meta["nbits"]]:
        return False
    scale, zero = meta.get("scale"), meta.get("zero")
    if scale is None or zero is None or meta.get("quant_scale") or meta.get("quant_zero") or not meta["group_size"]:
        return False
    (n, k), group = meta["shape"], meta["group_size"]
    if k % 8 or k % group or not (group == k or is_group(group)) or scale.device.type != "aule":
        return False
    return scale.numel() == zero.numel() == n * k // group and w.numel() * 8 // meta["nbits"] == n * k


def _packed_class(owner: Any) -> Callable[[Any], None]:
    """A function that makes a layer a packed one, if the kernels can read it."""

    def pack(module: Any) -> None:
        if type(module) is not owner or not _is_served(module):
            return
        meta, words = module.meta, module._parameters.pop("W_q").data
        n = meta["shape"][0]
        # The package computes them in inference mode, whose tensors have no part in gradients; clones have.
        scales, zeros = (meta[name].clone() for name in ("scale", "zero"))
        meta["scale"], meta["zero"] = scales, zeros
        zeros = zeros.float() - 128 if meta["nbits"] == 8 else zeros  # the device's int8 has a sign
        # state_dict of the package has no buffers; transformers makes those anew that are said not to be saved.
        module.register_buffer(SCALES, scales.view(n, -1))
        module.register_buffer(ZEROS, zeros.view(n, -1))
        module.__class__ = Packed
        module.W_q = words

    def unpack(module: Any) -> None:
        words = module.W_q.data
        module.__class__ = owner
        for name in (ROWS, SCALES, ZEROS):
            del module._buffers[name]
        module.W_q = nn.Parameter(words, requires_grad=False)

    class Packed(owner):
        @property
        def W_q(self):  # noqa: N802
            bits = self.meta["nbits"]
            q = numbers(zeros_of(self._buffers[ROWS], bits).view(torch.uint8), bits)
            q = q.reshape(-1, self.meta["group_size"])
            half = len(q) // 2
            return nn.Parameter(q[:half] << 4 | q[half:] if bits == 4 else q, requires_grad=False)

        @W_q.setter
        def W_q(self, words):  # noqa: N802
            bits = self.meta["nbits"]
            q = torch.cat((words >> 4, words & 15)) if bits == 4 else words
            rows = rows_of(q.detach().reshape(tuple(self.meta["shape"])), bits).clone()
            self.register_buffer(ROWS, zeros_of(rows, bits).view(torch.uint8))

        def register_parameter(self, name, param):  # where a module sets a parameter
            if name == "W_q":
                Packed.W_q.fset(self, param)
            else:
                super().register_parameter(name, param)

        def forward(self, x):
            if ROWS not in self._buffers:  # a hook of accelerate has kept this function, and the layer has moved
                return owner.forward(self, x)
            scales = [self._buffers[SCALES], self._buffers[ZEROS]]
            format, group = FORMAT_OF_BITS[self.meta["nbits"]], [self.in_features // scales[0].shape[1]]
            return packed_linear(x, self._buffers[ROWS], format, scales, group, self.bias)

        def cuda(self, *args, **kwargs):  # how the package moves a layer to any device
            unpack(self)
            return self.cuda(*args, **kwargs)

        def load_state_dict(self, *args, **kwargs):
            unpack(self)
            return self.load_state_dict(*args, **kwargs)

    for name in ("__name__", "__qualname__", "__module__", "__doc__"):
        setattr(Packed, name, getattr(owner, name))
    return pack


def _linear(module: ModuleType, patches: Patches) -> None:
    owner = attribute(module, "HQQLinear", type)
    own = attribute(owner, "cuda", FunctionType)
    parameters_of(own, "self", "device")
    for name in ("quantize", "dequantize", "state_dict", "load_state_dict"):
        attribute(owner, name, FunctionType)
    pack = _packed_class(owner)

    @wrap(own)
    def cuda(self, device):
        own(self, device)
        pack(self)
        return self

    patches.set(owner, "cuda", cuda)


def _quantizer(module: ModuleType, patches: Patches) -> None:
    owner = attribute(module, "HqqHfQuantizer", type)
    if "get_quantize_ops" in vars(owner) or "get_load_operations" in vars(owner):
        raise NotAsExpected("transformers quantizes them itself")
    own_ops, own_check = owner.get_quantize_ops, owner.validate_environment
    of_name = attribute(module, "get_module_from_name", FunctionType)
    base: Any = importlib.import_module("transformers.core_model_loading").ConversionOps

    class Quantize(base):
        """Makes the weight of a linear layer a layer of HQQ."""

        def convert(self, input_dict, full_layer_name=None, model=None, missing_keys=None, **kwargs):
            layer_class = importlib.import_module("hqq.core.quantize").HQQLinear
            (key, value), *_ = input_dict.items()
            value = value[0] if isinstance(value, list) else value
            layer, name = of_name(model, key)
            if name == "bias" and isinstance(layer, layer_class):  # the weight came first
                layer.bias = value
            elif name == "weight" and getattr(layer, "quant_config", None) is not None:
                bias = None if layer.bias is None or layer.bias.is_meta else layer.bias
                made = layer_class.from_weights(value, bias, layer.quant_config, value.dtype, str(value.device))
                made._is_hf_initialized = True
                model.set_submodule(key.rpartition(".")[0], made)
            else:
                return {key: value}
            if missing_keys is not None:
                missing_keys.discard(key)
            return {}

    @wrap(own_ops)
    def get_quantize_ops(self):
        return Quantize() if aule_is_default() else own_ops(self)

    @wrap(own_check)
    def validate_environment(self, *args, **kwargs):
        if self.pre_quantized:  # its weights would be random
            raise NotImplementedError(
                "transformers does not load checkpoints of HQQ: load the model that it was made of, with HqqConfig"
            )
        return own_check(self, *args, **kwargs)

    patches.set(owner, "get_quantize_ops", get_quantize_ops)
    loads_by_default("HqqHfQuantizer")(module, patches)
    patches.set(owner, "validate_environment", validate_environment)


HOOKS = [
    Hook(
        "hqq", "linear", "hqq.core.quantize",
        "layers of 4 and 8 bits on aule (axis=1) stay packed and are read by the kernels of the device", _linear,
    ),
    Hook(
        "transformers", "hqq_quantizer", "transformers.quantizers.quantizer_hqq",
        "HqqConfig quantizes models, and loads them to aule without a device_map", _quantizer, chooses_device=True,
    ),
]  # fmt: skip
