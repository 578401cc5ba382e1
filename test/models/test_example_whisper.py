"""The Whisper example: its features are those that transformers computes, and its tokens the CPU's."""

import re
import wave

import pytest
import torch

from helpers import relative_error

transformers = pytest.importorskip("transformers")

from torch_aule.examples import whisper  # noqa: E402


@pytest.mark.parametrize("bands", [13, 80])
def test_mel_filters(bands):
    expected = transformers.audio_utils.mel_filter_bank(
        whisper.WINDOW // 2 + 1, bands, 0.0, whisper.RATE / 2, whisper.RATE, norm="slaney", mel_scale="slaney"
    )
    assert relative_error(whisper.mel_filters(bands), torch.from_numpy(expected).t()) < 1e-12


@pytest.mark.validated
def test_features(device):
    audio = 0.3 * torch.randn(2, whisper.RATE) * torch.linspace(0, 1, whisper.RATE)
    extractor = transformers.WhisperFeatureExtractor(feature_size=40, chunk_length=1)
    expected = extractor(list(audio.numpy()), sampling_rate=whisper.RATE, return_tensors="pt").input_features
    actual = whisper.log_mel(audio.to(device), 40)
    assert actual.device.type == "aule" and actual.shape == (2, 40, 100)
    assert relative_error(actual, expected) < 1e-4
    assert relative_error(actual, whisper.log_mel(audio.double(), 40)) < 1e-5
    silence = whisper.log_mel(torch.zeros(1, 1600, device=device), 7)
    assert silence.shape == (1, 7, 10) and relative_error(silence, torch.full((1, 7, 10), -1.5)) < 1e-6


def test_the_program(device, capsys):
    """Tokens and logits are compared with the CPU by the program itself, whose exit status is 0."""
    assert whisper.main(["--tokens", "5", "--seconds", "0.6"]) == 0
    text = capsys.readouterr().out
    assert 1 <= len(re.search("tokens: (.*)", text)[1].split()) <= 6
    assert "0.6 s of sound" in text and "features 1 x 20 x 60" in text


def test_a_checkpoint_and_a_file(device, tmp_path, capsys, monkeypatch):
    """A folder with a small model; its processor is replaced, since a tokenizer has files of its own."""
    transformers.WhisperForConditionalGeneration(whisper.small_config(0.4)).save_pretrained(tmp_path / "model")
    with wave.open(str(tmp_path / "a.wav"), "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(whisper.RATE)
        sound = torch.randint(-9000, 9000, (8000, 2), dtype=torch.int16)
        file.writeframes(bytes(sound.untyped_storage()))
    assert relative_error(whisper.read_wave(str(tmp_path / "a.wav")), sound.float().mean(1) / 32768) < 1e-6

    class Processor:
        def batch_decode(self, tokens, skip_special_tokens):
            return [f" {tokens.shape[0]} sequence "]

    monkeypatch.setattr(transformers.AutoProcessor, "from_pretrained", lambda name: Processor())
    command = ["--model", str(tmp_path / "model"), "--audio", str(tmp_path / "a.wav"), "--tokens", "3"]
    assert whisper.main(command) == 0
    assert "text: 1 sequence\n" in capsys.readouterr().out
    with wave.open(str(tmp_path / "b.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(1)
        file.setframerate(8000)
    with pytest.raises(SystemExit, match="expected 16000 Hz and 16 bits, got 8000 Hz, 8 bits"):
        whisper.read_wave(str(tmp_path / "b.wav"))


def test_other_tokens_fail(device, monkeypatch, capsys):
    own = whisper.log_mel

    def wrong(audio, bands):
        return own(audio, bands).flip(-1) * (-3 if audio.device.type == "aule" else 1)

    monkeypatch.setattr(whisper, "log_mel", wrong)
    assert whisper.main(["--tokens", "9", "--seconds", "0.6"]) == 1


@pytest.mark.parametrize("wrong", [["--tokens", "0"], ["--seconds", "0"]])
def test_wrong_options(wrong):
    with pytest.raises(SystemExit):
        whisper.main(wrong)
