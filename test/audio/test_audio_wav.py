"""WAV files of other programs, ours beside them, and files that are broken."""

import struct
import wave

import numpy as np
import pytest
import torch

from helpers import relative_error
from torch_aule import audio
from torch_aule.audio import WavError

BITS = {"pcm8": 8, "pcm16": 16, "pcm24": 24, "pcm32": 32}


def integers(bits, channels, samples):
    """Random ones, with the smallest and the largest."""
    top = 2 ** (bits - 1)
    values = torch.randint(-top, top, (samples, channels), dtype=torch.int64)
    values[0, 0] = -top
    values[-1, -1] = top - 1
    return values


def as_bytes(values, bits):
    """As files have them; 8 bits are unsigned."""
    out = bytearray()
    for value in values.flatten().tolist():
        out += (value + 128).to_bytes(1, "little") if bits == 8 else value.to_bytes(bits // 8, "little", signed=True)
    return bytes(out)


@pytest.mark.parametrize("channels", [1, 2, 5])
@pytest.mark.parametrize("encoding", BITS)
def test_files_of_the_standard_library(tmp_path, encoding, channels):
    """Read what `wave` wrote, and let `wave` read what we wrote: the same bytes."""
    bits, path = BITS[encoding], tmp_path / "a.wav"
    values = integers(bits, channels, 33)
    with wave.open(str(path), "wb") as file:
        file.setparams((channels, bits // 8, 22050, 0, "NONE", ""))
        file.writeframes(as_bytes(values, bits))
    samples, rate = audio.read_wav(path)
    assert rate == 22050 and samples.dtype == torch.float32 and samples.is_contiguous()
    assert relative_error(samples, values.t().double() / 2 ** (bits - 1)) < 2**-24  # a rounding of float32
    audio.write_wav(str(path), values.t().double() / 2 ** (bits - 1), 44100, encoding)
    with wave.open(str(path)) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (channels, bits // 8, 44100)
        assert file.readframes(99) == as_bytes(values, bits)


@pytest.mark.parametrize("encoding", [*BITS, "float32", "float64"])
@pytest.mark.parametrize("samples", [0, 1, 801])
def test_there_and_back(device, tmp_path, encoding, samples):
    sound = (torch.rand(3, samples) * 2 - 1).to(device)
    audio.write_wav(tmp_path / "a.wav", sound, 8000, encoding)
    again, rate = audio.read_wav(tmp_path / "a.wav")
    assert rate == 8000 and again.shape == (3, samples)
    # Half a step of the integers, and at 1 a whole one, which has none of its own.
    step = 2.0 ** (1 - BITS[encoding]) if encoding in BITS else 0.0
    assert again.dtype == (torch.float64 if encoding == "float64" else torch.float32)
    if samples:
        assert (again - sound.cpu()).abs().max() <= step + (6e-8 if encoding in BITS else 0)
    one = sound[0]
    audio.write_wav(tmp_path / "b.wav", one, 8000, encoding)
    assert torch.equal(audio.read_wav(tmp_path / "b.wav")[0][0], again[0])


def test_what_does_not_fit_is_clipped(tmp_path):
    audio.write_wav(tmp_path / "a.wav", torch.tensor([2.0, -2.0, float("nan"), float("inf")]))
    assert audio.read_wav(tmp_path / "a.wav")[0].tolist() == [[32767 / 32768, -1.0, 0.0, 32767 / 32768]]
    audio.write_wav(tmp_path / "a.wav", torch.tensor([2.0, -2.0]), encoding="float32")
    assert audio.read_wav(tmp_path / "a.wav")[0].tolist() == [[2.0, -2.0]]


@pytest.mark.parametrize("subtype", ["PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE"])
@pytest.mark.parametrize("form", ["WAV", "WAVEX", "RF64"])
def test_files_of_soundfile(tmp_path, form, subtype):
    """Plain, extensible and long ones."""
    soundfile = pytest.importorskip("soundfile")
    sound = np.random.default_rng(torch.initial_seed() % 2**32).uniform(-1, 1, (77, 2))
    soundfile.write(tmp_path / "a.wav", sound, 16000, subtype, format=form)
    expected, _ = soundfile.read(tmp_path / "a.wav", always_2d=True)
    samples, rate = audio.read_wav(tmp_path / "a.wav")
    assert rate == 16000 and relative_error(samples, torch.from_numpy(expected.T)) < 2**-24
    encoding = {"PCM_U8": "pcm8", "FLOAT": "float32", "DOUBLE": "float64"}.get(
        subtype, subtype.lower().replace("_", "")
    )
    audio.write_wav(tmp_path / "b.wav", torch.from_numpy(expected.T), 16000, encoding)
    assert soundfile.info(tmp_path / "b.wav").subtype == subtype
    assert np.array_equal(soundfile.read(tmp_path / "b.wav")[0], expected)


def test_files_of_scipy(tmp_path):
    wavfile = pytest.importorskip("scipy.io.wavfile")
    for dtype in (np.uint8, np.int16, np.int32, np.float32, np.float64):
        sound = np.random.default_rng(torch.initial_seed() % 2**32).integers(0, 200, (50, 2)).astype(dtype)
        wavfile.write(tmp_path / "a.wav", 12345, sound)
        samples, rate = audio.read_wav(tmp_path / "a.wav")
        scale = np.iinfo(dtype).max + 1 if np.issubdtype(dtype, np.signedinteger) else 1
        expected = (sound.astype(float) - 128) / 128 if dtype == np.uint8 else sound / scale
        assert rate == 12345 and relative_error(samples, torch.from_numpy(expected.astype(float).T)) < 2**-24


def chunk(name, content):
    return name + struct.pack("<I", len(content)) + content + b"\0" * (len(content) % 2)


def made(form=None, data=b"\1\0\2\0", code=1, channels=1, rate=16000, bits=16, extra=b"", before=b""):
    """A file from its parts."""
    size = (bits + 7) // 8 * channels
    form = struct.pack("<HHIIHH", code, channels, rate, rate * size, size, bits) + extra if form is None else form
    body = b"WAVE" + before + chunk(b"fmt ", form) + chunk(b"data", data)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def extensible(code, tail="000000001000800000aa00389b71", valid=16):
    return struct.pack("<HHIH", 22, valid, 0, code) + bytes.fromhex(tail)


def test_unusual_files(tmp_path):
    """Other chunks of odd lengths, an extensible header, a stream whose length is not known, half a frame too much."""
    path = tmp_path / "a.wav"
    for content in (
        made(before=chunk(b"LIST", b"abc")),
        made(code=0xFFFE, extra=struct.pack("<H", 22) + extensible(1)[2:]),
        made()[:-8] + b"\xff\xff\xff\xff" + made()[-4:],
        made(data=b"\1\0\2\0\3"),
        made() + b"xyz",
    ):
        path.write_bytes(content)
        assert (audio.read_wav(path)[0] * 32768).tolist() == [[1.0, 2.0]]
    path.write_bytes(made(data=b"\0\0\1" * 2, bits=20))  # in 3 bytes each
    assert (audio.read_wav(path)[0] * 2**23).tolist() == [[65536.0, 65536.0]]


BROKEN = {
    "empty": (b"", "not a WAV file"),
    "text": (b"hello, this is no sound at all", "not a WAV file"),
    "another RIFF": (b"RIFF\4\0\0\0AVI ", "not a WAV file"),
    "no samples": (made()[:36], "cut before the samples begin"),
    "a cut header": (made()[:24], "cut before the samples begin|the header is cut"),
    "a short header": (made(form=b"\1\0\1\0"), "the header is cut"),
    "cut samples": (made(data=b"\0" * 100)[:-60], "cut: 40 of 100 bytes of samples are there"),
    "0 Hz": (made(rate=0), "a file of 0 Hz and 1 channels has no sound"),
    "no channels": (made(channels=0, bits=16), "0 channels has no sound"),
    "ADPCM": (made(code=2, bits=4), "format 2 of 4 bits is not read"),
    "A-law": (made(code=6, bits=8), "format 6 of 8 bits is not read"),
    "half floats": (made(code=3, bits=16), "format 3 of 16 bits is not read"),
    "64-bit PCM": (made(bits=64, data=b"\0" * 8), "format 1 of 64 bits is not read"),
    "0 bits": (made(bits=0), "is not read"),
    "another extensible format": (
        made(code=0xFFFE, extra=struct.pack("<H", 22) + extensible(1, "00" * 14)[2:]), "neither PCM nor floating point",
    ),
    "a cut extensible format": (made(code=0xFFFE), "neither PCM nor floating point"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files(tmp_path, name):
    """One sentence, which begins with the file's name."""
    content, words = BROKEN[name]
    path = tmp_path / "a.wav"
    path.write_bytes(content)
    with pytest.raises(WavError, match=words) as caught:
        audio.read_wav(path)
    assert str(caught.value).startswith(f"{path}: ") and "\n" not in str(caught.value)


def test_a_file_cut_anywhere(tmp_path):
    """At each byte: an error of ours, never another one, and never sound that is shorter than the file says."""
    whole = made(data=as_bytes(integers(16, 2, 20), 16), channels=2, before=chunk(b"LIST", b"abcde"))
    for length in range(len(whole)):
        (tmp_path / "a.wav").write_bytes(whole[:length])
        with pytest.raises(WavError):
            audio.read_wav(tmp_path / "a.wav")


@pytest.mark.parametrize(
    "options, error, words",
    [
        ({"samples": torch.zeros(2, 2, 2)}, ValueError, r"\[channels, samples\]"),
        ({"samples": torch.zeros(0, 2)}, ValueError, r"\[channels, samples\]"),
        ({"samples": torch.zeros(2, dtype=torch.int16)}, TypeError, "floating-point"),
        ({"sample_rate": 0}, ValueError, "1 Hz or more"),
        ({"encoding": "mp3"}, ValueError, "expected one of pcm8, pcm16"),
    ],
)
def test_what_is_not_written(tmp_path, options, error, words):
    with pytest.raises(error, match=words):
        audio.write_wav(**{"path": tmp_path / "a.wav", "samples": torch.zeros(2), **options})
    assert not (tmp_path / "a.wav").exists()
    with pytest.raises(FileNotFoundError):
        audio.read_wav(tmp_path / "a.wav")
