"""GGUF files for tests (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md), version 3, little-endian."""

import struct
from pathlib import Path

import numpy as np

TYPES = {"q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8, "q2_k": 10, "q3_k": 11, "q4_k": 12, "q5_k": 13,
         "q6_k": 14, "iq4_nl": 20, "iq4_xs": 23, "mxfp4": 39, "f32": 0}  # fmt: skip
ALIGNMENT = 32


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _value(value) -> bytes:
    """Type and value: bool, int as uint32, float as float32, str, or a list of strings or ints."""
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + _string(value)
    if value and isinstance(value[0], str):
        return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(_string, value))
    return struct.pack("<IIQ", 9, 5, len(value)) + struct.pack(f"<{len(value)}i", *value)


def write_gguf(path: Path, metadata: dict, tensors: dict[str, tuple[str, tuple[int, ...], np.ndarray]]) -> None:
    """`tensors`: name -> (type, sizes in PyTorch's order, bytes or float32 values)."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    head += b"".join(_string(key) + _value(value) for key, value in metadata.items())
    body = bytearray()
    for name, (kind, sizes, data) in tensors.items():
        body += b"\0" * (-len(body) % ALIGNMENT)
        head += _string(name) + struct.pack(f"<I{len(sizes)}Q", len(sizes), *reversed(sizes))
        head += struct.pack("<IQ", TYPES[kind], len(body))
        body += np.ascontiguousarray(data).tobytes()
    path.write_bytes(head + b"\0" * (-len(head) % ALIGNMENT) + body)
