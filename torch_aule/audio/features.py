"""Features of frames: mel spectra, cepstra, their slopes, onsets, flatness, and where a voice is."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from torch_aule.audio.constants import constant
from torch_aule.audio.filterbanks import create_dct, create_mel_filterbank
from torch_aule.audio.spectra import check_signal, frame, power_spectrum, stft

__all__ = [
    "amplitude_to_db",
    "delta",
    "log_mel_spectrogram",
    "mel_spectrogram",
    "mfcc",
    "onset_strength",
    "spectral_flatness",
    "voice_activity",
    "whisper_log_mel",
]

WHISPER_RATE, WHISPER_WINDOW, WHISPER_HOP = 16000, 400, 160  # samples: a second, 25 ms, 10 ms
WHISPER_DECADES = 8.0  # below the loudest
SMALLEST_POWER = 1e-10


def _filters(n_mels, n_fft, sample_rate, f_min, f_max, norm, mel_scale):
    return create_mel_filterbank(
        n_mels, n_fft, sample_rate, f_min, f_max, norm=norm, mel_scale=mel_scale, dtype=torch.float64
    )


def _dct(n_mfcc, n_mels, norm):
    return create_dct(n_mfcc, n_mels, norm, dtype=torch.float64)


def mel_spectrogram(
    signal: torch.Tensor,
    sample_rate: float = 16000,
    n_fft: int = 512,
    hop_length: int = 160,
    win_length: int = -1,
    n_mels: int = 80,
    f_min: float = 0.0,
    f_max: float = -1.0,
    *,
    center: bool = True,
    pad_mode: str = "reflect",
    power: float = 2.0,
    norm: str | None = None,
    mel_scale: str = "htk",
) -> torch.Tensor:
    """Power in bands of the mel scale, as torchaudio's MelSpectrogram.

    librosa's has ``pad_mode="constant", norm="slaney", mel_scale="slaney"``.

    Parameters
    ----------
    signal : torch.Tensor
        ``[..., samples]``.
    sample_rate : float, default 16000
        In Hz.
    n_fft, hop_length, win_length, center, pad_mode
        As in :func:`stft`.
    n_mels, f_min, f_max, norm, mel_scale
        As in :func:`create_mel_filterbank`.
    power : float, default 2.0
        Exponent of the magnitudes before they are summed; 1: magnitudes.

    Returns
    -------
    torch.Tensor
        ``[..., n_mels, frames]``.

    Raises
    ------
    TypeError
        For a signal of integers.
    ValueError
        For no samples, or values that do not fit.

    Examples
    --------
    >>> mel = torch_aule.audio.mel_spectrogram(signal.to("aule"), n_mels=40)
    """
    spectrum = stft(signal, n_fft, hop_length, win_length, center, pad_mode=pad_mode)
    raised = power_spectrum(spectrum) if power == 2 else spectrum.abs().pow(power)
    return constant(_filters, n_mels, n_fft, sample_rate, f_min, f_max, norm, mel_scale, like=raised) @ raised


def log_mel_spectrogram(
    signal: torch.Tensor,
    sample_rate: float = 16000,
    n_fft: int = 512,
    hop_length: int = 160,
    win_length: int = -1,
    n_mels: int = 80,
    f_min: float = 0.0,
    f_max: float = -1.0,
    *,
    eps: float = 1e-10,
    **options,
) -> torch.Tensor:
    """Natural logarithm of a mel spectrogram.

    Parameters
    ----------
    signal, sample_rate, n_fft, hop_length, win_length, n_mels, f_min, f_max
        As in :func:`mel_spectrogram`.
    eps : float, default 1e-10
        Is added before the logarithm.
    **options
        Further ones of :func:`mel_spectrogram`.

    Returns
    -------
    torch.Tensor
        ``[..., n_mels, frames]``.

    Raises
    ------
    TypeError
        For a signal of integers.
    ValueError
        For no samples, or values that do not fit.
    """
    mel = mel_spectrogram(signal, sample_rate, n_fft, hop_length, win_length, n_mels, f_min, f_max, **options)
    return (mel + eps).log()


def whisper_log_mel(signal: torch.Tensor, n_mels: int = 80) -> torch.Tensor:
    """Features that Whisper hears: decades within 8 of the loudest, from about -1 to 1 in most sound.

    Parameters
    ----------
    signal : torch.Tensor
        ``[..., samples]`` at 16 kHz. Models take 30 seconds, 480000 samples: pad zeros.
    n_mels : int, default 80
        The model's ``num_mel_bins``.

    Returns
    -------
    torch.Tensor
        ``[..., n_mels, samples // 160]``, what transformers' WhisperFeatureExtractor gives for each row.

    Raises
    ------
    TypeError
        For a signal of integers.
    ValueError
        For no samples.

    References
    ----------
    A. Radford et al., "Robust Speech Recognition via Large-Scale Weak Supervision", 2022, arXiv:2212.04356.
    """
    power = power_spectrum(stft(signal, WHISPER_WINDOW, WHISPER_HOP)[..., : signal.shape[-1] // WHISPER_HOP])
    filters = constant(_filters, n_mels, WHISPER_WINDOW, WHISPER_RATE, 0.0, -1.0, "slaney", "slaney", like=power)
    decades = (filters @ power).clamp_min(SMALLEST_POWER).log10()
    if decades.shape[-1]:
        decades = torch.maximum(decades, decades.amax((-2, -1), keepdim=True) - WHISPER_DECADES)
    return (decades + 4.0) / 4.0


def amplitude_to_db(
    spectrum: torch.Tensor,
    *,
    power: float = 2.0,
    amin: float = 1e-10,
    reference: float = 1.0,
    top_db: float | None = 80.0,
) -> torch.Tensor:
    """Decibels of a spectrum, as torchaudio's amplitude_to_DB.

    Parameters
    ----------
    spectrum : torch.Tensor
        ``[..., bins, frames]``, not negative.
    power : float, default 2.0
        2: the spectrum is of powers; 1: of magnitudes.
    amin : float, default 1e-10
        Smaller values become this.
    reference : float, default 1.0
        The value that has 0 dB.
    top_db : float, optional
        Smaller values become this far below the largest of their item. An item is ``[channels, bins, frames]``, so
        in a 3-d spectrum all rows are one item.

    Returns
    -------
    torch.Tensor
        Of the same shape.
    """
    multiplier = 20.0 / power
    offset = multiplier * torch.tensor(max(amin, reference), dtype=torch.float64).log10().item()
    levels = multiplier * spectrum.clamp_min(amin).log10() - offset
    if top_db is None or levels.numel() == 0:
        return levels
    item = tuple(range(-min(3, levels.dim()), 0))
    return torch.maximum(levels, levels.amax(item, keepdim=True) - top_db)


def mfcc(
    signal: torch.Tensor,
    sample_rate: float = 16000,
    n_mfcc: int = 13,
    *,
    norm: str | None = "ortho",
    log_mels: bool = False,
    **options,
) -> torch.Tensor:
    """Mel-frequency cepstral coefficients, as torchaudio's MFCC.

    Parameters
    ----------
    signal : torch.Tensor
        ``[..., samples]``.
    sample_rate : float, default 16000
        In Hz.
    n_mfcc : int, default 13
        Coefficients.
    norm : str, optional
        Of :func:`create_dct`.
    log_mels : bool, default False
        Transform natural logarithms of ``mel + 1e-6`` rather than decibels. Decibels are cut 80 below the loudest of
        ``[channels, samples]``: a batch as ``[batch, 1, samples]`` keeps its rows independent.
    **options
        Of :func:`mel_spectrogram`, by name.

    Returns
    -------
    torch.Tensor
        ``[..., n_mfcc, frames]``.

    Raises
    ------
    TypeError
        For a signal of integers.
    ValueError
        For no samples, or values that do not fit.

    Examples
    --------
    >>> coefficients = torch_aule.audio.mfcc(signal.to("aule"), n_mfcc=20, n_mels=64)
    """
    mel = mel_spectrogram(signal, sample_rate, **options)
    levels = (mel + 1e-6).log() if log_mels else amplitude_to_db(mel)
    return constant(_dct, n_mfcc, mel.shape[-2], norm, like=mel) @ levels


def delta(features: torch.Tensor, order: int = 1, width: int = 2) -> torch.Tensor:
    """Slopes of features along the frames: of the straight line through each and its neighbours.

    Parameters
    ----------
    features : torch.Tensor
        ``[..., frames]``. The first and the last frame are repeated at the ends, as in torchaudio's compute_deltas.
    order : int, default 1
        2: slopes of slopes, and so on.
    width : int, default 2
        Neighbours on each side; torchaudio's ``win_length`` is ``2 * width + 1``.

    Returns
    -------
    torch.Tensor
        Of the same shape.

    Raises
    ------
    ValueError
        For an order or a width below 1.
    """
    if order < 1 or width < 1:
        raise ValueError(f"expected an order and a width of at least 1, got {order} and {width}")
    check_signal(features, "features")
    frames, total = features.shape[-1], width * (width + 1) * (2 * width + 1) / 3
    for _ in range(order):
        flat = F.pad(features.reshape(1, -1, frames), (width, width), mode="replicate").reshape(
            *features.shape[:-1], frames + 2 * width
        )
        ahead = [flat.narrow(-1, width + n, frames) - flat.narrow(-1, width - n, frames) for n in range(1, width + 1)]
        features = torch.stack([n * step for n, step in enumerate(ahead, 1)]).sum(0) / total
    return features


def onset_strength(
    signal: torch.Tensor,
    sample_rate: float = 16000,
    n_fft: int = 512,
    hop_length: int = 160,
    n_mels: int = 80,
    *,
    lag: int = 1,
    center: bool = True,
) -> torch.Tensor:
    """The increase of the bands' loudness from one frame to the next: it peaks where notes and syllables begin.

    Parameters
    ----------
    signal : torch.Tensor
        ``[..., samples]``.
    sample_rate : float, default 16000
        In Hz.
    n_fft, hop_length, n_mels : int
        Of the mel spectrogram, which is librosa's: zeros as padding, Slaney's scale and norm.
    lag : int, default 1
        Frames between the two that are compared.
    center : bool, default True
        Shift the result by half a transform, so that a peak is where the sound begins.

    Returns
    -------
    torch.Tensor
        ``[..., frames]``, at least 0; what librosa's function of this name gives.

    Raises
    ------
    ValueError
        For a lag below 1, no samples, or values that do not fit.

    References
    ----------
    S. Boeck, G. Widmer, "Maximum Filter Vibrato Suppression for Onset Detection", 2013.
    """
    if lag < 1:
        raise ValueError(f"lag: expected at least 1, got {lag}")
    mel = mel_spectrogram(
        signal, sample_rate, n_fft, hop_length, n_mels=n_mels, pad_mode="constant", norm="slaney", mel_scale="slaney"
    )
    levels = amplitude_to_db(mel)
    frames, late = levels.shape[-1], lag + (n_fft // (2 * hop_length) if center else 0)
    steps = (levels[..., lag:] - levels[..., : max(frames - lag, 0)]).clamp_min(0.0).mean(-2)
    padded = F.pad(steps, (late, 0))
    return padded[..., :frames] if center else padded


def spectral_flatness(power: torch.Tensor, amin: float = SMALLEST_POWER) -> torch.Tensor:
    """Geometric mean over arithmetic mean of the bins: 1 for equal ones, near 0 for tones.

    Parameters
    ----------
    power : torch.Tensor
        ``[..., bins, frames]``, as of :func:`power_spectrum`.
    amin : float, default 1e-10
        Smaller values become this.

    Returns
    -------
    torch.Tensor
        ``[..., frames]``; librosa's function of this name.
    """
    raised = power.clamp_min(amin)
    return raised.log().mean(-2).exp() / raised.mean(-2)


def voice_activity(
    signal: torch.Tensor,
    frame_length: int = 480,
    hop_length: int = 240,
    *,
    top_db: float = 40.0,
    floor_db: float = -60.0,
    max_flatness: float = 0.4,
    hangover: int = 4,
) -> torch.Tensor:
    """Frames that have a voice: not too quiet, and not as flat as noise.

    A frame has one if its level is above `floor_db`, less than `top_db` below the loudest frame of its row, and its
    spectrum is less flat than `max_flatness` (white noise: 0.56). `hangover` frames before and after belong to it.

    Parameters
    ----------
    signal : torch.Tensor
        ``[..., samples]`` of an amplitude up to 1. Zeros are added so that each sample is in a frame.
    frame_length, hop_length : int
        Samples of a frame, and from one's beginning to the next one's; 30 and 15 ms at 16 kHz.
    top_db, floor_db : float
        In decibels: below the loudest frame, and relative to a root mean square of 1.
    max_flatness : float, default 0.4
        Of :func:`spectral_flatness`; 1: levels alone decide.
    hangover : int, default 4
        Frames; 0: none.

    Returns
    -------
    torch.Tensor
        bool ``[..., frames]``.

    Raises
    ------
    ValueError
        For no samples, or lengths below 1.
    """
    check_signal(signal)
    if frame_length < 1 or hop_length < 1 or hangover < 0:
        raise ValueError("expected lengths of at least 1 and a hangover of at least 0")
    more = -(-max(signal.shape[-1] - frame_length, 0) // hop_length)
    padded = F.pad(signal.detach(), (0, frame_length + more * hop_length - signal.shape[-1]))
    frames = frame(padded, frame_length, hop_length)
    level = 10.0 * frames.square().mean(-1).clamp_min(1e-20).log10()
    active = (level > floor_db) & (level > level.amax(-1, keepdim=True) - top_db)
    if max_flatness < 1:
        # Without the mean, of which most microphones have some, and relative to the level, so that amin is far below.
        scaled = (frames - frames.mean(-1, keepdim=True)) * (10.0 ** (-level / 20.0))[..., None]
        power = power_spectrum(stft(scaled, frame_length, frame_length, center=False))
        active = active & (spectral_flatness(power.squeeze(-1).transpose(-1, -2)) < max_flatness)
    if hangover:
        flat = active.reshape(1, -1, active.shape[-1]).to(signal.dtype)
        active = F.max_pool1d(flat, 2 * hangover + 1, 1, hangover).reshape(active.shape) > 0
    return active
