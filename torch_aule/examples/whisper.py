"""Transcribes speech with Whisper: spectrogram, encoder and decoder on the device, the same tokens as the CPU.

    python -m torch_aule.examples.whisper [--model NAME_OR_FOLDER --audio SPEECH.wav]

By default the model is small and has random weights, so its text says nothing, and the audio is a synthetic one. With
--model it is a checkpoint of transformers' (A. Radford et al., "Robust Speech Recognition via Large-Scale Weak
Supervision", 2022, arXiv:2212.04356).
"""

from __future__ import annotations

import copy
import sys
import wave

from torch_aule.examples import _common as common  # isort: skip  (strict mode, before the backend loads)

import torch
import torch.nn.functional as F

from torch_aule.measure.timing import Stopwatch, synchronize

RATE, WINDOW, HOP = 16000, 400, 160  # samples: a second, a window of 25 ms, a step of 10 ms
FREQUENCY_LIMIT = 1000.0  # Hz: the mel scale is linear below and logarithmic above
STEP = 200.0 / 3  # Hz of a mel below the limit
GROWTH = 27.0 / torch.log(torch.tensor(6.4, dtype=torch.float64)).item()  # mels of a factor e above it


def _hertz(mel: torch.Tensor) -> torch.Tensor:
    limit = FREQUENCY_LIMIT / STEP
    return torch.where(mel < limit, STEP * mel, FREQUENCY_LIMIT * torch.exp((mel - limit) / GROWTH))


def mel_filters(bands: int) -> torch.Tensor:
    """Triangles of equal area (M. Slaney, "Auditory Toolbox", 1998): float64 [bands, WINDOW // 2 + 1]."""
    highest = FREQUENCY_LIMIT / STEP + GROWTH * torch.log(torch.tensor(RATE / 2 / FREQUENCY_LIMIT, dtype=torch.float64))
    edges = _hertz(torch.linspace(0.0, 1.0, bands + 2, dtype=torch.float64) * highest)
    bins = torch.linspace(0.0, RATE / 2, WINDOW // 2 + 1, dtype=torch.float64)
    low, middle, high = (edges[i : i + bands, None] for i in range(3))
    rising, falling = (bins - low) / (middle - low), (high - bins) / (high - middle)
    return torch.minimum(rising, falling).clamp_min(0.0) * 2.0 / (high - low)


def log_mel(audio: torch.Tensor, bands: int) -> torch.Tensor:
    """Features of sound [B, samples] at 16 kHz: [B, bands, samples // 160], within 8 decades of the loudest."""
    window = torch.hann_window(WINDOW, dtype=audio.dtype).to(audio.device)
    power = torch.stft(audio, WINDOW, HOP, window=window, return_complex=True)[..., :-1].abs().square()
    filters = mel_filters(bands).to(audio.device, audio.dtype)
    decades = (filters @ power).clamp_min(1e-10).log10()
    return (torch.maximum(decades, decades.amax((-2, -1), keepdim=True) - 8.0) + 4.0) / 4.0


def small_config(seconds: float):
    """A Whisper that takes so much sound, and says up to 40 tokens of 61."""
    import transformers

    return transformers.WhisperConfig(
        vocab_size=61, num_mel_bins=20, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=64, decoder_ffn_dim=64, max_source_positions=int(seconds * 50),
        max_target_positions=40, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
        suppress_tokens=None, begin_suppress_tokens=None, init_std=0.4, attn_implementation="sdpa",
    )  # fmt: skip


def chirp(seconds: float) -> torch.Tensor:
    """A rising tone with noise, float32 [samples]."""
    t = torch.arange(int(seconds * RATE)) / RATE
    return 0.3 * torch.sin(2 * torch.pi * (200 + 300 * t) * t) + 0.02 * torch.randn(len(t))


def read_wave(path: str) -> torch.Tensor:
    """Samples of a 16-bit PCM file at 16 kHz, the channels' mean: float32 [samples]."""
    with wave.open(path) as file:
        if file.getframerate() != RATE or file.getsampwidth() != 2:
            kind = f"{file.getframerate()} Hz, {8 * file.getsampwidth()} bits"
            raise SystemExit(f"{path}: expected {RATE} Hz and 16 bits, got {kind}")
        data = torch.frombuffer(bytearray(file.readframes(file.getnframes())), dtype=torch.int16)
        return data.view(-1, file.getnchannels()).float().mean(1) / 32768


def main(arguments=None) -> int:
    parser = common.parser(__doc__)
    parser.add_argument("--model", help="name or folder of a checkpoint; default: a small one with random weights")
    parser.add_argument("--audio", help="a WAV file, 16 kHz, 16 bits; default: a synthetic tone")
    parser.add_argument("--seconds", type=float, default=2.0, help="of the synthetic tone (default 2)")
    parser.add_argument("--tokens", type=int, default=16, help="at most so many are generated (default 16)")
    options = parser.parse_args(arguments)
    if options.tokens < 1 or options.seconds < 0.1:
        parser.error("--tokens must be at least 1, and --seconds at least 0.1")
    try:
        import transformers
    except ImportError:
        print("this example needs transformers: pip install transformers", file=sys.stderr)
        return 1
    transformers.logging.set_verbosity_error()  # it warns of limits of length that max_new_tokens replaces
    device = common.begin(options.device)
    torch.manual_seed(0)
    processor = None
    if options.model:
        reference = transformers.WhisperForConditionalGeneration.from_pretrained(options.model)
        processor = transformers.AutoProcessor.from_pretrained(options.model)
    else:
        reference = transformers.WhisperForConditionalGeneration(small_config(options.seconds))
    reference = reference.float().eval()
    audio = read_wave(options.audio) if options.audio else chirp(options.seconds)
    samples = reference.config.max_source_positions * 2 * HOP
    audio = F.pad(audio, (0, max(0, samples - len(audio))))[None, :samples]

    model, results = copy.deepcopy(reference).to(device), {}
    for where, one in {"cpu": (torch.device("cpu"), reference), "device": (device, model)}.items():
        place, whisper = one
        start = Stopwatch()
        features = log_mel(audio.to(place), reference.config.num_mel_bins)
        with torch.no_grad():
            tokens = whisper.generate(features, max_new_tokens=options.tokens, do_sample=False, num_beams=1)
        synchronize(place)
        results[where] = (features, tokens.cpu(), start.seconds)
    features, tokens, seconds = results["device"]
    print(f"{audio.shape[1] / RATE:.1f} s of sound in {seconds:.2f} s: features {' x '.join(map(str, features.shape))}")
    print("tokens:", *tokens[0].tolist())
    if processor is not None:
        print("text:", processor.batch_decode(tokens, skip_special_tokens=True)[0].strip())
    if not torch.equal(tokens, results["cpu"][1]):
        print("the CPU chooses other tokens:", *results["cpu"][1][0].tolist(), file=sys.stderr)
        return 1
    wide = copy.deepcopy(reference).double()
    start = torch.tensor([[reference.config.decoder_start_token_id]])
    tokens = torch.cat((start, tokens), 1)  # of which there are none if the model ends at once
    with torch.no_grad():
        features = log_mel(audio.double(), reference.config.num_mel_bins)
        expected = wide(features, decoder_input_ids=tokens).logits
        actual = model(results["device"][0], decoder_input_ids=tokens.to(device)).logits
    return common.verdict(common.relative(actual, expected))


if __name__ == "__main__":
    sys.exit(main())
