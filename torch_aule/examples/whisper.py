"""Writes down what is said in WAV files: any Whisper of transformers, with sound, features and model on the device.

    python -m torch_aule.examples.whisper SPEECH.wav [--model NAME_OR_FOLDER]

Long files are cut where they are quiet, into pieces that the model can hear, and several pieces run at once. Without a
file a small model with random weights hears a tone, and its tokens must be the CPU's (A. Radford et al., "Robust Speech
Recognition via Large-Scale Weak Supervision", 2022, arXiv:2212.04356).
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from torch_aule.examples import _common as common  # isort: skip  (strict mode, before the backend loads)

import torch
import torch.nn.functional as F

from torch_aule import audio
from torch_aule.measure.timing import Stopwatch, synchronize

RATE, HOP = 16000, 160  # samples: a second, a step of the features
TICK = 0.02  # seconds from one timestamp to the next
QUIET = 1e-3  # a root mean square of -60 dB: a piece without anything louder has no words
SEARCHED = 1 / 3  # of a piece: in this last part the quietest place is looked for
DEFAULT_MODEL = "openai/whisper-tiny"


@dataclass
class Segment:
    """The words from one second to another."""

    begin: float
    end: float
    text: str

    def __str__(self):
        return f"[{_clock(self.begin)} --> {_clock(self.end)}] {self.text}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds * 100), 6000)
    return f"{minutes // 60:02}:{minutes % 60:02}:{rest / 100:05.2f}"


def load_sound(path: str, device: torch.device) -> torch.Tensor:
    """Mono at 16 kHz, on the device: [samples]."""
    samples, rate = audio.read_wav(path)
    if not samples.shape[1]:
        raise audio.WavError(f"{path}: no samples")
    return audio.resample(audio.to_mono(samples.float().to(device)), rate, RATE)


def pieces(sound: torch.Tensor, longest: int) -> list[tuple[int, int]]:
    """Bounds of pieces of at most `longest` samples: cuts are in the quietest 40 ms of their last thirds."""
    frame, step = RATE // 25, RATE // 100
    ends, total = [0], len(sound)
    loud = audio.rms(sound, frame, step).cpu() if total > longest else None
    while total - ends[-1] > longest:
        last = (ends[-1] + longest) // step
        first = max(last - int(longest * SEARCHED) // step, ends[-1] // step + 1)
        quietest = first + int(loud[first:last].argmin()) if last > first else last
        ends.append(min(quietest * step, ends[-1] + longest))
    ends.append(total)
    return list(zip(ends, ends[1:]))


def segments_of(tokens: list[int], model, tokenizer, begin: float, end: float) -> Iterator[Segment]:
    """Of one piece: text between its timestamps, which count from the piece's beginning."""
    special, first = model.config.eos_token_id, getattr(model.generation_config, "no_timestamps_token_id", None)
    first = len(tokenizer) if first is None else first + 1
    at, words = begin, []
    for token in [*tokens, None]:
        is_time = token is not None and token >= first
        if token is not None and token < special:
            words.append(token)
        if is_time or token is None:
            now = min(begin + (token - first) * TICK, end) if is_time else end
            text = tokenizer.decode(words).strip() if words else ""
            if text:
                yield Segment(at, now, text)
            at, words = now, []


@torch.no_grad()
def transcribe(model, tokenizer, sound: torch.Tensor, batch: int = 8, **options) -> list[Segment]:
    """The words of a signal [samples] at 16 kHz, which is on the model's device.

    `options` go to the model's `generate`: language, task, max_new_tokens, num_beams.
    """
    longest = model.config.max_source_positions * 2 * HOP
    places = [place for place in pieces(sound, longest) if sound[slice(*place)].square().mean().sqrt() > QUIET]
    if getattr(model.generation_config, "no_timestamps_token_id", None) is not None:
        options = {"return_timestamps": True, **options}
    found = []
    for start in range(0, len(places), batch):
        some = places[start : start + batch]
        heard = torch.stack([F.pad(sound[a:b], (0, longest - (b - a))) for a, b in some])
        features = audio.whisper_log_mel(heard, model.config.num_mel_bins).to(model.dtype)
        tokens = model.generate(features, **{"do_sample": False, **options}).tolist()
        for (a, b), row in zip(some, tokens):
            found += segments_of(row, model, tokenizer, a / RATE, b / RATE)
    return found


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


def check(device: torch.device, seconds: float, most: int) -> int:
    """The exit status: whether a small model's tokens and logits are the CPU's."""
    import transformers

    torch.manual_seed(0)
    reference = transformers.WhisperForConditionalGeneration(small_config(seconds)).eval()
    bands, longest = reference.config.num_mel_bins, reference.config.max_source_positions * 2 * HOP
    sound = chirp(seconds)[None, :longest]
    sound = F.pad(sound, (0, longest - sound.shape[1]))
    model, results = copy.deepcopy(reference).to(device), {}
    for where, one in {"cpu": (torch.device("cpu"), reference), "device": (device, model)}.items():
        place, whisper = one
        start = Stopwatch()
        features = audio.whisper_log_mel(sound.to(place), bands)
        with torch.no_grad():
            tokens = whisper.generate(features, max_new_tokens=most, do_sample=False, num_beams=1)
        synchronize(place)
        results[where] = (features, tokens.cpu(), start.seconds)
    features, tokens, taken = results["device"]
    print(f"{sound.shape[1] / RATE:.1f} s of sound in {taken:.2f} s: features {' x '.join(map(str, features.shape))}")
    print("tokens:", *tokens[0].tolist())
    if not torch.equal(tokens, results["cpu"][1]):
        print("the CPU chooses other tokens:", *results["cpu"][1][0].tolist(), file=sys.stderr)
        return 1
    wide = copy.deepcopy(reference).double()
    start_token = torch.tensor([[reference.config.decoder_start_token_id]])
    tokens = torch.cat((start_token, tokens), 1)  # of which there are none if the model ends at once
    with torch.no_grad():
        expected = wide(audio.whisper_log_mel(sound.double(), bands), decoder_input_ids=tokens).logits
        actual = model(features, decoder_input_ids=tokens.to(device)).logits
    return common.verdict(common.relative(actual, expected))


def load_model(name: str, device: torch.device, dtype: torch.dtype):
    """A Whisper and its tokenizer, on the device; ValueError with one sentence if there is none."""
    import transformers

    try:
        model = transformers.WhisperForConditionalGeneration.from_pretrained(name, dtype=dtype)
        tokenizer = transformers.AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise ValueError(f"{name}: no Whisper that transformers can load: {common.first_sentence(error)}") from error
    return model.to(device).eval(), tokenizer


def main(arguments=None) -> int:
    parser = common.parser(__doc__)
    parser.add_argument("files", nargs="*", metavar="FILE.wav", help="speech; default: check a small model")
    parser.add_argument("--audio", action="append", default=[], help="a further file")
    parser.add_argument("--model", default=DEFAULT_MODEL, help="name or folder of a checkpoint (default %(default)s)")
    parser.add_argument("--dtype", choices=["float32", "float16", "bfloat16"], default="float32", help="of the model")
    parser.add_argument("--batch", type=int, default=8, help="pieces that run at once (default 8)")
    parser.add_argument("--language", help="of the speech; default: the model finds it")
    parser.add_argument("--task", choices=["transcribe", "translate"], help="translate: into English")
    parser.add_argument("--tokens", type=int, help="the most for a piece (default: what the model allows)")
    parser.add_argument("--seconds", type=float, default=2.0, help="of the tone of the check (default 2)")
    options = parser.parse_args(arguments)
    if (options.tokens is not None and options.tokens < 1) or options.seconds < 0.1 or options.batch < 1:
        parser.error("--tokens and --batch must be at least 1, and --seconds at least 0.1")
    try:
        import transformers
    except ImportError:
        print("this example needs transformers: pip install transformers", file=sys.stderr)
        return 1
    transformers.logging.set_verbosity_error()  # it warns of limits of length that max_new_tokens replaces
    transformers.logging.disable_progress_bar()
    device = common.begin(options.device)
    files = [*options.files, *options.audio]
    if not files:
        return check(device, options.seconds, options.tokens or 16)
    further = {"language": options.language, "task": options.task, "max_new_tokens": options.tokens}
    further = {name: value for name, value in further.items() if value is not None}
    try:
        sounds = [load_sound(file, device) for file in files]
        model, tokenizer = load_model(options.model, device, getattr(torch, options.dtype))
        for file, sound in zip(files, sounds):
            start = Stopwatch()
            segments = transcribe(model, tokenizer, sound, options.batch, **further)
            print(f"{file}: {len(sound) / RATE:.1f} s of sound in {start.seconds:.1f} s")
            print(*segments, sep="\n")
    except (OSError, ValueError) as error:
        print(common.first_sentence(error), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
