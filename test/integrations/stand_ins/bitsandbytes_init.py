"""The operators of bitsandbytes 0.50 that the device registers kernels for, and the set of devices that it knows."""

import torch

supported_torch_devices = {"cpu", "cuda"}
LIBRARY = torch.library.Library("bitsandbytes", "DEF")
for schema in (
    "dequantize_4bit(Tensor A, Tensor absmax, int blocksize, str quant_type, int[] shape, ScalarType dtype) -> Tensor",
    "dequantize_4bit.out(Tensor A, Tensor absmax, int blocksize, str quant_type, int[] shape, ScalarType dtype, "
    "Tensor! out) -> ()",
    "gemm_4bit(Tensor A, Tensor B, int[] shapeB, Tensor absmax, int blocksize, str quant_type, Tensor? bias=None, "
    "Tensor? absmax_8bit=None, Tensor? absmax_code=None, Tensor? absmax_offset=None) -> Tensor",
    "gemv_4bit(Tensor A, Tensor B, int[] shapeB, Tensor absmax, Tensor code, int blocksize) -> Tensor",
    "gemv_4bit.out(Tensor A, Tensor B, int[] shapeB, Tensor absmax, Tensor code, int blocksize, Tensor! out) -> ()",
    "dequantize_blockwise(Tensor A, Tensor absmax, Tensor code, int blocksize, ScalarType dtype) -> Tensor",
    "dequantize_blockwise.out(Tensor A, Tensor absmax, Tensor code, int blocksize, ScalarType dtype, Tensor! out) -> "
    "()",
    "int8_linear_matmul(Tensor A, Tensor B) -> Tensor",
    "int8_linear_matmul.out(Tensor A, Tensor B, Tensor! out) -> ()",
    "int8_vectorwise_quant(Tensor A, float threshold=0.0) -> (Tensor, Tensor, Tensor?)",
    "optimizer_update_32bit(str optimizer_name, Tensor(a0!) g, Tensor(a1!) p, Tensor(a2!) state1, Tensor(a3!)? state2, "
    "Tensor(a4!)? unorm_vec, float max_unorm, float param_norm, float beta1, float beta2, float beta3, float alpha, "
    "float eps, float weight_decay, int step, float lr, float gnorm_scale, bool skip_zeros=False) -> ()",
    "optimizer_update_8bit_blockwise(str optimizer_name, Tensor(a0!) g, Tensor(a1!) p, Tensor(a2!) state1, "
    "Tensor(a3!)? state2, float beta1, float beta2, float beta3, float alpha, float eps, int step, float lr, "
    "Tensor(a4!) qmap1, Tensor(a5!)? qmap2, Tensor(a6!) absmax1, Tensor(a7!)? absmax2, float weight_decay, "
    "float gnorm_scale, bool skip_zeros=False) -> ()",
    "int8_double_quant(Tensor A, float threshold=0.0) -> (Tensor, Tensor, Tensor, Tensor, Tensor?)",
):
    LIBRARY.define(schema)


def _vectorwise_quant(a, threshold=0.0):
    outliers = a.abs() >= threshold if threshold > 0 else torch.zeros_like(a, dtype=torch.bool)
    kept = a.masked_fill(outliers, 0)
    largest = kept.abs().amax(1).float()
    columns = torch.argwhere(outliers.any(0)).view(-1) if threshold > 0 else None
    return torch.round(kept * (127.0 / largest[:, None])).to(torch.int8), largest, columns


LIBRARY.impl("int8_vectorwise_quant", _vectorwise_quant, "CompositeExplicitAutograd")
