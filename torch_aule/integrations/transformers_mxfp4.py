"""Hooks for MXFP4 in transformers (``Mxfp4Config``, gpt-oss): the experts' weights stay packed on aule.

transformers makes such models dense where Triton's kernels are not to be had. Here the checkpoint's blocks become rows
of the device's format ``mxfp4``, and experts are products by number of expert.
"""

from __future__ import annotations

import functools
import importlib
from types import FunctionType, ModuleType

import torch
from torch import nn

from torch_aule.integrations._packed import packed_experts, stays_packed
from torch_aule.integrations._registry import Hook
from torch_aule.integrations.patch import Patches, attribute, aule_is_default, parameters_of, wrap
from torch_aule.quantized import pack, unpack

__all__ = ["HOOKS"]

FORMAT = "mxfp4"
PACKED = "_aule_packed"  # of a module: names of its packed weights


def _rows(blocks: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Packed rows of blocks [..., groups, 16], whose bytes have neighbours, and of scales [..., groups]."""
    q = torch.stack((blocks & 15, blocks >> 4), -1).flatten(-2)
    halves = q[..., :16] | q[..., 16:] << 4  # a byte has values i and i + 16
    return pack(torch.cat((scales[..., None], halves), -1).flatten(-2), FORMAT)


def _blocks(rows: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The blocks and scales that :func:`_rows` was given."""
    file = unpack(rows, FORMAT, k).unflatten(-1, (k // 32, 17))
    q = torch.cat((file[..., 1:] & 15, file[..., 1:] >> 4), -1).unflatten(-1, (16, 2))
    return q[..., 0] | q[..., 1] << 4, file[..., 0].contiguous()


def _experts(mxfp4: ModuleType, patches: Patches) -> None:
    owner = attribute(mxfp4, "Mxfp4GptOssExperts", type)
    own_forward = attribute(owner, "forward", FunctionType)
    parameters_of(own_forward, "self", "hidden_states", "top_k_index", "top_k_weights")
    replace = attribute(mxfp4, "replace_with_mxfp4_linear", FunctionType)
    parameters_of(replace, "model", "quantization_config", "modules_to_not_convert")
    load = attribute(mxfp4, "swizzle_mxfp4_convertops", FunctionType)
    parameters_of(load, "blocks", "scales", "module", "proj", "target_device")
    reverse = attribute(mxfp4, "Mxfp4ReverseDeserialize", type)
    own_convert = attribute(reverse, "convert", FunctionType)
    parameters_of(own_convert, "self", "input_dict", "model", "full_layer_name")
    wanted = attribute(mxfp4, "should_convert_module", FunctionType)
    of_name = attribute(mxfp4, "get_module_from_name", FunctionType)
    gpt_oss = importlib.import_module("transformers.models.gpt_oss.modeling_gpt_oss")
    mlp = attribute(gpt_oss, "GptOssMLP", type)
    apply_gate = attribute(attribute(gpt_oss, "GptOssExperts", type), "_apply_gate", FunctionType)

    @wrap(replace)
    def replace_with_mxfp4_linear(model, quantization_config=None, modules_to_not_convert=None):
        if quantization_config.dequantize or not aule_is_default():
            return replace(model, quantization_config, modules_to_not_convert)
        for name, module in list(model.named_modules()):
            if isinstance(module, mlp) and wanted(f"{name}.experts", modules_to_not_convert):
                with torch.device("meta"):
                    module.experts = owner(model.config)
        return model

    @wrap(load)
    def swizzle_mxfp4_convertops(blocks, scales, module, proj, target_device, *args, **kwargs):
        if not aule_is_default():
            return load(blocks, scales, module, proj, target_device, *args, **kwargs)
        where = torch.device("aule") if torch.device(target_device).type == "cpu" else target_device
        n = 2 * module.intermediate_size if proj == "gate_up_proj" else module.hidden_size
        blocks, scales = (t.to(where).reshape(t.shape[0], n, -1) for t in (blocks, scales))
        rows = _rows(blocks.unflatten(-1, (scales.shape[-1], 16)), scales)
        module._parameters.pop(proj, None)
        module.register_parameter(proj, nn.Parameter(rows, requires_grad=False))
        setattr(module, PACKED, (*getattr(module, PACKED, ()), proj))

    @wrap(own_forward)
    def forward(self, hidden_states, top_k_index, top_k_weights):
        if not hasattr(self, PACKED):
            return own_forward(self, hidden_states, top_k_index, top_k_weights)

        def product(name):
            weight, bias = getattr(self, name), getattr(self, f"{name}_bias")

            def multiply(x, ids):
                return torch.ops.aule.quantized_linear_by_expert(x, weight, ids, FORMAT, (), ()) + bias[ids].to(x.dtype)

            return multiply

        first, second = product("gate_up_proj"), product("down_proj")
        gate = functools.partial(apply_gate, self)
        return packed_experts(hidden_states, top_k_index, top_k_weights, first, gate, second)

    @wrap(own_convert)
    def convert(self, input_dict, model=None, full_layer_name=None, **kwargs):
        module, _ = of_name(model, full_layer_name)
        name = full_layer_name.removesuffix("_blocks")
        proj = name.rsplit(".", 1)[-1]
        if proj not in getattr(module, PACKED, ()):
            return own_convert(self, input_dict, model=model, full_layer_name=full_layer_name, **kwargs)
        k = module.hidden_size if proj == "gate_up_proj" else module.intermediate_size
        blocks, scales = _blocks(getattr(module, proj).data, k)
        return {f"{name}_blocks": blocks, f"{name}_scales": scales}

    if not hasattr(mxfp4, "triton_kernels_hub"):  # it becomes a global with Triton's kernels, and is passed on without
        patches.set(mxfp4, "triton_kernels_hub", None)
    patches.rebind(replace, replace_with_mxfp4_linear)
    patches.rebind(load, swizzle_mxfp4_convertops)
    patches.set(owner, "forward", forward)
    patches.set(reverse, "convert", convert)


HOOKS = [
    Hook(
        "transformers", "mxfp4_experts", "transformers.integrations.mxfp4",
        "experts of MXFP4 stay packed on aule and are read by the kernels of the device", _experts,
        chooses_device=True,
    ),
    Hook(
        "transformers", "mxfp4_quantizer", "transformers.quantizers.quantizer_mxfp4",
        "models with experts of MXFP4 keep them, and load to aule without a device_map",
        stays_packed("Mxfp4HfQuantizer", lambda quantizer: quantizer.pre_quantized),
        chooses_device=True,
    ),
]  # fmt: skip
