"""Hooks for bitsandbytes: 4-bit and 8-bit weights are read by the kernels of the device.

bitsandbytes asks for backends by an entry point (:func:`backend`); a hook does the same where torch_aule is not
installed as a package. The operators are those of bitsandbytes' own library, registered for this device.
"""

from __future__ import annotations

from math import prod
from types import ModuleType

import torch

from torch_aule.integrations._bitsandbytes_optimizers import optimizer_update_8bit_blockwise, optimizer_update_32bit
from torch_aule.integrations._packed import loads_by_default
from torch_aule.integrations._registry import Hook
from torch_aule.integrations.patch import NotAsExpected, Patches, attribute

__all__ = ["HOOKS", "backend"]

OF_CODE = 256  # codes of a nested scale that share a factor


def backend() -> None:
    """The entry point ``bitsandbytes.backends``: importing this has registered torch_aule, whose hook does the rest."""


def _bytes(packed: torch.Tensor) -> torch.Tensor:
    return packed.reshape(-1).view(torch.uint8)


def dequantize_4bit(packed, absmax, blocksize, quant_type, shape, dtype):
    """Numbers of `shape` of blocks of `blocksize` along the flattened weight."""
    values = prod(shape)
    rows = shape[0] if len(shape) > 1 and shape[0] > 0 and values // shape[0] % 8 == 0 else 1
    k = -(-values // (8 * rows)) * 8
    weight = _bytes(packed)
    missing = rows * k // 2 - weight.numel()
    if missing > 0:
        weight = torch.nn.functional.pad(weight, (0, missing))
    weight = weight[: rows * k // 2].view(rows, k // 2)
    out = torch.ops.aule.quantized_dequantize(weight, quant_type, k, dtype, [absmax], [blocksize])
    return out.view(-1)[:values].view(tuple(shape))


def _dequantize_4bit_out(packed, absmax, blocksize, quant_type, shape, dtype, out):
    out.copy_(dequantize_4bit(packed, absmax, blocksize, quant_type, shape, dtype))


def gemm_4bit(
    x, packed, shape, absmax, blocksize, quant_type, bias=None, codes=None, code_table=None, code_offset=None
):
    """``x @ weight.T + bias`` with the packed weight; scales may be codes of a byte themselves."""
    n, k = shape
    scales = [absmax] if codes is None else [codes, code_table, absmax, code_offset]
    if k % 8:
        if codes is not None:
            absmax = dequantize_blockwise(codes, absmax, code_table, OF_CODE, torch.float32) + code_offset
        weight = dequantize_4bit(packed, absmax, blocksize, quant_type, shape, x.dtype)
        return torch.nn.functional.linear(x, weight, bias)
    weight = _bytes(packed)[: n * k // 2].view(n, k // 2)
    return torch.ops.aule.quantized_linear(x, weight, quant_type, bias, scales, [blocksize])


def gemv_4bit(x, packed, shape, absmax, code, blocksize):
    """Versions before 0.50 call this; the table of numbers says which type it is, and the host waits for it."""
    return gemm_4bit(x, packed, shape, absmax, blocksize, "fp4" if code[1] > 0 else "nf4")


def _gemv_4bit_out(x, packed, shape, absmax, code, blocksize, out):
    out.copy_(gemv_4bit(x, packed, shape, absmax, code, blocksize))


def dequantize_blockwise(codes, absmax, code_table, blocksize, dtype):
    """Bytes that stand for numbers of a table, times the factor of their block."""
    numbers = code_table[codes.reshape(-1).int()]
    factors = absmax.repeat_interleave(blocksize)[: numbers.numel()]
    return (numbers * factors).to(dtype).view(codes.shape)


def _dequantize_blockwise_out(codes, absmax, code_table, blocksize, dtype, out):
    out.copy_(dequantize_blockwise(codes, absmax, code_table, blocksize, dtype))


def int8_linear_matmul(a, b):
    """``a @ b.T`` of int8 in int32."""
    return torch._int_mm(a.reshape(-1, a.size(-1)), b.t()).view(*a.shape[:-1], b.size(0))


def _int8_linear_matmul_out(a, b, out):
    out.copy_(int8_linear_matmul(a, b))


def int8_double_quant(a, threshold=0.0):
    """Rows and columns of `a` in int8 with the largest of each, but for outliers; and the columns that have some."""
    by_row, row_stats, outlier_columns = torch.ops.bitsandbytes.int8_vectorwise_quant.default(a, threshold)
    kept = a.masked_fill(a.abs() >= threshold, 0) if threshold > 0 else a
    column_stats = kept.abs().amax(0).float()
    by_column = torch.round(kept * (127.0 / column_stats.clamp(min=1e-38))).to(torch.int8)
    return by_row, by_column, row_stats, column_stats, outlier_columns


OPERATORS = {
    "dequantize_4bit": dequantize_4bit,
    "dequantize_4bit.out": _dequantize_4bit_out,
    "gemm_4bit": gemm_4bit,
    "gemv_4bit": gemv_4bit,
    "gemv_4bit.out": _gemv_4bit_out,
    "dequantize_blockwise": dequantize_blockwise,
    "dequantize_blockwise.out": _dequantize_blockwise_out,
    "int8_linear_matmul": int8_linear_matmul,
    "int8_linear_matmul.out": _int8_linear_matmul_out,
    "int8_double_quant": int8_double_quant,
    "optimizer_update_8bit_blockwise": optimizer_update_8bit_blockwise,
    "optimizer_update_32bit": optimizer_update_32bit,
}


def _operators(bitsandbytes: ModuleType, patches: Patches) -> None:
    devices = attribute(bitsandbytes, "supported_torch_devices", set)
    known = {name: function for name, function in OPERATORS.items() if _is_defined(name)}
    if "dequantize_4bit" not in known:
        raise NotAsExpected("this version of bitsandbytes has no operators in torch.library")
    library = torch.library.Library("bitsandbytes", "IMPL")
    for name, function in known.items():
        library.impl(name, function, "PrivateUse1")
    patches.on_undo(library._destroy)
    if "aule" not in devices:
        devices.add("aule")
        patches.on_undo(lambda: devices.discard("aule"))


def _is_defined(name: str) -> bool:
    operator, _, overload = name.partition(".")
    try:
        torch._C._dispatch_find_schema_or_throw(f"bitsandbytes::{operator}", overload)
    except RuntimeError:
        return False
    return True


HOOKS = [
    Hook(
        "bitsandbytes", "operators", "bitsandbytes",
        "4-bit and 8-bit weights on aule are read by the kernels of the device", _operators,
    ),
    Hook(
        "transformers", "bnb_4bit", "transformers.quantizers.quantizer_bnb_4bit",
        "4-bit models without a device_map load to aule, where they would load to the CPU",
        loads_by_default("Bnb4BitHfQuantizer"), chooses_device=True,
    ),
    Hook(
        "transformers", "bnb_8bit", "transformers.quantizers.quantizer_bnb_8bit",
        "8-bit models without a device_map load to aule, where they would load to the CPU",
        loads_by_default("Bnb8BitHfQuantizer"), chooses_device=True,
    ),
]  # fmt: skip
