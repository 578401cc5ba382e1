"""WAV files: PCM of 8 to 32 bits and floating point, in and out."""

from __future__ import annotations

import ctypes
import os
import struct
from pathlib import Path

import torch

from torch_aule.audio.spectra import check_signal

__all__ = ["WavError", "read_wav", "write_wav"]

PCM, FLOAT, EXTENSIBLE = 1, 3, 0xFFFE
GUID = bytes.fromhex("000000001000800000aa00389b71")  # of an extensible format, after the two bytes of its code
ENCODINGS = {
    "pcm8": (PCM, 1), "pcm16": (PCM, 2), "pcm24": (PCM, 3), "pcm32": (PCM, 4), "float32": (FLOAT, 4),
    "float64": (FLOAT, 8),
}  # fmt: skip
UNKNOWN_LENGTH = 0xFFFFFFFF  # of programs that write into a pipe


class WavError(ValueError):
    """A file that is no WAV file, is cut, or has a format that is not read."""


def _chunks(data: memoryview, path) -> dict[bytes, tuple[memoryview, int]]:
    """Name -> content and the length that the file says it has; the first of each name."""
    if data[:4] not in (b"RIFF", b"RF64") or data[8:12] != b"WAVE":
        raise WavError(f"{path}: not a WAV file")
    found: dict[bytes, tuple[memoryview, int]] = {}
    at = 12
    while at + 8 <= len(data):
        name, length = bytes(data[at : at + 4]), struct.unpack_from("<I", data, at + 4)[0]
        if length == UNKNOWN_LENGTH and name == b"data":
            sizes = found.get(b"ds64")
            length = struct.unpack_from("<Q", sizes[0], 8)[0] if sizes and len(sizes[0]) >= 16 else len(data) - at - 8
        found.setdefault(name, (data[at + 8 : at + 8 + length], length))
        at += 8 + length + length % 2
    return found


def _format(content: memoryview, path) -> tuple[int, int, int, int]:
    """Code, channels, rate, bytes of a sample."""
    if len(content) < 16:
        raise WavError(f"{path}: the header is cut")
    code, channels, rate, _, block, bits = struct.unpack_from("<HHIIHH", content)
    if code == EXTENSIBLE:
        if len(content) < 40 or content[26:40] != GUID:
            raise WavError(f"{path}: an extensible format that is neither PCM nor floating point")
        code = struct.unpack_from("<H", content, 24)[0]
    if rate == 0 or channels == 0:
        raise WavError(f"{path}: a file of {rate} Hz and {channels} channels has no sound")
    size = block // channels  # a sample of 20 bits lies in 3 bytes, in the upper bits
    if (code, size) not in ENCODINGS.values() or block % channels or not 8 * size - 8 < bits <= 8 * size:
        raise WavError(
            f"{path}: format {code} of {bits} bits is not read, only PCM of 8 to 32 bits and floats of 32 and 64"
        )
    return code, channels, rate, size


def _samples(data: bytearray, code: int, size: int) -> torch.Tensor:
    """float32, or float64 of a float64 file."""
    if code == FLOAT:
        return torch.frombuffer(data, dtype=torch.float32 if size == 4 else torch.float64)
    if size == 1:
        return (torch.frombuffer(data, dtype=torch.uint8).float() - 128) / 128
    if size == 3:
        parts = torch.frombuffer(data, dtype=torch.uint8).view(-1, 3).to(torch.int32)
        whole = parts[:, 0] | parts[:, 1] << 8 | parts[:, 2] << 16
        return (whole - ((whole & 0x800000) << 1)).float() / 2**23
    integers = torch.frombuffer(data, dtype=torch.int16 if size == 2 else torch.int32)
    return integers.double().div(2 ** (8 * size - 1)).float()


def read_wav(path: str | os.PathLike) -> tuple[torch.Tensor, int]:
    """Samples and rate of a WAV file.

    Parameters
    ----------
    path : str or os.PathLike
        The file: PCM of 8, 16, 24 or 32 bits, or floating point of 32 or 64, also in an extensible format.

    Returns
    -------
    samples : torch.Tensor
        ``[channels, samples]`` on the CPU, float32 (float64 of a file of such); PCM from -1 to 1.
    sample_rate : int
        In Hz.

    Raises
    ------
    OSError
        For a file that cannot be read.
    WavError
        For what is no WAV file, is cut, has 0 Hz or no channels, or another format.

    Examples
    --------
    >>> samples, rate = torch_aule.audio.read_wav("speech.wav")
    """
    data = memoryview(Path(path).read_bytes())
    chunks = _chunks(data, path)
    if b"fmt " not in chunks or b"data" not in chunks:
        raise WavError(f"{path}: cut before the samples begin")
    code, channels, rate, size = _format(chunks[b"fmt "][0], path)
    content, length = chunks[b"data"]
    if len(content) < length:
        raise WavError(f"{path}: cut: {len(content)} of {length} bytes of samples are there")
    content = content[: len(content) // (size * channels) * (size * channels)]
    if not content:
        return torch.empty(channels, 0, dtype=torch.float64 if (code, size) == (FLOAT, 8) else torch.float32), rate
    return _samples(bytearray(content), code, size).view(-1, channels).t().contiguous(), rate


def _encoded(samples: torch.Tensor, encoding: str) -> bytes:
    code, size = ENCODINGS[encoding]
    if code == FLOAT:
        values = samples.to(torch.float32 if size == 4 else torch.float64)
    else:
        top = 2 ** (8 * size - 1)
        whole = samples.double().nan_to_num(0.0).mul(top).round().clamp(-top, top - 1).to(torch.int64)
        if size == 1:
            values = (whole + 128).to(torch.uint8)
        elif size == 3:
            values = torch.stack([whole >> shift & 255 for shift in (0, 8, 16)], -1).to(torch.uint8)
        else:
            values = whole.to(torch.int16 if size == 2 else torch.int32)
    values = values.contiguous()
    return ctypes.string_at(values.data_ptr(), values.nbytes) if values.numel() else b""


def write_wav(
    path: str | os.PathLike, samples: torch.Tensor, sample_rate: int = 16000, encoding: str = "pcm16"
) -> None:
    """Write a WAV file.

    Parameters
    ----------
    path : str or os.PathLike
        The file; one that is there is overwritten.
    samples : torch.Tensor
        ``[samples]`` or ``[channels, samples]``, of any device; PCM clips what is beyond -1 and 1, and NaN becomes 0.
    sample_rate : int, default 16000
        In Hz.
    encoding : str, default "pcm16"
        "pcm8", "pcm16", "pcm24", "pcm32", "float32" or "float64".

    Raises
    ------
    OSError
        For a file that cannot be written.
    TypeError
        For samples that are no floating-point numbers.
    ValueError
        For another shape, rate or encoding, or 4 GiB and more.

    Examples
    --------
    >>> torch_aule.audio.write_wav("speech.wav", samples, 16000)
    """
    if encoding not in ENCODINGS:
        raise ValueError(f"encoding: expected one of {', '.join(ENCODINGS)}, got {encoding!r}")
    if samples.dim() not in (1, 2) or (samples.dim() == 2 and not 1 <= samples.shape[0] < 1 << 16):
        raise ValueError(f"samples: expected [samples] or [channels, samples], got {list(samples.shape)}")
    if samples.numel():
        check_signal(samples, "samples")
    if not 1 <= sample_rate < 1 << 32:
        raise ValueError(f"sample_rate: expected 1 Hz or more, got {sample_rate}")
    code, size = ENCODINGS[encoding]
    rows = torch.atleast_2d(samples.detach().cpu())
    channels, length = rows.shape[0], rows.numel() * size
    if length + 64 >= 1 << 32:
        raise ValueError(f"samples: {length} bytes do not fit into a WAV file")
    form = struct.pack("<HHIIHH", code, channels, sample_rate, sample_rate * channels * size, channels * size, 8 * size)
    parts = [b"fmt ", struct.pack("<I", len(form)), form]
    if code == FLOAT:  # other formats than PCM say how many samples each channel has
        parts += [b"fact", struct.pack("<II", 4, rows.shape[1])]
    parts += [b"data", struct.pack("<I", length), _encoded(rows.t(), encoding), b"\0" * (length % 2)]
    body = b"WAVE" + b"".join(parts)
    Path(path).write_bytes(b"RIFF" + struct.pack("<I", len(body)) + body)
