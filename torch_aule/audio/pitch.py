"""Autocorrelation of a signal, and the pitch that follows from it."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from torch_aule.audio.spectra import check_signal, frame, power_spectrum

__all__ = ["autocorrelation", "detect_pitch_yin", "detect_pitch_yin_frames"]


def autocorrelation(signal: torch.Tensor, max_size: int | None = None) -> torch.Tensor:
    """Sums of products of samples that lie ``lag`` apart, by Fourier transforms; as librosa's autocorrelate.

    Parameters
    ----------
    signal : torch.Tensor
        ``[..., samples]``.
    max_size : int, optional
        Lags from 0; as many as samples if it is left out.

    Returns
    -------
    torch.Tensor
        ``[..., lags]``; the first is the energy.

    Raises
    ------
    ValueError
        For no samples, or a size below 1.
    """
    check_signal(signal)
    samples = signal.shape[-1]
    lags = samples if max_size is None else min(max_size, samples)
    if lags < 1:
        raise ValueError(f"max_size: expected at least 1, got {max_size}")
    points = 1 << (samples + lags - 1).bit_length()  # so that the ends do not meet
    return torch.fft.irfft(power_spectrum(torch.fft.rfft(signal, points)), points)[..., :lags]


def _differences(frames: torch.Tensor, shortest: int, longest: int) -> torch.Tensor:
    """YIN's function of the lags: differences of samples, divided by the mean of those at shorter lags."""
    products = autocorrelation(frames, longest + 1)
    energy = frames.square().cumsum(-1)[..., :longest]
    difference = 2.0 * (products[..., :1] - products[..., 1:]) - energy
    lags = torch.arange(1, longest + 1, device=frames.device, dtype=frames.dtype)
    mean = difference.cumsum(-1) / lags
    return difference[..., shortest - 1 :] / (mean[..., shortest - 1 :] + torch.finfo(frames.dtype).tiny)


def _chosen(curve: torch.Tensor, threshold: float) -> tuple[torch.Tensor, torch.Tensor]:
    """The place in each curve, between samples, and whether the curve is below the threshold there."""
    falls = F.pad(curve[..., 1:] < curve[..., :-1], (1, 0))
    rises = F.pad(curve[..., :-1] <= curve[..., 1:], (0, 1), value=True)
    trough = falls & rises
    trough[..., 0] = curve[..., 0] < curve[..., 1]
    deep = trough & (curve < threshold)
    voiced = deep.any(-1)
    first = deep.to(torch.uint8).argmax(-1)
    place = torch.where(voiced, first, curve.argmin(-1))[..., None]
    # The vertex of the parabola through three neighbours, if it lies between them; none at the ends.
    inner = place.clamp(1, curve.shape[-1] - 2)
    left, middle, right = (curve.gather(-1, inner + step) for step in (-1, 0, 1))
    bend, slope = right + left - 2.0 * middle, (right - left) / 2.0
    fits = (slope.abs() < bend.abs()) & (inner == place)
    shift = torch.where(fits, -slope / torch.where(fits, bend, 1.0), 0.0)
    return (place + shift).squeeze(-1), voiced


def detect_pitch_yin(
    frames: torch.Tensor,
    sample_rate: float = 16000,
    f_min: float = 50.0,
    f_max: float = 500.0,
    threshold: float = 0.1,
    *,
    return_voiced: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """The pitch of each frame by YIN, in one pass for all frames.

    Parameters
    ----------
    frames : torch.Tensor
        ``[..., samples]``: each row is one frame, longer than a period of `f_min`.
    sample_rate : float, default 16000
        In Hz.
    f_min, f_max : float
        The lowest and the highest pitch, in Hz.
    threshold : float, default 0.1
        The first trough of the difference function below it is the period, otherwise its smallest value.
    return_voiced : bool, default False
        Return, too, which frames have such a trough. Noise and silence have none; their pitch means nothing. Nor
        has a pitch with fewer than about 5.5 periods in the frame: 86 Hz of frames of 1024 samples at 16 kHz.

    Returns
    -------
    torch.Tensor or tuple of torch.Tensor
        In Hz, ``[...]``: librosa's yin; and bool ``[...]``.

    Raises
    ------
    ValueError
        For limits out of order, or frames that are too short.

    References
    ----------
    A. de Cheveigne, H. Kawahara, "YIN, a fundamental frequency estimator for speech and music", 2002.

    Examples
    --------
    >>> hertz, voiced = torch_aule.audio.detect_pitch_yin(frames, return_voiced=True)
    """
    check_signal(frames, "frames")
    if not 0 < f_min < f_max <= sample_rate / 2:
        raise ValueError(f"expected 0 < f_min < f_max <= {sample_rate / 2} Hz, got {f_min} and {f_max}")
    shortest = math.floor(sample_rate / f_max)
    longest = min(math.ceil(sample_rate / f_min), frames.shape[-1] - 1)
    if longest < shortest + 2:
        raise ValueError(f"frames: {frames.shape[-1]} samples hold no periods between {f_max} and {f_min} Hz")
    place, voiced = _chosen(_differences(frames, shortest, longest), threshold)
    hertz = sample_rate / (shortest + place)
    return (hertz, voiced) if return_voiced else hertz


def detect_pitch_yin_frames(
    signal: torch.Tensor,
    sample_rate: float = 16000,
    f_min: float = 50.0,
    f_max: float = 500.0,
    threshold: float = 0.1,
    *,
    frame_length: int = 1024,
    hop_length: int = 256,
    center: bool = True,
    return_voiced: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """The pitch along a signal: :func:`detect_pitch_yin` of its frames.

    Parameters
    ----------
    signal : torch.Tensor
        ``[..., samples]``.
    sample_rate, f_min, f_max, threshold, return_voiced
        As in :func:`detect_pitch_yin`.
    frame_length, hop_length : int
        Samples of a frame, and from one's beginning to the next one's.
    center : bool, default True
        Pad half a frame of zeros on both sides, so that frame ``t`` is about sample ``t * hop_length``.

    Returns
    -------
    torch.Tensor or tuple of torch.Tensor
        In Hz, ``[..., frames]``; and bool of that shape.

    Raises
    ------
    ValueError
        For limits out of order, or frames that are too short.
    """
    check_signal(signal)
    half = frame_length // 2 if center else 0
    frames = frame(F.pad(signal, (half, half)), frame_length, hop_length)
    return detect_pitch_yin(frames, sample_rate, f_min, f_max, threshold, return_voiced=return_voiced)
