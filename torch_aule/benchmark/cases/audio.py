"""Sound: features of half a minute, resampling, and the encoder that hears them, each as a person calls it.

30 seconds over the median are how many times faster than the sound they come.
"""

from __future__ import annotations

import importlib.util

import torch

from torch_aule.benchmark.harness.case import Case, Sizes
from torch_aule.benchmark.harness.targets import Target

RATE = 16000
WIDTH, LAYERS, HEADS, INNER, PLACES, BANDS = 768, 12, 12, 3072, 1500, 80  # Whisper-small's encoder


def audio(sizes: Sizes) -> list[Case]:
    if sizes.software:
        cases = [_log_mel(sizes, 1, clock="wall"), _resampling(sizes, clock="wall", main=False)]
    else:
        cases = [_log_mel(sizes, 1), _log_mel(sizes, 32, main=False), _resampling(sizes), _pitch(sizes, main=False)]
        if importlib.util.find_spec("transformers"):
            cases += [_encoder(1), _encoder(8)]
    return cases


def _sound(sizes: Sizes, batch: int, rate: int, device: str) -> torch.Tensor:
    return torch.randn(batch, int(sizes.sound_seconds * rate)).to(device)


def _log_mel(sizes: Sizes, batch: int, **more) -> Case:
    def make(device):
        from torch_aule.audio import whisper_log_mel  # an older package, of --package-root, has none

        sound = _sound(sizes, batch, RATE, device)
        return lambda: whisper_log_mel(sound)

    # Read once; the features are a sixth of it.
    moved = 4.0 * batch * sizes.sound_seconds * RATE * (1 + BANDS / 160)
    return Case(
        "audio", "log-mel of Whisper", _shapes(sizes, batch), "float32", make, bytes=moved, queued=False, **more
    )


def _resampling(sizes: Sizes, **more) -> Case:
    def make(device):
        from torch_aule.audio import resample

        sound = _sound(sizes, 1, 3 * RATE, device)
        return lambda: resample(sound, 3 * RATE, RATE)

    moved = 4.0 * sizes.sound_seconds * RATE * 4
    return Case("audio", "48 to 16 kHz", _shapes(sizes, 1), "float32", make, bytes=moved, queued=False, **more)


def _pitch(sizes: Sizes, **more) -> Case:
    def make(device):
        from torch_aule.audio import detect_pitch_yin_frames

        sound = _sound(sizes, 1, RATE, device)
        return lambda: detect_pitch_yin_frames(sound)

    return Case("audio", "pitch by YIN", _shapes(sizes, 1), "float32", make, queued=False, **more)


def _shapes(sizes: Sizes, batch: int) -> str:
    return f"B{batch} {sizes.sound_seconds:g} s"


def _encoder(batch: int) -> Case:
    def make(device):
        from transformers import WhisperConfig
        from transformers.models.whisper.modeling_whisper import WhisperEncoder

        torch.manual_seed(0)
        config = WhisperConfig(d_model=WIDTH, encoder_layers=LAYERS, encoder_attention_heads=HEADS,
                               encoder_ffn_dim=INNER, num_mel_bins=BANDS, attn_implementation="sdpa")  # fmt: skip
        encoder = WhisperEncoder(config).to(device, torch.float16).eval()
        features = torch.randn(batch, BANDS, 2 * PLACES).to(device, torch.float16)

        @torch.no_grad()
        def hear():
            return encoder(features).last_hidden_state

        return hear

    of_layer = 2 * PLACES * (4 * WIDTH**2 + 2 * WIDTH * INNER) + 4 * PLACES**2 * WIDTH
    of_convolutions = 2 * 3 * (2 * PLACES * BANDS * WIDTH + PLACES * WIDTH**2)
    flops = float(batch * (LAYERS * of_layer + of_convolutions))
    return Case("audio", "Whisper-small encoder", f"B{batch} N{PLACES}", "float16", make, flops=flops,
                target=Target("cuda", 0.9, 1.0), queued=False)  # fmt: skip
