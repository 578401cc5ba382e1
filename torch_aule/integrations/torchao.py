"""Hooks for torchao: weights of int4 groups and of int8 are read packed by the kernels of the device.

``Int4WeightOnlyConfig(int4_packing_format="plain_int32")`` and ``Int8WeightOnlyConfig`` make tensors of classes of
torchao's own, whose table says what ``F.linear`` does with them. On aule it is one product with the packed weight.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

import torch
from torch.utils.weak import WeakIdKeyDictionary

from torch_aule.integrations._packed import is_group, packed_linear
from torch_aule.integrations._registry import Hook
from torch_aule.integrations.patch import NotAsExpected, Patches, attribute, parameters_of, wrap

__all__ = ["HOOKS"]

LINEAR = torch.nn.functional.linear, torch.ops.aten.linear.default
_rows = WeakIdKeyDictionary()  # by weight; an attribute of it would be saved with it


def _on_device(*tensors: torch.Tensor | None) -> bool:
    return all(t is None or t.device.type == "aule" for t in tensors)


def _tables(owner: Any) -> list[tuple[dict, Any]]:
    """The table in which a torchao class keeps its F.linear and aten::linear, and the key."""
    found: list[tuple[dict, Any]] = []
    for name, operator in (("_TORCH_FN_TABLE", LINEAR[0]), ("_ATEN_OP_TABLE", LINEAR[1])):
        functions = getattr(owner, name, {}).get(owner, {})
        if operator not in functions:
            raise NotAsExpected(f"{owner.__name__} has no {operator} of its own")
        parameters_of(functions[operator], "func", "types", "args", "kwargs")
        found.append((functions, operator))
    return found


def _serve_linear(tables: list[tuple[dict, Any]], patches: Patches, serves: Callable, product: Callable) -> None:
    """Let the operators run `product` where `serves` says so."""
    for functions, operator in tables:
        own = functions[operator]

        @wrap(own)
        def linear(func, types, args, kwargs, own=own):
            x, weight, bias = args[0], args[1], args[2] if len(args) > 2 else (kwargs or {}).get("bias")
            if not (_on_device(x, weight, bias) and serves(x, weight)):
                return own(func, types, args, kwargs)
            if weight.act_pre_scale is not None:
                x = x * weight.act_pre_scale
            return product(x, weight, bias)

        patches.set_item(functions, operator, linear)


def _rows_of(weight, *names: str) -> list[torch.Tensor]:
    """[groups, n] numbers of a weight as [n, groups], kept for as long as it lives and they stay the same."""
    tensors = [getattr(weight, name) for name in names]
    if torch.compiler.is_compiling():
        return [t.t().contiguous() for t in tensors]
    state = [(t.data_ptr(), t._version) for t in tensors]
    kept = _rows.get(weight)
    if kept is None or kept[0] != state:
        kept = _rows[weight] = state, [t.t().contiguous() for t in tensors]
    return kept[1]


def _int4(module: ModuleType, patches: Patches) -> None:
    owner = attribute(module, "Int4PlainInt32Tensor", type)
    own = attribute(owner, "from_hp", classmethod)
    parameters_of(own.__func__, "cls", "w", "block_size")
    parameters_of(owner.__init__, "self", "qdata", "scale", "zero_point", "block_size", "shape", "act_pre_scale")
    choose = attribute(module, "choose_qparams_affine", FunctionType)
    quantize = attribute(module, "quantize_affine", FunctionType)
    asymmetric = attribute(module, "MappingType", type).ASYMMETRIC
    tables = _tables(owner)

    @wrap(own.__func__)
    def from_hp(cls, w, block_size):
        if w.device.type != "aule":
            return own.__func__(cls, w, block_size)
        if w.ndim != 2 or w.shape[1] % 8 or not is_group(block_size[1]) or block_size[0] != 1:
            raise ValueError(
                f"int4 weights on aule are [n, k], k a multiple of 8, in groups of a power of two from 8 on along k, "
                f"but got {list(w.shape)} and blocks of {list(block_size)}"
            )
        scale, zero = choose(w, asymmetric, block_size, torch.int32, 0, 15, 1e-6, None, torch.int32)
        q = quantize(w, block_size, scale, zero, torch.int32, 0, 15)
        packed = (q[:, 1::2] << 4 | q[:, ::2]).to(torch.uint8).view(torch.int32)  # the first of two in the low half
        scale, zero = (t.reshape(w.shape[0], -1).t().contiguous() for t in (scale, zero))
        return cls(packed, scale, zero.to(torch.int8), block_size, w.shape)

    def serves(x, weight):
        return (
            isinstance(weight, owner) and x.is_floating_point() and weight.ndim == 2 and is_group(weight.block_size[1])
        )

    def product(x, weight, bias):
        scales = _rows_of(weight, "scale", "zero_point")
        return packed_linear(x, weight.qdata, "int4", scales, [weight.block_size[1]], bias)

    patches.set(owner, "from_hp", classmethod(from_hp))
    _serve_linear(tables, patches, serves, product)


def _int8(module: ModuleType, patches: Patches) -> None:
    owner = attribute(module, "Int8Tensor", type)
    parameters_of(
        owner.__init__, "self", "qdata", "scale", "block_size", "dtype", "zero_point", "act_quant_scale",
        "act_quant_zero_point", "act_pre_scale", "act_quant_kwargs", "reduce_range",
    )  # fmt: skip
    tables = _tables(owner)

    def serves(x, weight):
        if not isinstance(weight, owner) or weight.act_quant_kwargs is not None or weight.ndim != 2:
            return False
        (rows, group), k = weight.block_size, weight.shape[1]
        return rows == 1 and k % 8 == 0 and (group == k or is_group(group)) and x.is_floating_point()

    def product(x, weight, bias):
        group, k = weight.block_size[1], weight.shape[1]
        n = weight.shape[0]
        scales = [weight.scale.reshape(n, -1)]
        if group < k and weight.zero_point is not None:  # of whole rows torchao takes none
            scales.append(weight.zero_point.reshape(n, -1))
        return packed_linear(x, weight.qdata, "int8", scales, [group], bias)

    _serve_linear(tables, patches, serves, product)


HOOKS = [
    Hook(
        "torchao", "int4", "torchao.quantization.quantize_.workflows.int4.int4_plain_int32_tensor",
        'Int4WeightOnlyConfig(int4_packing_format="plain_int32") serves aule: weights stay packed', _int4,
    ),
    Hook(
        "torchao", "int8", "torchao.quantization.quantize_.workflows.int8.int8_tensor",
        "weights of Int8WeightOnlyConfig on aule are read packed by the kernels of the device", _int8,
    ),
]  # fmt: skip
