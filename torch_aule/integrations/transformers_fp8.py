"""Hooks for fine-grained float8 in transformers (``FineGrainedFP8Config``): weights stay float8 on aule.

transformers makes such models dense without CUDA or XPU. Here they stay as they are, and a product reads the float8
weight and the scales of its blocks. Activations keep their dtype, where transformers' own kernels round them to float8.
"""

from __future__ import annotations

from types import FunctionType, ModuleType

import torch

from torch_aule.integrations._packed import is_group, packed_experts, packed_linear, stays_packed
from torch_aule.integrations._registry import Hook
from torch_aule.integrations.patch import Patches, attribute, parameters_of, wrap

__all__ = ["HOOKS"]

FORMAT = "float8_e4m3fn"


def _scales(weight: torch.Tensor, scale: torch.Tensor, block: list[int] | None) -> tuple[torch.Tensor, list[int]]:
    """Scales as the operators take them, and the group that shares one."""
    scale = scale.float()
    if block is None:  # one for all
        return scale.reshape(1, 1).expand(weight.shape[-2], 1), [weight.shape[-1]]
    return scale, list(block)


def _is_served(weight: torch.Tensor, block: list[int] | None) -> bool:
    if weight.device.type != "aule" or weight.dtype != torch.float8_e4m3fn or weight.shape[-1] % 8:
        return False
    return block is None or (is_group(block[1]) and block[0] & (block[0] - 1) == 0)


def _products(finegrained: ModuleType, patches: Patches) -> None:
    linear = attribute(finegrained, "fp8_linear", FunctionType)
    parameters_of(linear, "input", "weight", "weight_scale_inv", "block_size", "bias", "activation_scale")
    dequantize = attribute(finegrained, "_dequantize_fp8_weight", FunctionType)
    parameters_of(dequantize, "weight", "weight_scale_inv", "block_size", "dtype")
    interface = attribute(finegrained, "FP8ExpertsInterface", type)
    table = attribute(interface, "_global_mapping", dict)
    eager = attribute(attribute(finegrained, "FP8Experts", type), "forward", FunctionType)
    names = [name for name in ("grouped_mm", "batched_mm") if name in table]
    for name in names:
        parameters_of(table[name], "self", "hidden_states", "top_k_index", "top_k_weights")

    @wrap(linear)
    def fp8_linear(
        input, weight, weight_scale_inv, block_size=None, bias=None, activation_scale=None, allow_deepgemm=True
    ):
        if weight.device.type != "aule":
            return linear(input, weight, weight_scale_inv, block_size, bias, activation_scale, allow_deepgemm)
        if not _is_served(weight, block_size):
            dense = dequantize(weight, weight_scale_inv, block_size, input.dtype)
            return torch.nn.functional.linear(input, dense, bias)
        scale, group = _scales(weight, weight_scale_inv, block_size)
        return packed_linear(input, weight, FORMAT, [scale], group, bias)

    def product(self, name):
        weight, scale = (getattr(self, name + end) for end in ("", "_scale_inv"))
        rows, scales, group = weight.view(torch.uint8), [scale.float()], list(self.block_size)
        return lambda x, ids: torch.ops.aule.quantized_linear_by_expert(x, rows, ids, FORMAT, scales, group)

    def experts(own):
        @wrap(own)
        def forward(self, hidden_states, top_k_index, top_k_weights):
            if self.down_proj.device.type != "aule":
                return own(self, hidden_states, top_k_index, top_k_weights)
            name = "gate_up_proj" if self.has_gate else "up_proj"
            weights, block = (getattr(self, name), self.down_proj), self.block_size
            # Blocks of one expert must not reach into the next one's rows.
            if block is None or not all(_is_served(w, block) and w.shape[1] % block[0] == 0 for w in weights):
                return eager(self, hidden_states, top_k_index, top_k_weights)
            gate = self._apply_gate if self.has_gate else self.act_fn
            first, second = product(self, name), product(self, "down_proj")
            return packed_experts(hidden_states, top_k_index, top_k_weights, first, gate, second)

        return forward

    patches.rebind(linear, fp8_linear)
    for name in names:
        patches.set_item(table, name, experts(table[name]))


HOOKS = [
    Hook(
        "transformers", "fp8_products", "transformers.integrations.finegrained_fp8",
        "fine-grained float8 weights on aule are read by the kernels of the device", _products,
    ),
    Hook(
        "transformers", "fp8_quantizer", "transformers.quantizers.quantizer_finegrained_fp8",
        "models with fine-grained float8 weights stay so, and load to aule without a device_map",
        stays_packed("FineGrainedFP8HfQuantizer", lambda quantizer: True),
        chooses_device=True,
    ),
]  # fmt: skip
