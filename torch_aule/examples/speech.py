"""Speaks a text: VITS or SpeechT5 of transformers on the device, into a WAV file.

    python -m torch_aule.examples.speech "Good morning." -o out.wav [--model NAME_OR_FOLDER]

Without a text a small VITS with random weights makes a sound, which must be the CPU's (J. Kim et al., "Conditional
Variational Autoencoder with Adversarial Learning for End-to-End Text-to-Speech", 2021, arXiv:2106.06103; J. Ao et al.,
"SpeechT5", 2022, arXiv:2110.07205).
"""

from __future__ import annotations

import copy
import sys

from torch_aule.examples import _common as common  # isort: skip  (strict mode, before the backend loads)

import torch

from torch_aule import audio
from torch_aule.measure.timing import Stopwatch, synchronize

DEFAULT_MODEL = "facebook/mms-tts-eng"
DEFAULT_VOCODER = "microsoft/speecht5_hifigan"
MODELS = {"vits": "VitsModel", "speecht5": "SpeechT5ForTextToSpeech"}


def small_vits():
    """Random weights, the CPU's and float32; its noises are 0, so that it says the same each time."""
    import transformers

    config = transformers.VitsConfig(
        vocab_size=40, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, window_size=2, ffn_dim=48,
        flow_size=16, spectrogram_bins=33, duration_predictor_filter_channels=32, duration_predictor_num_flows=2,
        depth_separable_num_layers=2, prior_encoder_num_flows=2, prior_encoder_num_wavenet_layers=2,
        posterior_encoder_num_wavenet_layers=2, upsample_initial_channel=32, upsample_rates=[4, 4],
        upsample_kernel_sizes=[8, 8], resblock_kernel_sizes=[3, 5], resblock_dilation_sizes=[[1, 3], [1, 3]],
        noise_scale=0.0, noise_scale_duration=0.0,
    )  # fmt: skip
    return transformers.VitsModel(config).eval()


@torch.no_grad()
def speak(model, tokens: torch.Tensor, speaker: torch.Tensor | None = None, vocoder=None) -> torch.Tensor:
    """Sound of tokens [1, count], all on the model's device: [samples].

    `speaker` is an embedding [1, size] of SpeechT5, or the number of a voice of VITS; `vocoder` is SpeechT5's.
    """
    if model.config.model_type == "speecht5":
        return model.generate_speech(tokens, speaker, vocoder=vocoder).flatten()
    number = None if speaker is None else int(speaker)
    return model(input_ids=tokens, attention_mask=torch.ones_like(tokens), speaker_id=number).waveform[0]


def check(device: torch.device) -> int:
    """The exit status: whether a small model's sound is the CPU's in float64."""
    torch.manual_seed(0)
    reference, tokens = small_vits(), torch.randint(1, 40, (1, 23))
    expected = speak(copy.deepcopy(reference).double(), tokens)
    start = Stopwatch()
    sound = speak(reference.to(device), tokens.to(device))
    synchronize(device)
    print(f"{len(sound)} samples in {start.seconds:.2f} s")
    if sound.shape != expected.shape:
        print(f"the CPU makes {len(expected)} samples", file=sys.stderr)
        return 1
    return common.verdict(common.relative(sound, expected))


def load_model(name: str, vocoder: str, device: torch.device):
    """Model, tokenizer and vocoder (None but for SpeechT5); ValueError with one sentence if they are not there."""
    import transformers

    at = name
    try:
        kind = transformers.AutoConfig.from_pretrained(name).model_type
        if kind not in MODELS:
            raise ValueError(f"a model of the kind {kind!r}; expected {' or '.join(MODELS)}")
        model = getattr(transformers, MODELS[kind]).from_pretrained(name)
        tokenizer = transformers.AutoTokenizer.from_pretrained(name)
        at = vocoder
        voice = transformers.SpeechT5HifiGan.from_pretrained(vocoder).to(device) if kind == "speecht5" else None
    except (OSError, ValueError, ImportError) as error:
        raise ValueError(f"{at}: transformers cannot load it: {common.first_sentence(error)}") from error
    return model.to(device).eval(), tokenizer, voice


def speaker_of(model, given: str | None, device: torch.device) -> torch.Tensor | None:
    """A voice: the number of one of VITS, a file of torch.save with an embedding of SpeechT5 (default: zeros)."""
    if model.config.model_type == "vits":
        if given is None:
            return None
        if not given.isdigit() or int(given) >= model.config.num_speakers:
            raise ValueError(f"--speaker {given}: this model has {model.config.num_speakers} voices, from 0")
        return torch.tensor(int(given))
    size = model.config.speaker_embedding_dim
    if given is None:
        return torch.zeros(1, size, device=device)
    embedding = torch.load(given, map_location=device, weights_only=True)
    if not isinstance(embedding, torch.Tensor) or embedding.numel() != size:
        raise ValueError(f"--speaker {given}: expected a tensor of {size} numbers")
    return embedding.float().reshape(1, size)


def main(arguments=None) -> int:
    parser = common.parser(__doc__)
    parser.add_argument("text", nargs="?", help="what to say; default: check a small model")
    parser.add_argument("-o", "--out", default="out.wav", help="file that is written (default %(default)s)")
    parser.add_argument("--model", default=DEFAULT_MODEL, help="name or folder of a checkpoint (default %(default)s)")
    parser.add_argument("--vocoder", default=DEFAULT_VOCODER, help="of SpeechT5 (default %(default)s)")
    parser.add_argument("--speaker", help="number of a voice of VITS; file with an embedding for SpeechT5")
    parser.add_argument("--seed", type=int, default=0, help="of random numbers: the same sound again (default 0)")
    options = parser.parse_args(arguments)
    try:
        import transformers
    except ImportError:
        print("this example needs transformers: pip install transformers", file=sys.stderr)
        return 1
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    device = common.begin(options.device)
    if options.text is None:
        return check(device)
    try:
        model, tokenizer, vocoder = load_model(options.model, options.vocoder, device)
        speaker = speaker_of(model, options.speaker, device)
        tokens = tokenizer(options.text, return_tensors="pt").input_ids
        if not tokens.numel():
            raise ValueError("the text has nothing that this model can say")
        torch.manual_seed(options.seed)
        start = Stopwatch()
        sound = speak(model, tokens.to(device), speaker, vocoder)
        rate = getattr(model.config if vocoder is None else vocoder.config, "sampling_rate", 16000)
        audio.write_wav(options.out, sound, rate)
    except (OSError, ValueError) as error:
        print(common.first_sentence(error), file=sys.stderr)
        return 1
    print(f"{options.out}: {len(sound) / rate:.1f} s of sound in {start.seconds:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
