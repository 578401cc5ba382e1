"""Hooks for compressed-tensors: linear layers of 4-bit groups stay packed on aule.

A model of that format is decompressed at its first forward pass. Here layers whose packed weights the kernels of the
device can read (``pack-quantized`` of 4 bits by groups or rows, weights alone) keep them, and their forward is one
product. Everything else is decompressed as before, and so is all when a program asks for it
(``ModelCompressor.decompress_model``).
"""

from __future__ import annotations

import importlib
import threading
import types
from types import FunctionType, ModuleType
from typing import Any

import torch
from torch import nn

from torch_aule.integrations._packed import is_group, packed_linear
from torch_aule.integrations._registry import Hook
from torch_aule.integrations.patch import Patches, attribute, aule_is_default, parameters_of, wrap

__all__ = ["HOOKS"]

BITS = 4
_first_pass = threading.local()  # .running: layers may keep their packed weights


def _group(module: Any) -> int | None:
    """Values that share a scale in a layer that the kernels can read, else None."""
    scheme = getattr(module, "quantization_scheme", None)
    packed, scale = (getattr(module, name, None) for name in ("weight_packed", "weight_scale"))
    if type(module) is not nn.Linear or scheme is None or scheme.weights is None or packed is None or scale is None:
        return None
    if scheme.input_activations is not None or scheme.output_activations is not None:
        return None
    if packed.device.type != "aule" or packed.dtype != torch.int32 or packed.shape[1] * 8 != module.in_features:
        return None
    if scheme.weights.num_bits != BITS or scheme.weights.type != "int" or hasattr(module, "weight_g_idx"):
        return None
    groups = scale.shape[-1] if scale.dim() == 2 else 0
    if groups == 0 or scale.shape[0] != packed.shape[0] or module.in_features % groups:
        return None
    group = module.in_features // groups
    return group if groups == 1 or is_group(group) else None


def _keep_packed(module: Any, group: int, unpack: FunctionType) -> None:
    before = module.forward
    scales, format = [module.weight_scale.data], "int4_offset"  # stored with 8 added
    if not module.quantization_scheme.weights.symmetric:
        sizes = torch.Size((module.weight_packed.shape[0], module.in_features // group))
        zeros = unpack(module.weight_zero_point.data, BITS, sizes, packed_dim=0)
        scales, format = [*scales, zeros + 2 ** (BITS - 1)], "int4"

    def forward(self, input):
        packed = getattr(self, "weight_packed", None)
        if packed is None or packed.device.type != "aule":  # it was decompressed, or has left the device
            self.forward = before
            return before(input)
        return packed_linear(input, packed, format, scales, [group], self.bias)

    module.forward = types.MethodType(forward, module)


def _compressor(model_compressor: ModuleType, patches: Patches) -> None:
    owner = attribute(model_compressor, "ModelCompressor", type)
    add_hook = attribute(owner, "add_decompress_hook", FunctionType)
    parameters_of(add_hook, "self", "model")
    decompress = attribute(model_compressor, "decompress_module", FunctionType)
    parameters_of(decompress, "module", "format", "leave_decompressed")
    helpers = importlib.import_module("compressed_tensors.compressors.pack_quantized.helpers")
    unpack = attribute(helpers, "unpack_from_int32", FunctionType)
    parameters_of(unpack, "value", "num_bits", "shape", "packed_dim")

    @wrap(decompress)
    def decompress_module(module, *args, **kwargs):
        group = _group(module) if getattr(_first_pass, "running", False) else None
        if group is None:
            return decompress(module, *args, **kwargs)
        return _keep_packed(module, group, unpack)

    @wrap(add_hook)
    def add_decompress_hook(self, model):
        add_hook(self, model)
        hooks, key = model._forward_pre_hooks, model.ct_decompress_hook.id
        own = hooks[key]

        def first_pass(model, args):
            _first_pass.running = True
            try:
                return own(model, args)
            finally:
                _first_pass.running = False

        hooks[key] = first_pass

    patches.set(model_compressor, "decompress_module", decompress_module)
    patches.set(owner, "add_decompress_hook", add_decompress_hook)


def _quantizer(module: ModuleType, patches: Patches) -> None:
    owner = attribute(module, "CompressedTensorsHfQuantizer", type)
    own = attribute(owner, "validate_environment", FunctionType)

    @wrap(own)
    def validate_environment(self, *args, **kwargs):
        wanted = self.quantization_config.use_optimized_inference
        if not wanted or not aule_is_default():
            return own(self, *args, **kwargs)
        self.quantization_config.use_optimized_inference = False  # else it warns that no device can
        try:
            own(self, *args, **kwargs)
        finally:
            self.quantization_config.use_optimized_inference = wanted
        self.use_fp8_kernel = True

    patches.set(owner, "validate_environment", validate_environment)


HOOKS = [
    Hook(
        "compressed_tensors", "packed", "compressed_tensors.compressors.model_compressors.model_compressor",
        "linear layers of 4-bit groups on aule stay packed and are read by the kernels of the device", _compressor,
    ),
    Hook(
        "transformers", "compressed_tensors_fp8", "transformers.quantizers.quantizer_compressed_tensors",
        "use_optimized_inference=True multiplies float8 weights on aule as they are", _quantizer, chooses_device=True,
    ),
]  # fmt: skip
