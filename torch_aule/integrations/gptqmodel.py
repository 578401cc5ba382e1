"""Hooks for gptqmodel, with which transformers runs GPTQ and AWQ checkpoints: linear layers stay packed on aule.

The package knows devices by a closed list. There aule becomes what it calls "all": layers in PyTorch's operators are
chosen. Those of 4 and 8 bits are then packed to rows once, when the package has loaded them, and their forward is one
product. The tensor of the checkpoint, ``qweight``, is made again where it is asked for: when a model is saved, say.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

import torch

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
from torch_aule.integrations.patch import Patches, attribute, parameters_of, wrap

__all__ = ["HOOKS"]

DTYPES = torch.float32, torch.float16, torch.bfloat16  # of scales
READY = "_aule_ready"  # of a module: the package has prepared it for its forward
ROWS, ZEROS, ORDER = "_aule_rows", "_aule_zeros", "_aule_order"
AWQ = [0, 4, 1, 5, 2, 6, 3, 7]  # where a word of AWQ has column i of its 8
V1 = {4: 0x11111111, 8: 0x01010101}  # what GPTQ's first version has subtracted from a word of zero points


def _columns(words: torch.Tensor, bits: int) -> torch.Tensor:
    """Numbers [m, n] of AWQ's words [m, n * bits / 32]."""
    q = numbers(words.contiguous().view(torch.uint8), bits)
    return q.unflatten(1, (-1, 8))[:, :, AWQ].flatten(1) if bits == 4 else q


def _words(q: torch.Tensor, bits: int) -> torch.Tensor:
    """The words that :func:`_columns` was given."""
    if bits == 4:
        q = q.unflatten(1, (-1, 8))[:, :, [AWQ.index(i) for i in range(8)]].flatten(1)
    return rows_of(q.contiguous(), bits).contiguous().view(torch.int32)


class _Layout:
    """The qweight and qzeros of a kind of checkpoint, both ways."""

    def group(self, module: Any) -> int | None:
        """Values of a group if the kernels can read the layer, else None."""
        qweight, scales, k = module.qweight, module.scales, module.in_features
        if module.bits not in FORMAT_OF_BITS or module.pack_dtype != torch.int32 or module.adapter is not None:
            return None
        if any(getattr(module, name, False) for name in ("online_full_had", "online_partial_had")):
            return None
        if qweight is None or scales is None or qweight.device.type != "aule" or scales.device.type != "aule":
            return None
        if qweight.dim() != 2 or k % 8 or module.out_features % 8 or scales.dtype not in DTYPES:
            return None
        groups, n = scales.shape
        if n != module.out_features or groups == 0 or k % groups:
            return None
        return k // groups if groups == 1 or is_group(k // groups) else None

    def order(self, module: Any, group: int) -> torch.Tensor | None:
        """In which order inputs are taken, so that groups are neighbours; None as they are. Else ValueError."""
        return None


class _Gptq(_Layout):
    """qweight [k * bits / 32, n], qzeros [groups, n * bits / 32], g_idx [k]: each input's group, in any order."""

    def order(self, module, group):
        found = module.g_idx.cpu()
        wanted = torch.arange(module.in_features, dtype=found.dtype) // group
        if torch.equal(found, wanted):
            return None
        order = found.argsort(stable=True)
        if found.numel() != wanted.numel() or not torch.equal(found[order], wanted):
            raise ValueError("groups are not of one size")
        return order.to(module.qweight.device)

    def rows(self, words, bits):
        return words.t().contiguous().view(torch.uint8)

    def words(self, rows, bits):
        return rows.view(torch.int32).t().contiguous()

    def zeros(self, module):
        q = numbers(module.qzeros.contiguous().view(torch.uint8), module.bits)
        return q[:, : module.out_features].t().contiguous()


class _Awq(_Layout):
    """qweight [k, n * bits / 32], qzeros [groups, n * bits / 32]; 4 bits have an order of columns of their own."""

    def rows(self, words, bits):
        return rows_of(_columns(words, bits).t().contiguous(), bits).contiguous()

    def words(self, rows, bits):
        return _words(numbers(rows, bits).t(), bits)

    def zeros(self, module):
        return _columns(module.qzeros, module.bits).t().contiguous()


def _permuted(rows: torch.Tensor, order: torch.Tensor | None, bits: int) -> torch.Tensor:
    return rows if order is None else rows_of(numbers(rows, bits)[:, order], bits).contiguous()


def _packed_class(owner: Any, layout: Any) -> tuple[type, Callable[[Any], None], Callable[..., Any]]:
    """The class of packed layers, a function that makes a layer one, if the kernels can read it, and their forward."""
    own_forward = owner.forward

    @wrap(own_forward)
    def forward(self, x):
        buffers = self._buffers
        if ROWS not in buffers:
            return own_forward(self, x)
        order, scales = buffers[ORDER], self.scales.t()
        if order is not None:
            x = x.index_select(-1, order)
        group = self.in_features // scales.shape[1]
        return packed_linear(x, buffers[ROWS], FORMAT_OF_BITS[self.bits], [scales, buffers[ZEROS]], [group], self.bias)

    def pack(module: Any) -> None:
        group = layout.group(module)
        if group is None:
            return
        try:
            order = layout.order(module, group)
        except ValueError:
            return
        words, bits = module._buffers.pop("qweight"), module.bits
        module.register_buffer(ORDER, order, persistent=False)
        module.register_buffer(ZEROS, zeros_of(layout.zeros(module), bits), persistent=False)
        module.scales = module.scales.t().contiguous().t()  # the rows of scales that the kernels read, by columns
        module.__class__ = Packed
        module.qweight = words

    def unpack(module: Any) -> None:
        words = module.qweight
        module.__class__ = owner
        for name in (ROWS, ZEROS, ORDER):
            del module._buffers[name]
        module._non_persistent_buffers_set -= {ROWS, ZEROS, ORDER}
        module.scales = module.scales.contiguous()
        module.register_buffer("qweight", words)

    class Packed(owner):
        @property
        def qweight(self):
            order = self._buffers[ORDER]
            rows = zeros_of(self._buffers[ROWS], self.bits).view(torch.uint8)
            return layout.words(_permuted(rows, None if order is None else order.argsort(), self.bits), self.bits)

        @qweight.setter
        def qweight(self, words):
            rows = _permuted(layout.rows(words.detach(), self.bits), self._buffers[ORDER], self.bits)
            self.register_buffer(ROWS, zeros_of(rows, self.bits).view(torch.uint8), persistent=False)

        def _save_to_state_dict(self, destination, prefix, keep_vars):
            super()._save_to_state_dict(destination, prefix, keep_vars)
            destination[prefix + "qweight"] = self.qweight
            destination[prefix + "scales"] = destination[prefix + "scales"].contiguous()

        def _load_from_state_dict(self, *args, **kwargs):
            unpack(self)
            self._load_from_state_dict(*args, **kwargs)
            pack(self)

        def _apply(self, *args, **kwargs):
            super()._apply(*args, **kwargs)
            if self._buffers[ROWS].device.type != "aule" or self.scales.dtype not in DTYPES:
                unpack(self)
            return self

    for name in ("__name__", "__qualname__", "__module__", "__doc__"):
        setattr(Packed, name, getattr(owner, name))
    Packed.forward = forward  # also where the hook is taken back
    return Packed, pack, forward


PACKED: set[type] = set()


def _layers(name: str, layout: _Layout) -> Callable[[ModuleType, Patches], None]:
    """The hook for a class of layers."""

    def install(module: ModuleType, patches: Patches) -> None:
        owner = attribute(module, name, type)
        own_post_init = attribute(owner, "post_init", FunctionType)
        parameters_of(attribute(owner, "forward", FunctionType), "self", "x")
        parameters_of(owner.__init__, "bits", "group_size", "in_features", "out_features", "pack_dtype", "adapter")
        own_apply = owner._apply
        packed, pack, forward = _packed_class(owner, layout)

        @wrap(own_post_init)
        def post_init(self):
            own_post_init(self)
            if type(self) is owner:
                setattr(self, READY, True)
                pack(self)

        @wrap(own_apply)
        def _apply(self, *args, **kwargs):
            own_apply(self, *args, **kwargs)
            if type(self) is owner and getattr(self, READY, False):
                pack(self)
            return self

        PACKED.add(packed)
        patches.on_undo(lambda: PACKED.discard(packed))
        patches.set(owner, "post_init", post_init)
        patches.set(owner, "_apply", _apply)
        patches.set(owner, "forward", forward)  # accelerate's hooks keep it from before a layer is packed

    return install


def _devices(module: ModuleType, patches: Patches) -> None:
    owner = attribute(module, "DEVICE", type)
    own = attribute(owner, "_missing_", classmethod)
    everywhere = owner.ALL

    @wrap(own.__func__)
    def _missing_(cls, value):
        return everywhere if str(value).split(":")[0].lower() == "aule" else own.__func__(cls, value)

    patches.set(owner, "_missing_", classmethod(_missing_))


def _saves(module: ModuleType, patches: Patches) -> None:
    owner = attribute(module, "GptqHfQuantizer", type)
    own = owner.get_state_dict_and_metadata
    parameters_of(own, "self", "model")

    @wrap(own)
    def get_state_dict_and_metadata(self, model):
        state, metadata = own(self, model)
        # The package adds what version 1 has subtracted when it loads a model, and transformers would save it so.
        layers = {
            name: layer
            for name, layer in model.named_modules()
            if type(layer) in PACKED and hasattr(layer, "qzero_format") and layer.qzero_format() == 2
        }
        if layers:
            state = dict(model.state_dict() if state is None else state)
            for name, layer in layers.items():
                state[f"{name}.qzeros"] = state[f"{name}.qzeros"] - V1[layer.bits]
        return state, metadata

    patches.set(owner, "get_state_dict_and_metadata", get_state_dict_and_metadata)


HOOKS = [
    Hook(
        "gptqmodel", "devices", "gptqmodel.models._const",
        "aule is a device: layers in PyTorch's operators are chosen for it", _devices,
    ),
    Hook(
        "gptqmodel", "gptq", "gptqmodel.nn_modules.qlinear.torch",
        "GPTQ layers of 4 and 8 bits on aule stay packed and are read by the kernels of the device",
        _layers("TorchLinear", _Gptq()),
    ),
    Hook(
        "gptqmodel", "awq", "gptqmodel.nn_modules.qlinear.torch_awq",
        "AWQ layers of 4 and 8 bits on aule stay packed and are read by the kernels of the device",
        _layers("AwqTorchLinear", _Awq()),
    ),
    Hook(
        "transformers", "gptq_saves", "transformers.quantizers.quantizer_gptq",
        "GPTQ models on aule are saved with the zero points of their version", _saves,
    ),
    Hook(
        "transformers", "gptq_device", "transformers.quantizers.quantizer_gptq",
        "GPTQ models load to aule without a device_map", loads_by_default("GptqHfQuantizer"), chooses_device=True,
    ),
    Hook(
        "transformers", "awq_device", "transformers.quantizers.quantizer_awq",
        "AWQ models load to aule without a device_map", loads_by_default("AwqQuantizer"), chooses_device=True,
    ),
]  # fmt: skip
