"""Other sample rates, one channel of several, and loudness."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from torch_aule.audio.constants import constant
from torch_aule.audio.spectra import check_signal

__all__ = ["normalize_peak", "normalize_rms", "resample", "to_mono"]

KAISER_BETA = 14.769656459379492  # torchaudio's
LARGEST_KERNEL = 1 << 26  # elements, 256 MiB in float32
LARGEST_PRODUCT = 1 << 24  # elements of its rows
METHODS = ("sinc_interp_hann", "sinc_interp_kaiser")


def _width(old: int, new: int, zeros: int, rolloff: float) -> int:
    """Samples on each side that an output sample depends on; `old` and `new` have no common divisor."""
    return math.ceil(zeros * old / (min(old, new) * rolloff))


def _kernel(old: int, new: int, zeros: int, rolloff: float, method: str, beta: float) -> torch.Tensor:
    """[2 * width + old, new]: the windowed sinc about each of the outputs of a period; float64."""
    cutoff, width = min(old, new) * rolloff, _width(old, new, zeros, rolloff)
    inputs = torch.arange(-width, width + old, device="cpu") * new
    outputs = torch.arange(new, device="cpu")[:, None] * old
    t = (inputs - outputs).double() * (cutoff / (old * new))  # differences of integers have no rounding
    t = t.clamp(-zeros, zeros)
    if method == METHODS[0]:
        window = torch.cos(t * (math.pi / zeros / 2)).square()
    else:
        top = torch.tensor(beta, dtype=torch.float64, device="cpu")
        window = torch.i0(top * (1 - (t / zeros).square()).clamp_min(0.0).sqrt()) / torch.i0(top)
    return (torch.sinc(t) * window * (cutoff / old)).t().contiguous()


def resample(
    signal: torch.Tensor,
    orig_freq: int = 48000,
    new_freq: int = 16000,
    *,
    lowpass_filter_width: int = 6,
    rolloff: float = 0.99,
    resampling_method: str = "sinc_interp_hann",
    beta: float | None = None,
) -> torch.Tensor:
    """The signal at another sample rate, by a windowed sinc, as torchaudio's.

    Parameters
    ----------
    signal : torch.Tensor
        ``[..., samples]``.
    orig_freq, new_freq : int
        Rates; only their ratio counts.
    lowpass_filter_width : int, default 6
        Zeros of the sinc on each side; more are sharper and slower.
    rolloff : float, default 0.99
        The filter's cutoff, of the lower rate's half.
    resampling_method : str, default "sinc_interp_hann"
        The window; or "sinc_interp_kaiser".
    beta : float, optional
        Of Kaiser's window.

    Returns
    -------
    torch.Tensor
        ``[..., ceil(samples * new_freq / orig_freq)]``.

    Raises
    ------
    TypeError
        For a signal of integers.
    ValueError
        For rates below 1 or no integers, another method, a filter that would be too large.

    References
    ----------
    J. O. Smith, "Digital Audio Resampling Home Page", 2002.

    Examples
    --------
    >>> speech = torch_aule.audio.resample(signal.to("aule"), 48000, 16000)
    """
    check_signal(signal)
    if int(orig_freq) != orig_freq or int(new_freq) != new_freq or orig_freq < 1 or new_freq < 1:
        raise ValueError(f"expected rates that are integers of at least 1, got {orig_freq} and {new_freq}")
    if resampling_method not in METHODS:
        raise ValueError(f"resampling_method: expected one of {METHODS}, got {resampling_method!r}")
    if lowpass_filter_width < 1 or not 0 < rolloff <= 1:
        raise ValueError(
            f"expected lowpass_filter_width >= 1 and 0 < rolloff <= 1, got {lowpass_filter_width} and {rolloff}"
        )
    common = math.gcd(int(orig_freq), int(new_freq))
    old, new = int(orig_freq) // common, int(new_freq) // common
    if old == new:
        return signal.clone()
    width = _width(old, new, lowpass_filter_width, rolloff)
    if new * (2 * width + old) > LARGEST_KERNEL:
        raise ValueError(
            f"{orig_freq} to {new_freq} Hz needs a filter of {new} x {2 * width + old}: choose other rates"
        )
    beta = KAISER_BETA if beta is None else float(beta)
    filters = constant(_kernel, old, new, lowpass_filter_width, rolloff, resampling_method, beta, like=signal)
    samples = signal.shape[-1]
    padded = F.pad(signal.reshape(-1, samples), (width, width + old))
    # A product with overlapping rows: of one channel, it is faster than a convolution on many devices, up to 9 times on
    # lavapipe. Products may copy their rows, hence in pieces.
    rows = padded.unfold(-1, filters.shape[0], old)
    pieces = rows.split(max(1, LARGEST_PRODUCT // (rows.shape[0] * filters.shape[0])), 1)
    out = torch.cat([piece @ filters for piece in pieces], 1).flatten(1)
    length = -(-samples * new // old)
    return out[:, :length].reshape(*signal.shape[:-1], length)


def to_mono(signal: torch.Tensor) -> torch.Tensor:
    """The mean of the channels.

    Parameters
    ----------
    signal : torch.Tensor
        ``[..., channels, samples]``, or ``[samples]``, which is mono.

    Returns
    -------
    torch.Tensor
        ``[..., samples]``.
    """
    return signal if check_signal(signal).dim() == 1 else signal.mean(-2)


def _scaled(signal: torch.Tensor, size: torch.Tensor, wanted: float) -> torch.Tensor:
    silent = size <= torch.finfo(signal.dtype).tiny
    return signal * (wanted / torch.where(silent, 1.0, size)) * torch.where(silent, 0.0, 1.0)


def normalize_peak(signal: torch.Tensor, peak: float = 1.0) -> torch.Tensor:
    """Each row scaled so that its largest magnitude is `peak`; silence stays silent.

    Parameters
    ----------
    signal : torch.Tensor
        ``[..., samples]``.
    peak : float, default 1.0
        Of the result.

    Returns
    -------
    torch.Tensor
        Of the same shape.
    """
    return _scaled(check_signal(signal), signal.abs().amax(-1, keepdim=True), peak)


def normalize_rms(signal: torch.Tensor, rms: float = 0.1) -> torch.Tensor:
    """Each row scaled so that the root of its mean square is `rms`; silence stays silent. Nothing is clipped.

    Parameters
    ----------
    signal : torch.Tensor
        ``[..., samples]``.
    rms : float, default 0.1
        Of the result: -20 dB.

    Returns
    -------
    torch.Tensor
        Of the same shape.
    """
    return _scaled(
        check_signal(signal), torch.linalg.vector_norm(signal, dim=-1, keepdim=True) / signal.shape[-1] ** 0.5, rms
    )
