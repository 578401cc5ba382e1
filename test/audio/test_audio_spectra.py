"""torch_aule.audio's spectra and features beside numpy's float64, and beside torchaudio, librosa and transformers."""

import math
import warnings

import audio_reference as reference
import numpy as np
import pytest
import torch

from helpers import relative_error
from torch_aule import audio

PLACES = [
    pytest.param("cpu", torch.float64, id="cpu-float64"),
    pytest.param("cpu", torch.float32, id="cpu-float32"),
    pytest.param("aule", torch.float32, id="aule-float32"),
]
# Samples (lengths that divide nothing, one, fewer than half a transform) behind channels and batches.
SHAPES = [(1,), (7,), (256,), (257,), (3001,), (2, 1777), (2, 3, 997)]


def epsilon(dtype):
    return torch.finfo(dtype).eps


def noise(shape, dtype):
    """A signal, in float64 as numpy has it, and as the functions get it."""
    signal = torch.randn(shape, dtype=torch.float64).mul(0.3).to(dtype)
    return signal.double().numpy(), signal


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("place, dtype", PLACES)
@pytest.mark.validated
def test_stft_and_back(device, place, dtype, shape):
    x, signal = noise(shape, dtype)
    n_fft, win = 2 * int(torch.randint(20, 300, ())), -1
    hop = int(torch.randint(3, n_fft // 10, ()))
    if n_fft % 4:
        win = n_fft - int(torch.randint(1, 10, ()))
    for mode in ("reflect", "constant"):
        actual = audio.stft(signal.to(place), n_fft, hop, win, pad_mode=mode)
        options = (n_fft, hop, win if win > 0 else None, True, mode)
        expected, bound = reference.stft(x, *options), reference.stft_error(x, epsilon(dtype), *options)
        assert actual.device.type == place and actual.dtype == dtype.to_complex() and actual.shape == expected.shape
        assert (np.abs(actual.cpu().numpy() - expected) <= bound).all()
        # No sample is further than a hop from the middle of a window, where it is nearly 1: squares sum up to 0.7 at
        # least, which the sum is divided by. A sample is off by the roundings of both transforms.
        again = audio.istft(actual, hop, win, length=shape[-1])
        assert again.shape == shape and np.abs(again.cpu().numpy() - x).max() <= 3 * bound.max()
    if shape[-1] >= n_fft:
        actual = audio.stft(signal.to(place), n_fft, hop, win, center=False)
        options = (n_fft, hop, win if win > 0 else None, False)
        bound = reference.stft_error(x, epsilon(dtype), *options)
        assert (np.abs(actual.cpu().numpy() - reference.stft(x, *options)) <= bound).all()


@pytest.mark.parametrize("norm", [None, "slaney"])
@pytest.mark.parametrize("scale", ["htk", "slaney"])
def test_filterbank(scale, norm):
    for options in ((80, 512, 16000, 0.0, None), (13, 333, 11025, 40.0, 4321.0), (128, 2048, 44101, 20.0, None)):
        n_mels, n_fft, rate, low, high = options
        actual = audio.create_mel_filterbank(n_mels, n_fft, rate, low, -1 if high is None else high, norm=norm,
                                             mel_scale=scale, dtype=torch.float64)  # fmt: skip
        expected = reference.filterbank(*options, norm, scale)
        # An edge that is off by a rounding of the frequency is off by so much of a triangle's width.
        assert relative_error(actual, torch.from_numpy(expected)) < 1e-10
    f = torch.rand(100, dtype=torch.float64) * 9000
    assert relative_error(audio.mel_to_hz(audio.hz_to_mel(f, scale), scale), f) < 1e-12
    assert audio.hz_to_mel(f, scale)[3].item() == pytest.approx(reference.to_mel(f[3].item(), scale))
    assert audio.create_mel_filterbank().shape == (80, 257) and audio.create_mel_filterbank().dtype == torch.float32


def mel_and_error(x, dtype, filters, **options):
    """Mel powers, and at most by how much they may be off: |X|^2 by 2 |X| d + d^2, and sums of positive terms.

    Edges of filters, in float64, are off by roundings of frequencies, which are a thousand times a filter's width.
    """
    spectrum, d = np.abs(reference.stft(x, **options)), reference.stft_error(x, epsilon(dtype), **options)
    mel = filters @ spectrum**2
    edges = 1e-12 * (spectrum**2).sum(-2, keepdims=True)
    return mel, filters @ (2 * spectrum * d + d * d) + mel * epsilon(dtype) * 8 + edges


@pytest.mark.parametrize("shape", [*SHAPES, "silence"])
@pytest.mark.parametrize("place, dtype", PLACES)
@pytest.mark.validated
def test_mel_and_what_follows(device, place, dtype, shape):
    """Each element within what the transform's rounding makes of it; logarithms are compared as powers."""
    x, signal = noise((2, 777) if shape == "silence" else shape, dtype)
    if shape == "silence":
        x, signal = 0 * x, 0 * signal
    n_mels = int(torch.randint(13, 90, ()))
    filters = reference.filterbank(n_mels)
    mel, error = mel_and_error(x, dtype, filters)
    actual = audio.mel_spectrogram(signal.to(place), n_mels=n_mels)
    assert actual.shape == mel.shape and actual.dtype == dtype and actual.device.type == place
    assert (np.abs(actual.cpu().double().numpy() - mel) <= error).all()

    logarithm = audio.log_mel_spectrogram(signal.to(place), n_mels=n_mels).cpu().double().numpy()
    rounding = epsilon(dtype) * (2 + np.abs(logarithm)) * (mel + 1e-10)
    assert (np.abs(np.exp(logarithm) - (mel + 1e-10)) <= (error + rounding) * 1.01).all()

    # What is cut 80 decibels below the largest is as large as that, and so is its error at most.
    levels, cut = reference.decibels(mel), mel.max(tuple(range(max(0, mel.ndim - 3), mel.ndim)), keepdims=True) * 1e-8
    relative = (error + error.max() * 1e-8) / np.maximum(np.maximum(mel, cut), 1e-10)
    assert relative.max() < 0.5
    of_levels = 10 / math.log(10) * relative / (1 - relative) + 4 * epsilon(dtype) * (np.abs(levels) + 1)
    matrix = reference.dct(13, n_mels)
    coefficients = audio.mfcc(signal.to(place), n_mels=n_mels).cpu().double().numpy()
    bound = np.abs(matrix) @ (of_levels + epsilon(dtype) * 8 * np.abs(levels))
    assert coefficients.shape == bound.shape and (np.abs(coefficients - matrix @ levels) <= bound).all()
    for order, width in ((1, 2), (2, 3)):
        slopes = audio.delta(actual, order, width)
        expected = actual.cpu().double().numpy()
        largest = np.abs(expected).max()
        for _ in range(order):
            expected = reference.delta(expected, width)
        assert np.abs(slopes.cpu().double().numpy() - expected).max() <= 8 * epsilon(dtype) * largest


@pytest.mark.parametrize("place, dtype", PLACES)
def test_onsets(device, place, dtype):
    """Of clicks in noise, where they are; and each value as written out."""
    signal = (torch.randn(2, 9000, dtype=torch.float64) * 0.01).to(dtype)
    signal[..., 3200:] += torch.randn(5800).to(dtype)
    x = signal.double().numpy()
    mel, error = mel_and_error(x, dtype, reference.filterbank(norm="slaney", scale="slaney"), mode="constant")
    levels = reference.decibels(mel)
    relative = error / np.maximum(mel, 1e-10)
    assert relative.max() < 0.5
    bound = 2 * (10 / math.log(10) * relative / (1 - relative) + 4 * epsilon(dtype) * np.abs(levels)).max()
    for lag, center in ((1, True), (3, True), (1, False)):
        actual = audio.onset_strength(signal.to(place), lag=lag, center=center).cpu().double().numpy()
        steps = np.maximum(levels[..., lag:] - levels[..., :-lag], 0).mean(-2)
        expected = np.pad(steps, [(0, 0), (lag + (512 // 320 if center else 0), 0)])
        expected = expected[..., : levels.shape[-1]] if center else expected
        assert actual.shape == expected.shape and np.abs(actual - expected).max() <= bound
        # The click is at frame 20; a transform of 512 samples notices it up to two frames earlier.
        assert (np.abs(actual.argmax(-1) - 20) <= 2 + lag).all()
    assert audio.onset_strength(torch.zeros(1, device=place, dtype=dtype)).cpu().tolist() == [0.0]


@pytest.mark.parametrize("place, dtype", PLACES)
def test_flatness_and_loudness(device, place, dtype):
    x, signal = noise((2, 1999), dtype)
    power = torch.rand(3, 2, 77, 5, dtype=torch.float64).to(dtype)
    values = np.maximum(power.double().numpy(), 1e-10)
    expected = np.exp(np.log(values).mean(-2)) / values.mean(-2)
    assert relative_error(audio.spectral_flatness(power.to(place)), torch.from_numpy(expected)) < 60 * epsilon(dtype)
    frames = reference.frames(reference.pad(x, 512, 512, "constant"), 1024, 256)
    expected = torch.from_numpy(np.sqrt((frames**2).mean(-1)))
    assert relative_error(audio.rms(signal.to(place)), expected) < 20 * epsilon(dtype)


@pytest.mark.parametrize("place, dtype", PLACES)
@pytest.mark.parametrize("momentum", [0.0, 0.99])
def test_griffin_lim(device, place, dtype, momentum):
    """Two steps as written out, and more steps come nearer to the magnitudes."""
    t = torch.arange(4000, dtype=torch.float64) / 16000
    signal = (torch.sin(2 * torch.pi * 440 * t) + 0.1 * torch.randn(2, 4000, dtype=torch.float64)).to(dtype)
    magnitude = audio.magnitude_spectrum(audio.stft(signal.to(place), 256, 64))

    def away(iterations):
        found = audio.griffin_lim(magnitude, 64, iterations=iterations, momentum=momentum, random_start=False)
        assert found.device.type == place and found.shape == (2, 3968)
        difference = audio.stft(found, 256, 64).abs() - magnitude
        return found, (difference.norm() / magnitude.norm()).item()

    wide, phases, before = magnitude.cpu().to(torch.complex128), 1.0, 0.0
    window = torch.hann_window(256, dtype=torch.float64)
    for _ in range(2):
        sound = torch.istft(wide * phases, 256, 64, window=window)
        rebuilt = torch.stft(sound, 256, 64, window=window, return_complex=True)
        phases = rebuilt - momentum / (1 + momentum) * before
        phases, before = phases / phases.abs().clamp_min(1e-16), rebuilt
    expected = torch.istft(wide * phases, 256, 64, window=window)
    # Phases of bins that are small beside their frame are as wrong as those are small, and move little sound.
    assert relative_error(away(2)[0], expected) < 1e4 * epsilon(dtype)
    first, last = away(1)[1], away(24)[1]
    assert last < 0.7 * first
    random = audio.griffin_lim(magnitude, 64, iterations=3, generator=torch.Generator(place).manual_seed(5))
    again = audio.griffin_lim(magnitude, 64, iterations=3, generator=torch.Generator(place).manual_seed(5))
    assert torch.equal(random.cpu(), again.cpu()) and not torch.equal(random.cpu(), away(3)[0].cpu())


def gradient(function, signal):
    """Of a random sum of the results, with the same weights each time."""
    leaf = signal.detach().clone().requires_grad_()
    out = function(leaf)
    out = torch.view_as_real(out) if out.is_complex() else out
    weights = torch.linspace(0.3, 1.7, out.numel(), dtype=torch.float64).reshape(out.shape)
    (out * weights.to(out.device, out.dtype)).sum().backward()
    return leaf.grad


# Ten bands: each has several bins, so that none is near zero by chance, where a logarithm's slope has no bound.
FUNCTIONS = {
    "stft": audio.stft,
    "there and back": lambda s: audio.istft(audio.stft(s, 256, 64), 64, length=s.shape[-1]),
    "mel": audio.mel_spectrogram,
    "log_mel": lambda s: audio.log_mel_spectrogram(s, n_mels=10),
    "mfcc": lambda s: audio.mfcc(s, n_mfcc=7, n_mels=10),
    "delta": lambda s: audio.delta(s, 2),
    "resample": lambda s: audio.resample(s, 3, 2),
    "autocorrelation": lambda s: audio.autocorrelation(s, 300),
    "peak": audio.normalize_peak,
    "rms": lambda s: audio.normalize_rms(audio.rms(s)),
    "mono": audio.to_mono,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients(device, name):
    signal = torch.randn(2, 1501, dtype=torch.float64)
    expected = gradient(FUNCTIONS[name], signal)
    for place in ("cpu", "aule"):
        assert relative_error(gradient(FUNCTIONS[name], signal.float().to(place)), expected) < 1e-4
    short = torch.randn(41, dtype=torch.float64, requires_grad=True)
    small = {
        "stft": lambda s: torch.view_as_real(audio.stft(s, 16, 5)),
        "there and back": lambda s: audio.istft(audio.stft(s, 16, 4), 4, length=41),
        "mel": lambda s: audio.mel_spectrogram(s, n_fft=16, hop_length=5, n_mels=3),
        "log_mel": lambda s: audio.log_mel_spectrogram(s, n_fft=16, hop_length=5, n_mels=3, eps=0.01),
        "mfcc": lambda s: audio.mfcc(s, n_mfcc=2, n_fft=16, hop_length=5, n_mels=3, log_mels=True),
        "autocorrelation": lambda s: audio.autocorrelation(s, 9),
        "rms": lambda s: audio.rms(s, 8, 3),
        "mono": lambda s: audio.to_mono(s[None]),
    }.get(name, FUNCTIONS[name])
    assert torch.autograd.gradcheck(small, (short,))


def test_gradients_of_silence(device):
    """Finite, where a root or a logarithm has no slope."""
    for place in ("cpu", "aule"):
        silence = torch.zeros(2, 900, device=place)
        for name, function in FUNCTIONS.items():
            assert torch.isfinite(gradient(function, silence)).all(), name


def test_constants_are_kept_for_each_device_and_dtype(device):
    from torch_aule.audio.constants import MOST_KEPT, _kept, constant, hann

    with torch.inference_mode():
        window = constant(hann, 31, like=torch.zeros(1))
    assert not window.is_inference() and constant(hann, 31, like=torch.zeros(3)) is window
    assert constant(hann, 31, like=torch.zeros(1, dtype=torch.complex128)).dtype == torch.float64
    assert constant(hann, 31, like=torch.zeros(1, device="aule")).device.type == "aule"
    for length in range(1, 3 * MOST_KEPT):
        constant(hann, length, like=torch.zeros(1))
    assert len(_kept) == MOST_KEPT


def test_compiled(device):
    """One graph: nothing of these functions keeps torch.compile from following them."""
    signal = torch.randn(2, 2000)
    for function in (audio.mfcc, lambda s: audio.resample(s, 3, 2), audio.detect_pitch_yin_frames):
        compiled = torch.compile(function, backend="eager", fullgraph=True)
        assert relative_error(compiled(signal), function(signal)) < 1e-6


WRONG = {
    "integers": (lambda: audio.stft(torch.arange(9)), TypeError, "floating-point"),
    "no tensor": (lambda: audio.stft([1.0]), TypeError, "got list"),
    "no samples": (lambda: audio.mel_spectrogram(torch.zeros(2, 0)), ValueError, "at least one sample"),
    "a number": (lambda: audio.rms(torch.tensor(1.0)), ValueError, "at least one sample"),
    "too short": (lambda: audio.stft(torch.zeros(9), center=False), ValueError, "fewer than n_fft"),
    "a long window": (lambda: audio.stft(torch.zeros(9), 8, win_length=9), ValueError, "win_length: expected 1 to"),
    "no hop": (lambda: audio.stft(torch.zeros(9), 8, 0), ValueError, "hop_length of at least 1"),
    "padding": (lambda: audio.stft(torch.zeros(9), 8, pad_mode="wrap"), ValueError, "'constant' or 'reflect'"),
    "scale": (lambda: audio.create_mel_filterbank(mel_scale="bark"), ValueError, "'htk' or 'slaney'"),
    "norm": (lambda: audio.create_mel_filterbank(norm="l2"), ValueError, "None or 'slaney'"),
    "edges": (lambda: audio.create_mel_filterbank(f_min=9000), ValueError, "f_min < f_max"),
    "no bands": (lambda: audio.create_mel_filterbank(0), ValueError, "above 0"),
    "0 Hz": (lambda: audio.mel_spectrogram(torch.zeros(9), 0), ValueError, "above 0"),
    "coefficients": (lambda: audio.mfcc(torch.zeros(9), n_mfcc=81), ValueError, "expected 1 to 80"),
    "dct": (lambda: audio.create_dct(norm="l2"), ValueError, "None or 'ortho'"),
    "order": (lambda: audio.delta(torch.zeros(9), 0), ValueError, "order and a width"),
    "lag": (lambda: audio.onset_strength(torch.zeros(9), lag=0), ValueError, "lag: expected at least 1"),
    "momentum": (lambda: audio.griffin_lim(torch.zeros(9, 3), momentum=1.0), ValueError, "momentum < 1"),
    "frames": (lambda: audio.frame(torch.zeros(9), 10), ValueError, "fewer than a frame of 10"),
    "no frames": (lambda: audio.frame(torch.zeros(9), 0), ValueError, "at least 1"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_refused(name):
    call, error, words = WRONG[name]
    with pytest.raises(error, match=words):
        call()


def others(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return pytest.importorskip(name)
        except OSError as error:  # its compiled part belongs to another torch
            pytest.skip(str(error))


@pytest.mark.parametrize("shape", [(5003,), (2, 3001), (3, 2, 997)])
def test_as_torchaudio(device, shape):
    """1e-4 of the largest element."""
    theirs = others("torchaudio")
    signal = torch.randn(shape) * 0.3
    keywords = {"n_fft": 512, "hop_length": 160, "n_mels": 40}
    pairs = [
        (lambda s: audio.mel_spectrogram(s, n_mels=40), theirs.transforms.MelSpectrogram(16000, **keywords)),
        (lambda s: audio.mfcc(s, n_mels=40), theirs.transforms.MFCC(16000, 13, melkwargs=keywords)),
        (lambda s: audio.mfcc(s, n_mels=40, log_mels=True),
         theirs.transforms.MFCC(16000, 13, log_mels=True, melkwargs=keywords)),
        (audio.delta, theirs.functional.compute_deltas),
        (audio.resample, lambda s: theirs.functional.resample(s, 48000, 16000)),
        (lambda s: audio.resample(s, 160, 147, lowpass_filter_width=9, resampling_method="sinc_interp_kaiser"),
         lambda s: theirs.functional.resample(s, 160, 147, 9, resampling_method="sinc_interp_kaiser")),
    ]  # fmt: skip
    for ours, their in pairs:
        expected = their(signal)
        assert relative_error(ours(signal), expected) < 1e-4
        assert relative_error(ours(signal.to("aule")), expected) < 1e-4
    magnitude = audio.stft(signal.double()).abs()
    expected = theirs.functional.griffinlim(
        magnitude, torch.hann_window(512, dtype=torch.float64), 512, 160, 512, 1.0, 8, 0.99, None, False
    )
    assert relative_error(audio.griffin_lim(magnitude, iterations=8, random_start=False), expected) < 1e-4


@pytest.mark.parametrize("shape", [(5003,), (2, 3001), (3, 2, 997)])
def test_as_librosa(device, shape):
    theirs = others("librosa")
    signal = torch.randn(shape) * 0.3
    voice = torch.sin(torch.arange(shape[-1]) * (0.02 + 0.1 * torch.rand(*shape[:-1], 1))) + 0.01 * signal
    keywords = {"sr": 16000, "n_fft": 512, "hop_length": 160}
    pairs = [
        (lambda s: audio.mel_spectrogram(s, pad_mode="constant", norm="slaney", mel_scale="slaney"),
         lambda s: theirs.feature.melspectrogram(y=s, n_mels=80, **keywords), signal),
        (audio.rms, lambda s: theirs.feature.rms(y=s, frame_length=1024, hop_length=256)[..., 0, :], signal),
        (lambda s: audio.autocorrelation(s, 300), lambda s: theirs.autocorrelate(s, max_size=300), signal),
        (audio.detect_pitch_yin_frames, lambda s: theirs.yin(s, fmin=50, fmax=500, sr=16000, frame_length=1024), voice),
        (lambda s: audio.spectral_flatness(audio.stft(s, pad_mode="constant").abs().square()),
         lambda s: theirs.feature.spectral_flatness(y=s, n_fft=512, hop_length=160)[..., 0, :], signal),
    ]  # fmt: skip
    if len(shape) < 3:  # of more dimensions it cuts decibels by the loudest of the whole batch
        pairs.append((audio.onset_strength, lambda s: theirs.onset.onset_strength(y=s, n_mels=80, **keywords), signal))
    for ours, their, x in pairs:
        expected = torch.as_tensor(their(x.numpy()))
        assert relative_error(ours(x), expected) < 1e-4
        assert relative_error(ours(x.to("aule")), expected) < 1e-4


def test_as_transformers(device):
    transformers = pytest.importorskip("transformers")
    signal = 0.3 * torch.randn(2, 16000) * torch.linspace(0, 1, 16000)
    extractor = transformers.WhisperFeatureExtractor(feature_size=40, chunk_length=1)
    expected = extractor(list(signal.numpy()), sampling_rate=16000, return_tensors="pt").input_features
    for place in ("cpu", "aule"):
        actual = audio.whisper_log_mel(signal.to(place), 40)
        assert actual.device.type == place and actual.shape == (2, 40, 100)
        assert relative_error(actual, expected) < 1e-4
        assert relative_error(actual, audio.whisper_log_mel(signal.double(), 40)) < 1e-5
    silence = audio.whisper_log_mel(torch.zeros(1, 1600, device=device), 7)
    assert silence.shape == (1, 7, 10) and relative_error(silence, torch.full((1, 7, 10), -1.5)) < 1e-6
    assert audio.whisper_log_mel(torch.zeros(159)).shape == (80, 0)
