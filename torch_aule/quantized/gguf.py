"""GGUF files: their types, and their headers, read with care (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md).

A file that somebody made by mistake, or on purpose, is an error with a sentence. Nothing is allocated that is larger
than the file.
"""

from __future__ import annotations

import mmap
import struct
from math import prod
from os import PathLike
from types import MappingProxyType
from typing import NamedTuple

from torch_aule.quantized import FORMATS

__all__ = ["FORMAT_OF_TYPE", "Header", "Tensor", "read_header"]

FORMAT_OF_TYPE = MappingProxyType({
    2: "q4_0",
    3: "q4_1",
    6: "q5_0",
    7: "q5_1",
    8: "q8_0",
    10: "q2_k",
    11: "q3_k",
    12: "q4_k",
    13: "q5_k",
    14: "q6_k",
    20: "iq4_nl",
    23: "iq4_xs",
    39: "mxfp4",
})  # fmt: skip
"""The name of the format in :data:`torch_aule.quantized.FORMATS` for each ``ggml_type`` that the device reads."""

# Numbers that are no blocks: float32, float16, int8, int16, int32, int64, float64, bfloat16.
_BYTES = {0: 4, 1: 2, 24: 1, 25: 2, 26: 4, 27: 8, 28: 8, 30: 2}
# Types of metadata: uint8, int8, uint16, int16, uint32, int32, float32, bool, uint64, int64, float64.
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_VERSIONS = (2, 3)
_MOST_DIMENSIONS = 4


class Tensor(NamedTuple):
    """A tensor of a file.

    Attributes
    ----------
    sizes : tuple of int
        In PyTorch's order: the last is along a row.
    type : int
        ``ggml_type``.
    format : str or None
        Its name in :data:`FORMAT_OF_TYPE`; None for other types.
    offset : int
        Where its data begin in the file, in bytes.
    bytes : int or None
        Their size; None for a type that is not known here.
    """

    sizes: tuple[int, ...]
    type: int
    format: str | None
    offset: int
    bytes: int | None


class Header(NamedTuple):
    """Metadata and tensors of a file.

    Attributes
    ----------
    metadata : dict
        Keys and values; arrays are lists.
    tensors : dict of str to Tensor
        By name, in the file's order.
    """

    metadata: dict
    tensors: dict[str, Tensor]


class _Reader:
    """Reads from the front of a file, and refuses to read past its end."""

    def __init__(self, data, path: str):
        self.data, self.path, self.at = data, path, 0

    def fail(self, what: str) -> ValueError:
        return ValueError(f"{self.path}: {what}")

    def take(self, size: int, what: str) -> int:
        """The beginning of `size` bytes, which are passed over."""
        start = self.at
        if size > len(self.data) - start:
            raise self.fail(f"the file ends within {what}, at byte {len(self.data)}")
        self.at = start + size
        return start

    def numbers(self, code: str, count: int, what: str) -> tuple:
        size = struct.calcsize("<" + code)
        return struct.unpack_from(f"<{count}{code}", self.data, self.take(count * size, what))

    def string(self, what: str) -> str:
        (size,) = self.numbers("Q", 1, what)
        start = self.take(size, what)
        try:
            return bytes(self.data[start : self.at]).decode()
        except UnicodeDecodeError:
            raise self.fail(f"{what} is no text in UTF-8") from None

    def value(self, kind: int, what: str, depth: int = 0):
        if kind in _NUMBERS:
            return self.numbers(_NUMBERS[kind], 1, what)[0]
        if kind == _STRING:
            return self.string(what)
        if kind != _ARRAY or depth > 3:
            raise self.fail(f"{what} has a value of the unknown type {kind}")
        element, count = self.numbers("I", 1, what)[0], self.numbers("Q", 1, what)[0]
        if element in _NUMBERS:
            return list(self.numbers(_NUMBERS[element], count, what))
        if count > (len(self.data) - self.at) // 8:  # a string, and an array, has 8 bytes and more
            raise self.fail(f"the file ends within {what}, which has {count} elements")
        return [self.value(element, what, depth + 1) for _ in range(count)]


def _tensor(reader: _Reader, name: str) -> Tensor:
    what = f"the description of tensor {name!r}"
    (count,) = reader.numbers("I", 1, what)
    if not 1 <= count <= _MOST_DIMENSIONS:
        raise reader.fail(f"tensor {name!r} has {count} dimensions, where 1 to {_MOST_DIMENSIONS} are allowed")
    sizes = tuple(reversed(reader.numbers("Q", count, what)))
    (kind,), (offset,) = reader.numbers("I", 1, what), reader.numbers("Q", 1, what)
    name_of_format = FORMAT_OF_TYPE.get(kind)
    size = None
    if name_of_format is not None:
        form = FORMATS[name_of_format]
        if sizes[-1] % form.values:
            raise reader.fail(
                f"tensor {name!r} has rows of {sizes[-1]} values, no multiple of the {form.values} in a block of "
                f"{name_of_format}"
            )
        size = prod(sizes[:-1]) * form.file_row_bytes(sizes[-1])
    elif kind in _BYTES:
        size = prod(sizes) * _BYTES[kind]
    return Tensor(sizes, kind, name_of_format, offset, size)


def _parse(reader: _Reader) -> Header:
    if bytes(reader.data[:4]) != b"GGUF":
        raise reader.fail("not a GGUF file: it does not begin with GGUF")
    reader.at = 4
    (version,) = reader.numbers("I", 1, "the header")
    if version not in _VERSIONS:
        raise reader.fail(f"version {version} of GGUF, where {' and '.join(map(str, _VERSIONS))} are known")
    tensors, entries = reader.numbers("Q", 2, "the header")
    metadata: dict = {}
    for _ in range(entries):
        key = reader.string("a key of the metadata")
        (kind,) = reader.numbers("I", 1, f"the value of {key!r}")
        metadata[key] = reader.value(kind, f"the value of {key!r}")
    found: dict[str, Tensor] = {}
    for _ in range(tensors):
        name = reader.string("a tensor's name")
        if name in found:
            raise reader.fail(f"two tensors are named {name!r}")
        found[name] = _tensor(reader, name)
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or alignment < 1 or alignment % 8:
        raise reader.fail(f"general.alignment is {alignment!r}, no multiple of 8")
    start = (reader.at + alignment - 1) // alignment * alignment
    for name, tensor in found.items():
        found[name] = tensor = tensor._replace(offset=start + tensor.offset)
        if tensor.offset + (tensor.bytes or 0) > len(reader.data):
            kind = tensor.format or f"type {tensor.type}"
            raise reader.fail(
                f"tensor {name!r} of {kind} wants {tensor.bytes} bytes from byte {tensor.offset} on, but the file has "
                f"{len(reader.data)}"
            )
    return Header(metadata, found)


def read_header(path: str | PathLike) -> Header:
    """The content of a GGUF file, without its tensors' data.

    Parameters
    ----------
    path : str or os.PathLike
        The file.

    Returns
    -------
    Header
        Its metadata, and its tensors with their places. Every tensor of a known type is within the file.

    Raises
    ------
    ValueError
        If the file is cut, begins otherwise, or describes what cannot be. The text names the file and the tensor.
    OSError
        If the file cannot be read.
    """
    with open(path, "rb") as file:
        if file.seek(0, 2) == 0:
            raise ValueError(f"{path}: not a GGUF file: it is empty")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _parse(_Reader(data, str(path)))
