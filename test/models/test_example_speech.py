"""The speech example: text in, a WAV file out, and sound that is the CPU's."""

import json

import pytest
import torch

from helpers import relative_error
from torch_aule import audio

transformers = pytest.importorskip("transformers")

from torch_aule.examples import speech  # noqa: E402


def test_the_check(device, capsys):
    assert speech.main([]) == 0
    assert "samples in" in capsys.readouterr().out


def test_other_sound_fails(device, monkeypatch, capsys):
    own = speech.speak

    def wrong(model, tokens, *rest):
        return own(model, tokens, *rest) * (2 if tokens.device.type == "aule" else 1)

    monkeypatch.setattr(speech, "speak", wrong)
    assert speech.main([]) == 1


@pytest.fixture
def vits(tmp_path):
    """A checkpoint with a tokenizer of letters."""
    folder = tmp_path / "vits"
    speech.small_vits().save_pretrained(folder)
    letters = {letter: i for i, letter in enumerate("_ abcdefghijklmnopqrstuvwxyz'-")}
    (tmp_path / "vocab.json").write_text(json.dumps(letters))
    tokenizer = transformers.VitsTokenizer(str(tmp_path / "vocab.json"), pad_token="_", unk_token="_", phonemize=False)
    tokenizer.save_pretrained(folder)
    return str(folder)


def test_vits(device, tmp_path, vits, capsys):
    """The file has what the model makes on the CPU, as integers."""
    out = tmp_path / "out.wav"
    assert speech.main(["hello world", "-o", str(out), "--model", vits]) == 0
    sound, rate = audio.read_wav(out)
    model = transformers.VitsModel.from_pretrained(vits).double().eval()
    tokens = transformers.AutoTokenizer.from_pretrained(vits)("hello world", return_tensors="pt").input_ids
    expected = speech.speak(model, tokens)
    assert rate == model.config.sampling_rate and sound.shape == (1, len(expected))
    assert (sound[0] - expected.clamp(-1, 1)).abs().max() < 2**-15 + 1e-4
    assert "s of sound in" in capsys.readouterr().out
    assert speech.main(["hello", "-o", str(out), "--model", vits, "--speaker", "1"]) == 1
    assert "this model has 1 voices" in capsys.readouterr().err


def small_speecht5():
    config = transformers.SpeechT5Config(
        vocab_size=30, hidden_size=32, encoder_layers=2, encoder_attention_heads=2, encoder_ffn_dim=48,
        decoder_layers=2, decoder_attention_heads=2, decoder_ffn_dim=48, num_mel_bins=20, speaker_embedding_dim=16,
        speech_decoder_prenet_units=16, speech_decoder_postnet_units=16, speech_decoder_prenet_dropout=0.0,
        speech_decoder_postnet_layers=2, max_speech_positions=60, max_text_positions=40,
    )  # fmt: skip
    vocoder = transformers.SpeechT5HifiGanConfig(
        model_in_dim=20, upsample_initial_channel=16, upsample_rates=[4, 4], upsample_kernel_sizes=[8, 8],
        resblock_kernel_sizes=[3], resblock_dilation_sizes=[[1, 3]], sampling_rate=8000,
    )  # fmt: skip
    return transformers.SpeechT5ForTextToSpeech(config).eval(), transformers.SpeechT5HifiGan(vocoder).eval()


def test_speecht5(device, tmp_path, monkeypatch, capsys):
    """With a voice from a file; its tokenizer is replaced, since a SentencePiece model has a file of its own."""
    # The prenet drops units even when it speaks; without that the sound is the CPU's.
    from transformers.models.speecht5 import modeling_speecht5

    monkeypatch.setattr(
        modeling_speecht5.SpeechT5SpeechDecoderPrenet, "_consistent_dropout", lambda self, states, p: states
    )
    model, vocoder = small_speecht5()
    model.save_pretrained(tmp_path / "model")
    vocoder.save_pretrained(tmp_path / "vocoder")
    tokens, speaker = torch.randint(3, 30, (1, 9)), torch.randn(16)
    torch.save(speaker, tmp_path / "voice.pt")

    class Tokenizer:
        def __call__(self, text, return_tensors):
            self.input_ids = tokens
            return self

    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", lambda name: Tokenizer())
    command = ["hi", "-o", str(tmp_path / "out.wav"), "--model", str(tmp_path / "model")]
    command += ["--vocoder", str(tmp_path / "vocoder")]
    assert speech.main([*command, "--speaker", str(tmp_path / "voice.pt")]) == 0
    sound, rate = audio.read_wav(tmp_path / "out.wav")
    expected = speech.speak(model.double(), tokens, speaker[None].double(), vocoder.double())
    assert rate == 8000 and sound.shape == (1, len(expected))
    assert relative_error(sound[0], expected, 1.0) < 2**-15 + 1e-3
    assert speech.main(command) == 0  # a voice of zeros
    torch.save(torch.zeros(3), tmp_path / "voice.pt")
    assert speech.main([*command, "--speaker", str(tmp_path / "voice.pt")]) == 1
    assert "expected a tensor of 16 numbers" in capsys.readouterr().err


def test_no_model(device, tmp_path, capsys):
    assert speech.main(["hello", "--model", str(tmp_path)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "transformers cannot load it" in line
    transformers.BertConfig().save_pretrained(tmp_path)
    assert speech.main(["hello", "--model", str(tmp_path)]) == 1
    assert "a model of the kind 'bert'; expected vits or speecht5" in capsys.readouterr().err
