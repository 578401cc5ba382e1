"""Weights that stay in the blocks of quantized formats on the device.

A format is a row of a table in the extension: :data:`FORMATS` shows it. Weights of a file are packed once
(:func:`pack`), and then serve as an embedding's table (:func:`rows`), as a linear layer's weight (:func:`linear`) or as
the weights of experts (:func:`linear_by_expert`). What a block means is defined by GGML, whose files are GGUF:
https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. The other formats have scales in tensors of their own,
``scales``, and say in `group` which values share one:

- ``[scales]``: a weight is ``scale * q``;
- ``[scales, zeros]``: it is ``scale * (q - zero)``, of ``int4_offset`` it is ``scale * q + zero``;
- ``[codes, table, outer_scales, offset]``: scales are ``table[code] * outer_scale + offset``, an outer scale for 256
  codes (QLoRA, arXiv:2305.14314).

``nf4`` and ``fp4`` are bitsandbytes' levels, the first of two in the high half of a byte. ``int4`` has numbers from 0
to 15, ``int4_offset`` from -8 to 7, stored with 8 added, both with the first of two in the low half. ``int8``,
``float8_e4m3fn`` and ``float8_e5m2`` are PyTorch's dtypes as bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import NamedTuple

import torch

from torch_aule import _C

__all__ = [
    "FORMATS",
    "Format",
    "Weight",
    "dequantize",
    "linear",
    "linear_by_expert",
    "pack",
    "random_weight",
    "rows",
    "unpack",
]


class Format(NamedTuple):
    """A format of quantized weights.

    Attributes
    ----------
    values : int
        Weights of a block, neighbours along a row.
    data_bytes : int
        Bytes of a block without its scale.
    scale_bytes : int
        Bytes of the scale that a packed row keeps behind the data of all its blocks; 0 if the block is left as it is.
    scale_at : int
        Where the scale is in a block of a file, in bytes.
    """

    values: int
    data_bytes: int
    scale_bytes: int
    scale_at: int

    @property
    def has_scales(self) -> bool:
        """Whether blocks have their scales; else these are tensors of their own."""
        return self.values >= 32

    @property
    def block_bytes(self) -> int:
        """Bytes of a block in a file."""
        return self.data_bytes + self.scale_bytes

    def file_row_bytes(self, k: int) -> int:
        """Bytes of a row of `k` weights in a file."""
        return k // self.values * self.block_bytes

    def packed_row_bytes(self, k: int) -> int:
        """Bytes of a packed row of `k` weights: those of the file, and at most 15 more where scales are apart."""
        size = self.file_row_bytes(k)
        return (size + 15) // 16 * 16 if self.scale_bytes else size


FORMATS = MappingProxyType({name: Format(**row) for name, row in _C.quantized_formats().items()})
"""All formats by name that the device reads."""


class Weight(NamedTuple):
    """A weight as :func:`linear` takes it. Modules of models that have one say so by a method ``aule_weight()``.

    That returns a :class:`Weight`, or None while the module has none (on another device, say). With
    ``set_aule_weight(weight)`` they take another one of the same numbers: ``torch_aule.llm`` makes one weight of
    several.

    Attributes
    ----------
    packed : torch.Tensor
        ``[n, packed row bytes]`` of uint8.
    format : str
        A name of :data:`FORMATS`.
    scales : tuple of torch.Tensor
        Of a format whose blocks have none.
    group : tuple of int
        As for :func:`dequantize`.
    """

    packed: torch.Tensor
    format: str
    scales: tuple[torch.Tensor, ...] = ()
    group: tuple[int, ...] = ()


def _format(name: str) -> Format:
    if name not in FORMATS:
        raise ValueError(f"expected format to be one of {', '.join(FORMATS)}, but got {name!r}")
    return FORMATS[name]


def _group(group: int | Sequence[int]) -> Sequence[int]:
    return [group] if isinstance(group, int) else group


def _columns(size: int, row_bytes: int, name: str) -> int:
    form = FORMATS[name]
    if row_bytes % form.block_bytes:
        raise ValueError(
            f"expected rows of whole blocks of {name}, which have {form.block_bytes} bytes, but got {size} bytes a row"
        )
    return row_bytes // form.block_bytes * form.values


def pack(blocks: torch.Tensor, format: str) -> torch.Tensor:
    """Blocks as a file has them, as the kernels read them.

    Parameters
    ----------
    blocks : torch.Tensor
        ``[..., n, file's row bytes]`` of uint8, on any device.
    format : str
        A name of :data:`FORMATS`.

    Returns
    -------
    torch.Tensor
        ``[..., n, packed row bytes]`` of uint8 on the same device. `blocks` itself if the format needs no packing.

    Raises
    ------
    ValueError
        If there is no such format, or rows are no whole blocks.
    TypeError
        If `blocks` is not of uint8.
    """
    form = _format(format)
    if blocks.dtype != torch.uint8:
        raise TypeError(f"expected blocks of torch.uint8, but got {blocks.dtype}")
    size = blocks.size(-1)
    if not form.scale_bytes:
        _columns(size, size, format)
        return blocks
    k = _columns(size, size, format)
    # The data of a block is before its scale or behind it.
    count, start, end = k // form.values, form.scale_at, form.scale_at + form.scale_bytes
    apart = blocks.reshape(*blocks.shape[:-1], count, form.block_bytes)
    data = apart[..., end:] if start == 0 else apart[..., :start]
    packed = blocks.new_zeros((*blocks.shape[:-1], form.packed_row_bytes(k)))
    split = count * form.data_bytes
    packed[..., :split].unflatten(-1, (count, form.data_bytes)).copy_(data)
    packed[..., split:size].unflatten(-1, (count, form.scale_bytes)).copy_(apart[..., start:end])
    return packed


def unpack(packed: torch.Tensor, format: str, k: int) -> torch.Tensor:
    """Take :func:`pack` back.

    Parameters
    ----------
    packed : torch.Tensor
        ``[..., n, packed row bytes]`` of uint8.
    format : str
        A name of :data:`FORMATS`.
    k : int
        Weights of a row.

    Returns
    -------
    torch.Tensor
        ``[..., n, file's row bytes]`` of uint8.

    Raises
    ------
    ValueError
        If there is no such format, or rows have another size than `k` weights need.
    """
    form = _format(format)
    if k % form.values or packed.size(-1) != form.packed_row_bytes(k):
        raise ValueError(f"expected packed rows of {k} values of {format}, but got rows of {packed.size(-1)} bytes")
    if not form.scale_bytes:
        return packed
    count, split = k // form.values, k // form.values * form.data_bytes
    data = packed[..., :split].unflatten(-1, (count, form.data_bytes))
    scales = packed[..., split : split + count * form.scale_bytes].unflatten(-1, (count, form.scale_bytes))
    return torch.cat([scales, data] if form.scale_at == 0 else [data, scales], -1).flatten(-2)


# Places of a block's scale and minimum, float16, and numbers by which weights are as large as a model's.
_HALVES_IN_BLOCKS = {
    "iq4_xs": ((0, 2.0**-15),),
    "q2_k": ((80, 2.0**-8), (82, 2.0**-9)),
    "q4_1": ((0, 2.0**-8), (2, -(2.0**-5))),
    "q4_k": ((0, 2.0**-13), (2, 2.0**-11)),
    "q5_1": ((0, 2.0**-9), (2, -(2.0**-5))),
    "q5_k": ((0, 2.0**-14), (2, 2.0**-11)),
}


def _half_bytes(number: float, device: torch.device | str) -> torch.Tensor:
    return torch.tensor([number], dtype=torch.float16).view(torch.uint8).to(device)


def random_weight(
    format: str, n: int, k: int, device: torch.device | str = "aule"
) -> tuple[torch.Tensor, tuple[torch.Tensor, ...], tuple[int, ...]]:
    """A packed weight of random bits, for measurements.

    Parameters
    ----------
    format : str
        A name of :data:`FORMATS`.
    n, k : int
        Rows, and weights of a row.
    device : torch.device or str, default "aule"
        Where it is made.

    Returns
    -------
    (torch.Tensor, tuple of torch.Tensor, tuple of int)
        Packed rows, scales and group, as :func:`linear` takes them. Weights are as large as those of models, below 0.2.
        Scales that are tensors of their own are float32, one for 64 values of ``nf4`` and ``fp4``, for 128 of other
        formats of 4 bits and of float8, and for a row of ``int8``.

    Raises
    ------
    ValueError
        If there is no such format, or `k` is no multiple of its block.
    """
    form = _format(format)
    if k % form.values:
        raise ValueError(f"expected k to be a multiple of {form.values} for {format}, but got {k}")
    packed = torch.randint(0, 256, (n, form.packed_row_bytes(k)), dtype=torch.uint8, device=device)
    if form.has_scales:
        data = k // form.values * form.data_bytes
        if format == "mxfp4":
            packed[:, data:] = 119  # 2^-8
        elif form.scale_bytes:
            scale = {"q8_0": 2.0**-11, "q6_k": 2.0**-15, "q3_k": 2.0**-10, "iq4_nl": 2.0**-12}.get(format, 2.0**-8)
            packed[:, data:] = _half_bytes(scale, device).repeat((packed.size(1) - data) // 2)
        else:
            blocks = packed.unflatten(1, (-1, form.data_bytes))
            for at, scale in _HALVES_IN_BLOCKS[format]:
                blocks[..., at : at + 2] = _half_bytes(scale, device)
        return packed, (), ()
    if format.startswith("float8"):
        packed &= 0xBF  # numbers below 2, and no NaN
    group = {"nf4": 64, "fp4": 64, "int8": k}.get(format, 128)
    group = group if k % group == 0 else k
    scale = {"int8": 2.0**-11, "int4": 2.0**-8, "int4_offset": 2.0**-8}.get(format, 1 / 64)
    return packed, (torch.full((n, k // group), scale, dtype=torch.float32, device=device),), (group,)


def dequantize(
    weight: torch.Tensor,
    format: str,
    k: int,
    dtype: torch.dtype = torch.float32,
    scales: Sequence[torch.Tensor] = (),
    group: int | Sequence[int] = (),
) -> torch.Tensor:
    """The weights as numbers.

    Parameters
    ----------
    weight : torch.Tensor
        ``[n, packed row bytes]`` of uint8 on the device (:func:`pack`).
    format : str
        A name of :data:`FORMATS`.
    k : int
        Weights of a row.
    dtype : torch.dtype, default torch.float32
        float32, float16 or bfloat16. They are computed in float32, as the format defines them, and then rounded.
    scales : sequence of torch.Tensor, optional
        Of a format whose blocks have none: one tensor or four, as above.
    group : int or sequence of int, optional
        Values of a scale: a power of two, counted over all rows, or a whole row. Or rows and columns of a block.

    Returns
    -------
    torch.Tensor
        ``[n, k]`` of `dtype`.

    Raises
    ------
    ValueError
        If there is no such format.
    RuntimeError
        If sizes or dtypes do not fit.
    """
    return torch.ops.aule.quantized_dequantize(weight, format, k, dtype, scales, _group(group))


def rows(
    weight: torch.Tensor,
    indices: torch.Tensor,
    format: str,
    k: int,
    dtype: torch.dtype = torch.float32,
    scales: Sequence[torch.Tensor] = (),
    group: int | Sequence[int] = (),
) -> torch.Tensor:
    """Rows by index: an embedding whose table stays packed. Not differentiable: there is nothing to train.

    Parameters
    ----------
    weight : torch.Tensor
        ``[n, packed row bytes]`` of uint8 on the device (:func:`pack`).
    indices : torch.Tensor
        Of any sizes, int32 or int64, from 0 to n - 1. Another index is an error at the next synchronization.
    format, k, dtype, scales, group
        As for :func:`dequantize`.

    Returns
    -------
    torch.Tensor
        ``[*indices.shape, k]`` of `dtype`.

    Raises
    ------
    ValueError
        If there is no such format.
    RuntimeError
        If sizes or dtypes do not fit.
    """
    return torch.ops.aule.quantized_rows(weight, indices, format, k, dtype, scales, _group(group))


def linear(
    x: torch.Tensor,
    weight: torch.Tensor,
    format: str,
    bias: torch.Tensor | None = None,
    scales: Sequence[torch.Tensor] = (),
    group: int | Sequence[int] = (),
) -> torch.Tensor:
    """Compute ``x @ weight.T + bias`` with a packed weight.

    Sums are of float32. Up to 16 rows of x read the packed weight in the product's own kernel. With more, 64 MiB of
    weights at a time are decoded to x's dtype and multiplied. Differentiable in x and in bias, any number of times.

    Parameters
    ----------
    x : torch.Tensor
        ``[..., k]`` of any strides, float32, float16 or bfloat16.
    weight : torch.Tensor
        ``[n, packed row bytes]`` of uint8 (:func:`pack`).
    format : str
        A name of :data:`FORMATS`.
    bias : torch.Tensor, optional
        ``[n]``, x's dtype.
    scales, group
        As for :func:`dequantize`.

    Returns
    -------
    torch.Tensor
        ``[..., n]``, contiguous, x's dtype.

    Raises
    ------
    ValueError
        If there is no such format.
    RuntimeError
        If sizes or dtypes do not fit.
    """
    return torch.ops.aule.quantized_linear(x, weight, format, bias, scales, _group(group))


def linear_by_expert(
    x: torch.Tensor,
    weight: torch.Tensor,
    ids: torch.Tensor,
    format: str,
    scales: Sequence[torch.Tensor] = (),
    group: int | Sequence[int] = (),
) -> torch.Tensor:
    """Compute ``x[i] @ weight[ids[i, s]].T`` for each row i and each of its experts.

    Differentiable in x, any number of times. For the gradient, rows are sorted by expert on the device, and 64 MiB of
    weights at a time are decoded to x's dtype.

    Parameters
    ----------
    x : torch.Tensor
        ``[m, k]``, float32, float16 or bfloat16.
    weight : torch.Tensor
        ``[experts, n, packed row bytes]`` of uint8 (:func:`pack`).
    ids : torch.Tensor
        ``[m, slots]``, int32 or int64, read on the device. An id out of range is an error at the next synchronization.
    format : str
        A name of :data:`FORMATS`.
    scales, group
        As for :func:`dequantize`.

    Returns
    -------
    torch.Tensor
        ``[m, slots, n]``, x's dtype.

    Raises
    ------
    ValueError
        If there is no such format.
    RuntimeError
        If sizes or dtypes do not fit.
    """
    return torch.ops.aule.quantized_linear_by_expert(x, weight, ids, format, scales, _group(group))
