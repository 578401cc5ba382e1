"""Headers of GGUF files: what is right is read, what is wrong is one sentence, and nothing is read past the end."""

import os
import random
import struct
import tracemalloc

import numpy as np
import pytest
import torch

from gguf_writer import TYPES, write_gguf
from quantized_reference import FORMATS, random_blocks
from torch_aule.quantized.gguf import FORMAT_OF_TYPE, read_header

METADATA = {"general.architecture": "llama", "llama.block_count": 2, "llama.rope.freq_base": 1e4, "a.flag": True,
            "tokenizer.ggml.tokens": ["a", "bc", ""], "a.numbers": [1, -2, 3]}  # fmt: skip


@pytest.fixture
def file(tmp_path):
    """A file with a tensor of each format."""
    rng = np.random.default_rng(torch.randint(2**31, ()).item())
    tensors = {
        f"blk.0.{name}.weight": (name, (3, 2 * form.values), random_blocks(rng, name, 3, 2 * form.values))
        for name, form in FORMATS.items()
    }
    tensors["norm.weight"] = ("f32", (5,), np.arange(5, dtype=np.float32))
    path = tmp_path / "small.gguf"
    write_gguf(path, METADATA, tensors)
    return path, tensors


def test_what_is_read(file):
    path, tensors = file
    header = read_header(path)
    assert header.metadata == METADATA
    assert list(header.tensors) == list(tensors)
    data = path.read_bytes()
    for name, (kind, sizes, values) in tensors.items():
        tensor = header.tensors[name]
        assert tensor.sizes == sizes and tensor.type == TYPES[kind]
        assert tensor.format == (None if kind == "f32" else kind)
        assert data[tensor.offset : tensor.offset + tensor.bytes] == np.ascontiguousarray(values).tobytes()
    assert {TYPES[name]: name for name in FORMATS} == dict(FORMAT_OF_TYPE)


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda data: b"", "empty"),
        (lambda data: b"GGML" + data[4:], "does not begin with GGUF"),
        (lambda data: data[:4] + struct.pack("<I", 1) + data[8:], "version 1 of GGUF"),
        (lambda data: data[:40], "the file ends within a key of the metadata, at byte 40"),
        (lambda data: data[:-1], "tensor 'norm.weight' of type 0 wants 20 bytes from byte"),
        (lambda data: data[:8] + struct.pack("<Q", 2**60) + data[16:], "ends within|is no text|dimensions"),
        (lambda data: data.replace(b"a.numbers" + struct.pack("<IIQ", 9, 5, 3),
                                   b"a.numbers" + struct.pack("<IIQ", 9, 5, 2**62)), "the value of 'a.numbers'"),
        (lambda data: data.replace(b"a.numbers" + struct.pack("<II", 9, 5),
                                   b"a.numbers" + struct.pack("<II", 9, 77)), "unknown type 77"),
        (lambda data: data.replace(struct.pack("<IQQ", 2, 64, 3), struct.pack("<IQQ", 2, 63, 3), 1),
         "tensor 'blk.0.iq4_nl.weight' has rows of 63 values, no multiple of the 32 in a block of iq4_nl"),
        (lambda data: data.replace(struct.pack("<IQQ", 2, 64, 3), struct.pack("<IQQ", 2, 64, 2**40), 1),
         "tensor 'blk.0.iq4_nl.weight' of iq4_nl wants"),
    ],
)  # fmt: skip
def test_a_broken_file_is_one_sentence(file, change, words):
    path, _ = file
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(ValueError, match=words) as raised:
        read_header(path)
    assert str(raised.value).startswith(f"{path}: ") and "\n" not in str(raised.value)


def test_broken_headers_by_the_thousand(file):
    """Bytes of the header are changed, cut and doubled: an error, or what is right, and memory of the file's size."""
    path, tensors = file
    data = path.read_bytes()
    header = min(t.offset for t in read_header(path).tensors.values())
    rng = random.Random(torch.randint(2**31, ()).item())
    count = 10_000 if os.environ.get("TORCH_AULE_LONG_TESTS") == "1" else 1_000
    refused = 0
    for _ in range(count):
        broken = bytearray(data)
        for _ in range(rng.choice((1, 1, 2, 8))):
            at = rng.randrange(header)
            size = rng.choice((1, 1, 4, 8))
            broken[at : at + size] = rng.choice(
                (rng.randbytes(size), b"\xff" * size, b"\0" * size, b"", bytes(broken[at : at + 2 * size]))
            )
        path.write_bytes(broken)
        tracemalloc.start()
        try:
            for tensor in read_header(path).tensors.values():
                assert tensor.offset + (tensor.bytes or 0) <= len(broken)
        except ValueError as error:
            assert str(error).startswith(f"{path}: ")
            refused += 1
        finally:
            # A number of a list is at least a byte of the file, and 40 bytes of Python.
            assert tracemalloc.get_traced_memory()[1] <= 64 * len(broken)
            tracemalloc.stop()
    assert refused > count // 4
