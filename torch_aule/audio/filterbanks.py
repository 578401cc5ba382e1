"""The mel scales, triangular filters on them, and the cosine transform as a matrix."""

from __future__ import annotations

import math

import torch

__all__ = ["create_dct", "create_mel_filterbank", "hz_to_mel", "mel_to_hz"]

HTK = 2595.0  # mels of a factor 10
HTK_CORNER = 700.0  # Hz
SLANEY_CORNER = 1000.0  # Hz: the scale is linear below and logarithmic above
SLANEY_STEP = 200.0 / 3  # Hz of a mel below the corner
SLANEY_GROWTH = 27.0 / math.log(6.4)  # mels of a factor e above it


def _check_scale(mel_scale: str) -> None:
    if mel_scale not in ("htk", "slaney"):
        raise ValueError(f"mel_scale: expected 'htk' or 'slaney', got {mel_scale!r}")


def hz_to_mel(frequencies: torch.Tensor, mel_scale: str = "htk") -> torch.Tensor:
    """Mels of frequencies.

    Parameters
    ----------
    frequencies : torch.Tensor
        In Hz, at least 0.
    mel_scale : str, default "htk"
        "htk", or "slaney", which is linear below 1000 Hz.

    Returns
    -------
    torch.Tensor
        Of the same shape.

    Raises
    ------
    ValueError
        For another scale.
    """
    _check_scale(mel_scale)
    if mel_scale == "htk":
        return HTK * torch.log10(1.0 + frequencies / HTK_CORNER)
    above = SLANEY_CORNER / SLANEY_STEP + SLANEY_GROWTH * torch.log(frequencies.clamp_min(1.0) / SLANEY_CORNER)
    return torch.where(frequencies < SLANEY_CORNER, frequencies / SLANEY_STEP, above)


def mel_to_hz(mels: torch.Tensor, mel_scale: str = "htk") -> torch.Tensor:
    """Frequencies of mels.

    Parameters
    ----------
    mels : torch.Tensor
        At least 0.
    mel_scale : str, default "htk"
        "htk" or "slaney".

    Returns
    -------
    torch.Tensor
        In Hz, of the same shape.

    Raises
    ------
    ValueError
        For another scale.
    """
    _check_scale(mel_scale)
    if mel_scale == "htk":
        return HTK_CORNER * (10.0 ** (mels / HTK) - 1.0)
    corner = SLANEY_CORNER / SLANEY_STEP
    above = SLANEY_CORNER * torch.exp((mels - corner) / SLANEY_GROWTH)
    return torch.where(mels < corner, SLANEY_STEP * mels, above)


def create_mel_filterbank(
    n_mels: int = 80,
    n_fft: int = 512,
    sample_rate: float = 16000,
    f_min: float = 0.0,
    f_max: float = -1.0,
    *,
    norm: str | None = None,
    mel_scale: str = "htk",
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> torch.Tensor:
    """Triangular filters, equally spaced in mels, over the bins of a Fourier transform.

    Defaults are torchaudio's; ``norm="slaney", mel_scale="slaney"`` gives librosa's. They are computed in float64.

    Parameters
    ----------
    n_mels : int, default 80
        Filters.
    n_fft : int, default 512
        Points of the transform.
    sample_rate : float, default 16000
        Of the signal, in Hz.
    f_min : float, default 0.0
        Lower edge of the first filter, in Hz.
    f_max : float, default -1.0
        Upper edge of the last filter, in Hz; below 0: half the sample rate.
    norm : str, optional
        "slaney": each filter has the same area. Otherwise each has the height 1.
    mel_scale : str, default "htk"
        "htk" or "slaney".
    dtype : torch.dtype, default torch.float32
        Of the result.
    device : torch.device or str, optional
        Of the result; the CPU if it is left out.

    Returns
    -------
    torch.Tensor
        ``[n_mels, n_fft // 2 + 1]``. A filter that is narrower than a bin may be zero.

    Raises
    ------
    ValueError
        For a count below 1, edges that are out of order, another scale or norm.

    References
    ----------
    M. Slaney, "Auditory Toolbox", 1998. S. Young et al., "The HTK Book", 2006.

    Examples
    --------
    >>> torch_aule.audio.create_mel_filterbank(n_mels=40).shape
    torch.Size([40, 257])
    """
    _check_scale(mel_scale)
    if norm not in (None, "slaney"):
        raise ValueError(f"norm: expected None or 'slaney', got {norm!r}")
    if n_mels < 1 or n_fft < 1 or not sample_rate > 0:
        raise ValueError(f"expected n_mels, n_fft and sample_rate above 0, got {n_mels}, {n_fft} and {sample_rate}")
    highest = sample_rate / 2 if f_max < 0 else f_max
    if not 0 <= f_min < highest:
        raise ValueError(f"expected 0 <= f_min < f_max, got {f_min} and {highest} Hz")
    ends = hz_to_mel(torch.tensor([f_min, highest], dtype=torch.float64, device="cpu"), mel_scale)
    steps = torch.linspace(0.0, 1.0, n_mels + 2, dtype=torch.float64, device="cpu")
    edges = mel_to_hz(ends[0] + steps * (ends[1] - ends[0]), mel_scale)
    bins = torch.arange(n_fft // 2 + 1, dtype=torch.float64, device="cpu") * (sample_rate / n_fft)
    low, middle, high = (edges[i : i + n_mels, None] for i in range(3))
    rising, falling = (bins - low) / (middle - low), (high - bins) / (high - middle)
    filters = torch.minimum(rising, falling).clamp_min(0.0)
    if norm == "slaney":
        filters = filters * (2.0 / (high - low))
    return filters.to(device, dtype)


def create_dct(
    n_mfcc: int = 13,
    n_mels: int = 80,
    norm: str | None = "ortho",
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> torch.Tensor:
    """The cosine transform (type II) as a matrix: ``create_dct(...) @ features`` are its first coefficients.

    Parameters
    ----------
    n_mfcc : int, default 13
        Coefficients.
    n_mels : int, default 80
        Features that are transformed.
    norm : str, optional
        "ortho": rows have the length 1. None: twice the sum of products with cosines.
    dtype : torch.dtype, default torch.float32
        Of the result.
    device : torch.device or str, optional
        Of the result; the CPU if it is left out.

    Returns
    -------
    torch.Tensor
        ``[n_mfcc, n_mels]``.

    Raises
    ------
    ValueError
        For a count below 1, more coefficients than features, or another norm.

    Examples
    --------
    >>> cepstrum = torch_aule.audio.create_dct(13, 80) @ log_mel
    """
    if norm not in (None, "ortho"):
        raise ValueError(f"norm: expected None or 'ortho', got {norm!r}")
    if not 1 <= n_mfcc <= n_mels:
        raise ValueError(f"n_mfcc: expected 1 to {n_mels}, the number of features, got {n_mfcc}")
    places = torch.arange(n_mels, dtype=torch.float64, device="cpu") + 0.5
    orders = torch.arange(n_mfcc, dtype=torch.float64, device="cpu")[:, None]
    matrix = torch.cos(math.pi / n_mels * places * orders)
    if norm is None:
        return (2.0 * matrix).to(device, dtype)
    matrix[0] /= math.sqrt(2.0)
    return (matrix * math.sqrt(2.0 / n_mels)).to(device, dtype)
