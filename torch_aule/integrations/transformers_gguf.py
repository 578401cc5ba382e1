"""Hooks for GGUF files in transformers: weights stay packed on the device, for more architectures, and are read there.

transformers keeps a file's blocks in modules of its own (GgufLinear, GgufEmbedding, GgufExperts) where it finds a
kernel package for the accelerator. Here the kernels are ours, and modules hold rows as they want them
(torch_aule.quantized.pack).
"""

from __future__ import annotations

import copy
import functools
import importlib
import os
import threading
from collections import Counter
from types import FunctionType, ModuleType
from typing import Any

import torch
from torch import nn

from torch_aule.integrations._gguf_models import CONFIGS, MAPPINGS, Q5_AND_FP4, is_served
from torch_aule.integrations._packed import default_map, packed_experts, packed_linear
from torch_aule.integrations._registry import Hook
from torch_aule.integrations.patch import Patches, attribute, aule_is_default, parameters_of, wrap
from torch_aule.quantized import FORMATS, Weight, pack, unpack
from torch_aule.quantized.gguf import FORMAT_OF_TYPE, read_header

__all__ = ["HOOKS"]

PACKED = "_aule_packed"  # of a module, and of a parameter that several modules share
ROPE_FACTORS = "rope_freqs.weight"
PLANNED = ("auto", "balanced", "balanced_low_0", "sequential")  # device_maps that accelerate works out


class _Kernel:
    """Stands where transformers asks which types a kernel reads; its functions are those of the hook below."""

    gemv_types = frozenset(FORMAT_OF_TYPE)

    def supports(self, ggml_type: int) -> bool:
        return ggml_type in self.gemv_types


_KERNEL = _Kernel()
_loading = threading.local()  # .for_aule: a file is being read for the device


def _for_aule() -> bool:
    return getattr(_loading, "for_aule", False)


def _types(dequant: ModuleType, patches: Patches) -> None:
    """Types that are common in files and that transformers' tables lack."""
    tables = [attribute(dequant, name, dict) for name in ("GGML_BLOCK", "GGML_NAME", "_DEQUANT")]
    for ggml_type, (name, values, size, decoder) in Q5_AND_FP4.items():
        for table, value in zip(tables, ((values, size), name, decoder)):
            if ggml_type not in table:
                patches.add_item(table, ggml_type, value)


def _reader(reader: ModuleType, patches: Patches) -> None:
    """A file that is cut or describes what cannot be is an error with a sentence, before anything is allocated."""
    read = attribute(reader, "read_gguf_metadata", FunctionType)
    parameters_of(read, "gguf_path", "string_arrays")

    @functools.lru_cache(maxsize=16)
    def check(path, _time, _size):
        read_header(path)

    @wrap(read)
    def read_gguf_metadata(gguf_path, string_arrays=()):
        state = os.stat(gguf_path)  # a load asks several times, for configuration, tokenizer and weights
        check(gguf_path, state.st_mtime_ns, state.st_size)
        return read(gguf_path, string_arrays)

    patches.rebind(read, read_gguf_metadata)


def _kernels(kernels: ModuleType, patches: Patches) -> None:
    multiply = attribute(kernels, "mul_mat_vec", FunctionType)
    by_expert = attribute(kernels, "mul_mat_id", FunctionType)
    decode = attribute(kernels, "_dequantize_chunk", FunctionType)
    resolve = attribute(kernels, "get_gguf_kernel", FunctionType)
    graft = attribute(kernels, "kernelize_ggml_layers", FunctionType)
    parameters_of(graft, "model")
    parameters_of(multiply, "weight", "x", "ggml_type", "out_features")
    parameters_of(by_expert, "blocks", "x", "ids", "ggml_type", "out_features")
    parameters_of(decode, "weight", "ggml_type", "rows", "cols", "dtype", "indices")
    ops = torch.ops.aule

    @wrap(multiply)
    def mul_mat_vec(weight, x, ggml_type, out_features):
        if weight.device.type != "aule":
            return multiply(weight, x, ggml_type, out_features)
        name = FORMAT_OF_TYPE[ggml_type]
        return ops.quantized_linear(x, pack(weight, name), name, None, (), ())

    @wrap(by_expert)
    def mul_mat_id(blocks, x, ids, ggml_type, out_features):
        if blocks.device.type != "aule":
            return by_expert(blocks, x, ids, ggml_type, out_features)
        name = FORMAT_OF_TYPE[ggml_type]
        return ops.quantized_linear_by_expert(x, pack(blocks, name), ids, name, (), ())

    @wrap(decode)
    def _dequantize_chunk(weight, ggml_type, rows, cols, dtype, indices=None):
        if weight.device.type != "aule" or ggml_type not in FORMAT_OF_TYPE:
            return decode(weight, ggml_type, rows, cols, dtype, indices)
        name = FORMAT_OF_TYPE[ggml_type]
        if indices is not None:  # only their rows are packed
            weight = weight.index_select(0, indices)
        return ops.quantized_dequantize(pack(weight, name), name, cols, dtype, (), ())

    @wrap(resolve)
    def get_gguf_kernel():
        return _KERNEL if _for_aule() else resolve()

    @wrap(graft)
    def kernelize_ggml_layers(model):
        if model.device.type != "aule":  # the hub has none for it
            graft(model)

    patches.rebind(graft, kernelize_ggml_layers)
    patches.rebind(multiply, mul_mat_vec)
    patches.rebind(by_expert, mul_mat_id)
    patches.rebind(decode, _dequantize_chunk)
    patches.rebind(resolve, get_gguf_kernel)


def _weights_of(module: Any) -> list[tuple[str, int, int]]:
    """(parameter, ggml_type, k) of a module that holds blocks."""
    if hasattr(module, "gate_up_type"):
        return [
            ("gate_up_proj", module.gate_up_type, module.hidden_dim),
            ("down_proj", module.down_type, module.intermediate_dim),
        ]
    return [("weight", module.ggml_type, getattr(module, "in_features", None) or module.embedding_dim)]


def _settle(module: nn.Module) -> None:
    """Pack the blocks that are on the device and unpack those that have left it."""
    places = set()
    for name, ggml_type, k in _weights_of(module):
        parameter = getattr(module, name)
        places.add(parameter.device.type)
        if parameter.device.type == "meta" or ggml_type not in FORMAT_OF_TYPE:
            return
        is_packed = getattr(parameter, PACKED, getattr(module, PACKED))
        on_device = parameter.device.type == "aule"
        if on_device != is_packed:
            form = FORMAT_OF_TYPE[ggml_type]
            parameter.data = pack(parameter.data, form) if on_device else unpack(parameter.data, form, k)
        setattr(parameter, PACKED, on_device)
    setattr(module, PACKED, places == {"aule"})


def _check_numbers(path: str, modules: dict[str, nn.Module]) -> None:
    """A scale that is no number would be found only in a model's answers. The host waits once, for all weights."""
    found = {}
    for name, module in modules.items():
        for own, ggml_type, k in _weights_of(module):
            weight = getattr(module, own)
            if weight.device.type != "aule" or not getattr(module, PACKED) or weight.numel() == 0:
                continue
            form = FORMAT_OF_TYPE[ggml_type]
            # A sum of float32 is finite if all are, 4 MiB of them at a time.
            parts = weight.flatten(0, -2).split(max(1, (1 << 20) // k))
            sums = torch.stack(
                [torch.ops.aule.quantized_dequantize(p, form, k, torch.float32, (), ()).sum() for p in parts]
            )
            found[name, form] = torch.isfinite(sums).all()
    if not found:
        return
    for (name, form), is_finite in zip(found, torch.stack(list(found.values())).tolist()):
        if not is_finite:
            raise ValueError(f"{path}: the tensor of {name!r}, of {form}, has scales that are infinite or NaN")


def _modules(utils: ModuleType, patches: Patches) -> None:
    linear, experts, embedding = (
        attribute(utils, name, type) for name in ("GgufLinear", "GgufExperts", "GgufEmbedding")
    )
    forwards = [attribute(owner, "forward", FunctionType) for owner in (linear, experts, embedding)]
    for forward, names in zip(forwards, (("x",), ("hidden_states", "top_k_index", "top_k_weights"), ("input_ids",))):
        parameters_of(forward, "self", *names)
    replace = attribute(utils, "replace_with_gguf_modules", FunctionType)
    parameters_of(replace, "model", "plan", "kernel", "dtype")
    ops = torch.ops.aule

    def packed(module, weight, name):
        return weight if getattr(module, PACKED) else pack(weight, name)

    @wrap(forwards[0])
    def linear_forward(self, x):
        name = FORMAT_OF_TYPE.get(self.ggml_type)
        if self.weight.device.type != "aule" or name is None:
            return forwards[0](self, x)
        if self.input_permutation is not None:
            x = x.index_select(-1, self.input_permutation)
        return packed_linear(x, packed(self, self.weight, name), name, [], [], self.bias)

    def aule_weight(self):
        name = FORMAT_OF_TYPE.get(self.ggml_type)
        if self.weight.device.type != "aule" or name is None or not getattr(self, PACKED):
            return None
        return None if self.input_permutation is not None else Weight(self.weight.data, name)

    def set_aule_weight(self, weight):
        self.weight.data = weight.packed

    @wrap(forwards[1])
    def experts_forward(self, hidden_states, top_k_index, top_k_weights):
        names = [FORMAT_OF_TYPE.get(ggml_type) for ggml_type in (self.gate_up_type, self.down_type)]
        if self.down_proj.device.type != "aule" or None in names:
            return forwards[1](self, hidden_states, top_k_index, top_k_weights)

        def product(weight, name):
            rows = packed(self, weight, name)
            return lambda x, ids: ops.quantized_linear_by_expert(x, rows, ids, name, (), ())

        def apply_gate(inner):
            gate, up = inner.chunk(2, -1)
            return self.act_fn(gate) * up

        first, second = product(self.gate_up_proj, names[0]), product(self.down_proj, names[1])
        return packed_experts(hidden_states, top_k_index, top_k_weights, first, apply_gate, second)

    @wrap(forwards[2])
    def embedding_forward(self, input_ids):
        name = FORMAT_OF_TYPE.get(self.ggml_type)
        if self.weight.device.type != "aule" or name is None:
            out = forwards[2](self, input_ids)
        else:
            table = packed(self, self.weight, name)
            out = ops.quantized_rows(table, input_ids, name, self.embedding_dim, self.compute_dtype, (), ())
        return out if self.scalar_embed_scale is None else out * self.scalar_embed_scale

    @wrap(replace)
    def replace_with_gguf_modules(model, plan, kernel, dtype=None):
        replaced = replace(model, plan, kernel, dtype)
        if kernel is _KERNEL:  # embeddings that multiply what they look up
            for name, module in list(model.named_modules()):
                is_scaled = isinstance(module, nn.Embedding) and hasattr(module, "scalar_embed_scale")
                ggml_type = plan.get(f"{name}.weight")
                if is_scaled and ggml_type is not None and kernel.supports(ggml_type):
                    own = embedding(module.num_embeddings, module.embedding_dim, ggml_type, dtype)
                    # Gemma multiplies by the number that the dtype makes of it.
                    scale = torch.tensor(module.scalar_embed_scale, dtype=own.compute_dtype, device="cpu")
                    own.scalar_embed_scale = scale.item()
                    model.set_submodule(name, own)
                    replaced[f"{name}.weight"] = own
        return replaced

    def apply(self, fn, recurse=True):
        result = nn.Module._apply(self, fn, recurse)
        _settle(self)
        return result

    for owner, forward in zip((linear, experts, embedding), (linear_forward, experts_forward, embedding_forward)):
        patches.set(owner, "forward", forward)
        patches.set(owner, "_apply", apply)
        patches.set(owner, PACKED, False)
    patches.set(linear, "aule_weight", aule_weight)
    patches.set(linear, "set_aule_weight", set_aule_weight)
    patches.set(embedding, "scalar_embed_scale", None)
    patches.rebind(replace, replace_with_gguf_modules)


def _mappings(utils: ModuleType, patches: Patches) -> None:
    knows = attribute(utils, "is_gguf_arch_supported", FunctionType)
    mapping = attribute(utils, "get_gguf_conversion_mapping", FunctionType)
    parameters_of(knows, "gguf_arch")
    parameters_of(mapping, "gguf_arch", "config")
    operations = importlib.import_module("transformers.integrations.gguf.gguf_conversion_mapping")
    for name in ("ConcatenateRows", "PermuteRows"):
        attribute(operations, name, type)

    @wrap(knows)
    def is_gguf_arch_supported(gguf_arch):
        return knows(gguf_arch) or (_for_aule() and gguf_arch in MAPPINGS)

    @wrap(mapping)
    def get_gguf_conversion_mapping(gguf_arch, config):
        return (
            MAPPINGS[gguf_arch](config)
            if not knows(gguf_arch) and gguf_arch in MAPPINGS
            else mapping(gguf_arch, config)
        )

    patches.rebind(knows, is_gguf_arch_supported)
    patches.rebind(mapping, get_gguf_conversion_mapping)


def _configurations(config_mapping: ModuleType, patches: Patches) -> None:
    """Without them transformers asks the package gguf for the configuration."""
    table = attribute(config_mapping, "GGUF_CONFIG_ARCHS", dict)
    for name, builder in CONFIGS.items():
        if name not in table:
            patches.add_item(table, name, builder)


def _targets_aule(device_map) -> bool:
    places = device_map.values() if isinstance(device_map, dict) else [device_map]
    for place in places:
        if place in PLANNED:
            if aule_is_default():
                return True
        elif isinstance(place, int):
            if aule_is_default():
                return True
        elif place not in (None, "disk") and torch.device(place).type == "aule":
            return True
    return False


def _only_aule(device_map) -> bool:
    """Whether the whole model goes to one device of ours, which is named."""
    places = list(device_map.values()) if isinstance(device_map, dict) else [device_map]
    return len(places) == 1 and places[0] not in PLANNED and _targets_aule(device_map)


class _PackedOnRead:
    """A tensor of a file whose rows are packed before they come to the device."""

    def __init__(self, tensor: Any, form: str):
        self.tensor, self.form = tensor, form
        count = tensor.shape[-1] // FORMATS[form].block_bytes
        self.shape = (*tensor.shape[:-1], FORMATS[form].packed_row_bytes(count * FORMATS[form].values))

    def __getitem__(self, index) -> torch.Tensor:
        return pack(self.tensor[index], self.form)


def _pack_large_on_read(quantizer: Any, state: dict[str, Any], names: dict[str, str]) -> list[Any]:
    """Have the rows of large modules packed by the host: the device would hold them twice, beside all the others.

    `names` has the model's name of each tensor. Returns the modules.
    """
    modules: dict[str, Any] = quantizer.packed_modules
    sizes: Counter[int] = Counter()
    for info in quantizer.header.tensors:
        sizes[id(modules.get(names[info.name]))] += info.nbytes
    large = sizes.total() // 32
    chosen = {id(m): m for m in modules.values() if sizes[id(m)] > large}
    for module in chosen.values():
        for name, ggml_type, k in _weights_of(module):
            weight, form = getattr(module, name), FORMATS[FORMAT_OF_TYPE[ggml_type]]
            empty = weight.new_empty((*weight.shape[:-1], form.packed_row_bytes(k)))
            setattr(module, name, nn.Parameter(empty, requires_grad=False))
    for name, tensor in state.items():
        if id(modules.get(names[name])) in chosen:
            state[name] = _PackedOnRead(tensor, FORMAT_OF_TYPE[tensor.ggml_type])
    return list(chosen.values())


def _quantizer(quantizer_gguf: ModuleType, patches: Patches) -> None:
    owner = attribute(quantizer_gguf, "GgufHfQuantizer", type)
    own = {
        name: attribute(owner, name, FunctionType)
        for name in (
            "update_device_map", "update_dtype", "read_header", "get_state_dict", "_process_model_after_weight_loading",
        )
    }  # fmt: skip
    parameters_of(own["update_device_map"], "self", "device_map")
    parameters_of(own["update_dtype"], "self", "dtype")
    parameters_of(own["read_header"], "self", "gguf_file")
    parameters_of(own["get_state_dict"], "self", "checkpoint_file", "model")
    read = attribute(quantizer_gguf, "read_gguf_metadata", FunctionType)
    loading = importlib.import_module("transformers.core_model_loading")
    rename = attribute(loading, "rename_source_key", FunctionType)
    parameters_of(rename, "source_key", "weight_renamings", "weight_converters")
    transforms = [attribute(loading, name, type) for name in ("WeightRenaming", "WeightConverter")]

    def name_in_model(self):
        """Of each tensor. On a copy: a transform that is asked is marked as used."""
        mapping = copy.deepcopy(self.mapping)
        kinds = [[t for t in mapping if isinstance(t, kind)] for kind in transforms]
        return {info.name: rename(info.name, *kinds)[0] for info in self.header.tensors}

    @wrap(own["update_device_map"])
    def update_device_map(self, device_map):
        device_map = own["update_device_map"](self, device_map)
        if not self.quantization_config.dequantize:
            device_map = default_map(device_map)
        self._aule_target, self._aule_alone = _targets_aule(device_map), _only_aule(device_map)
        return device_map

    @wrap(own["update_dtype"])
    def update_dtype(self, dtype):
        if dtype is None or self.quantization_config.dequantize or not getattr(self, "_aule_target", False):
            return own["update_dtype"](self, dtype)
        self.dtype = dtype  # without the warning that only float32 is fast: ours take x's dtype
        return dtype

    @wrap(own["read_header"])
    def read_header(self, gguf_file):
        metadata, names = read(gguf_file)
        ours = metadata["general.architecture"] not in MAPPINGS or is_served(metadata, names)
        _loading.for_aule = getattr(self, "_aule_target", False) and ours
        try:
            own["read_header"](self, gguf_file)
        finally:
            _loading.for_aule = False

    @wrap(own["get_state_dict"])
    def get_state_dict(self, checkpoint_file, model):
        state = own["get_state_dict"](self, checkpoint_file, model)
        if self.supported and self.header.architecture in MAPPINGS and ROPE_FACTORS in state:
            self._aule_rope_factors = state.pop(ROPE_FACTORS)[:]
        if self.supported and getattr(self, "_aule_alone", False) and not self.quantization_config.dequantize:
            self._aule_packed = _pack_large_on_read(self, state, name_in_model(self))
        return state

    @wrap(own["_process_model_after_weight_loading"])
    def process(self, model, **kwargs):
        if getattr(self, "_aule_target", False):
            self.attn_requested = True  # else it asks the hub for a kernel of another device
        model = own["_process_model_after_weight_loading"](self, model, **kwargs)
        for module in getattr(self, "_aule_packed", ()):
            for name, *_ in _weights_of(module):
                setattr(getattr(module, name), PACKED, True)
        for module in self.packed_modules.values():
            _settle(module)
        if self.supported:
            _check_numbers(self.header.path, self.packed_modules)
        factors = getattr(self, "_aule_rope_factors", None)
        if factors is not None:
            for module in model.modules():
                for name in ("inv_freq", "original_inv_freq"):
                    turned = getattr(module, name, None)
                    if isinstance(turned, torch.Tensor) and turned.shape == factors.shape:
                        setattr(module, name, turned / factors.to(turned))
        return model

    patches.set(owner, "update_device_map", update_device_map)
    patches.set(owner, "update_dtype", update_dtype)
    patches.set(owner, "read_header", read_header)
    patches.set(owner, "get_state_dict", get_state_dict)
    patches.set(owner, "_process_model_after_weight_loading", process)


HOOKS = [
    Hook(
        "transformers", "gguf_reader", "transformers.integrations.gguf.reader",
        "a GGUF file that is cut, or describes what cannot be, is refused before anything is allocated", _reader,
    ),
    Hook(
        "transformers", "gguf_types", "transformers.integrations.gguf.dequant",
        "GGUF files may have tensors of Q5_0, Q5_1 and MXFP4", _types,
    ),
    Hook(
        "transformers", "gguf_kernels", "transformers.integrations.gguf.kernels",
        "blocks of GGUF files on aule are read by the kernels of the device", _kernels,
    ),
    Hook(
        "transformers", "gguf_modules", "transformers.integrations.gguf.utils",
        "modules with blocks of GGUF files keep them packed on aule and never decode a whole weight", _modules,
    ),
    Hook(
        "transformers", "gguf_mappings", "transformers.integrations.gguf.utils",
        f"GGUF files of {', '.join(MAPPINGS)} stay packed on aule", _mappings,
    ),
    Hook(
        "transformers", "gguf_configurations", "transformers.integrations.gguf.gguf_config_mapping",
        f"configurations of {', '.join(CONFIGS)} come from a file's metadata, without the package gguf",
        _configurations,
    ),
    Hook(
        "transformers", "gguf_quantizer", "transformers.quantizers.quantizer_gguf",
        "from_pretrained(gguf_file=...) without a device_map loads to aule, packed", _quantizer,
    ),
]  # fmt: skip
