"""Frames, the short-time Fourier transform, its inverse, and signals from magnitudes alone."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from torch_aule.audio.constants import constant, hann

__all__ = ["frame", "griffin_lim", "istft", "magnitude_spectrum", "power_spectrum", "rms", "stft"]


def check_signal(signal: torch.Tensor, name: str = "signal") -> torch.Tensor:
    """The tensor itself, if it is a signal."""
    if not isinstance(signal, torch.Tensor) or not signal.is_floating_point():
        got = signal.dtype if isinstance(signal, torch.Tensor) else type(signal).__name__
        raise TypeError(f"{name}: expected a tensor of floating-point numbers, got {got}")
    if signal.dim() == 0 or signal.shape[-1] == 0:
        raise ValueError(f"{name}: expected [..., samples] with at least one sample, got {list(signal.shape)}")
    return signal


def pad_signal(signal: torch.Tensor, before: int, after: int, mode: str) -> torch.Tensor:
    """Samples before and after, "constant" (zeros) or "reflect"; a short signal is reflected again and again."""
    if mode not in ("constant", "reflect"):
        raise ValueError(f"pad_mode: expected 'constant' or 'reflect', got {mode!r}")
    length = signal.shape[-1]
    if mode == "constant":
        return F.pad(signal, (before, after))
    if max(before, after) < length:
        flat = signal.reshape(1, -1, length)  # reflection needs one dimension before the last, and at most two
        return F.pad(flat, (before, after), mode="reflect").reshape(*signal.shape[:-1], length + before + after)
    period = max(1, 2 * (length - 1))
    places = torch.arange(-before, length + after, device=signal.device) % period
    return signal.index_select(-1, torch.minimum(places, period - places) if length > 1 else places)


def frame(signal: torch.Tensor, frame_length: int = 1024, hop_length: int = 256) -> torch.Tensor:
    """Overlapping pieces of a signal, a view of it; samples that fill no frame are left out.

    Parameters
    ----------
    signal : torch.Tensor
        ``[..., samples]``.
    frame_length, hop_length : int
        Samples of a frame, and from one's beginning to the next one's.

    Returns
    -------
    torch.Tensor
        ``[..., frames, frame_length]``.

    Raises
    ------
    ValueError
        For a signal that is shorter than a frame.
    """
    check_signal(signal)
    if frame_length < 1 or hop_length < 1:
        raise ValueError(f"expected lengths of at least 1, got frames of {frame_length} every {hop_length} samples")
    if signal.shape[-1] < frame_length:
        raise ValueError(f"signal: {signal.shape[-1]} samples are fewer than a frame of {frame_length}")
    return signal.unfold(-1, frame_length, hop_length)


def rms(signal: torch.Tensor, frame_length: int = 1024, hop_length: int = 256, center: bool = True) -> torch.Tensor:
    """Loudness of each frame: the root of the mean square, as librosa's.

    Parameters
    ----------
    signal : torch.Tensor
        ``[..., samples]``.
    frame_length, hop_length : int
        Samples of a frame, and from one's beginning to the next one's.
    center : bool, default True
        Pad half a frame of zeros on both sides, so that frame ``t`` is about sample ``t * hop_length``.

    Returns
    -------
    torch.Tensor
        ``[..., frames]``.

    Raises
    ------
    ValueError
        For a signal that is shorter than a frame.
    """
    check_signal(signal)
    half = frame_length // 2 if center else 0
    power = frame(F.pad(signal, (half, half)), frame_length, hop_length).square().mean(-1)
    return torch.where(power > 0, power, 1.0).sqrt() * (power > 0)  # the root's slope at 0 is infinite


def _window(like: torch.Tensor, window: torch.Tensor | None, win_length: int, n_fft: int) -> tuple[torch.Tensor, int]:
    """The window and its length."""
    length = n_fft if win_length < 0 else win_length
    if not 1 <= length <= n_fft:
        raise ValueError(f"win_length: expected 1 to n_fft ({n_fft}), got {win_length}")
    return (constant(hann, length, like=like) if window is None else window), length


def stft(
    signal: torch.Tensor,
    n_fft: int = 512,
    hop_length: int = 160,
    win_length: int = -1,
    center: bool = True,
    *,
    window: torch.Tensor | None = None,
    pad_mode: str = "reflect",
) -> torch.Tensor:
    """Fourier transforms of windowed frames.

    Parameters
    ----------
    signal : torch.Tensor
        ``[..., samples]``.
    n_fft : int, default 512
        Points of a transform.
    hop_length : int, default 160
        Samples from one frame's beginning to the next one's.
    win_length : int, default -1
        Samples of the window, which is centred in the frame; below 0: `n_fft`.
    center : bool, default True
        Pad ``n_fft // 2`` samples on both sides, so that frame ``t`` is about sample ``t * hop_length``.
    window : torch.Tensor, optional
        ``[win_length]``; a periodic Hann window if it is left out.
    pad_mode : str, default "reflect"
        As torch.stft and torchaudio; "constant" pads zeros, as librosa. Signals shorter than the padding are
        reflected again and again, as numpy does.

    Returns
    -------
    torch.Tensor
        Complex ``[..., n_fft // 2 + 1, frames]``.

    Raises
    ------
    TypeError
        For a signal of integers.
    ValueError
        For no samples, lengths that do not fit, another padding.

    Examples
    --------
    >>> spectrum = torch_aule.audio.stft(signal.to("aule"), n_fft=400)
    """
    check_signal(signal)
    if n_fft < 1 or hop_length < 1:
        raise ValueError(f"expected n_fft and hop_length of at least 1, got {n_fft} and {hop_length}")
    window, length = _window(signal, window, win_length, n_fft)
    if center:
        signal = pad_signal(signal, n_fft // 2, n_fft // 2, pad_mode)
    if signal.shape[-1] < n_fft:
        raise ValueError(f"signal: {signal.shape[-1]} samples are fewer than n_fft ({n_fft})")
    batch = signal.shape[:-1]
    spectrum = torch.stft(
        signal.reshape(-1, signal.shape[-1]), n_fft, hop_length, length, window, center=False, return_complex=True
    )
    return spectrum.reshape(*batch, *spectrum.shape[-2:])


def istft(
    spectrum: torch.Tensor,
    hop_length: int = 160,
    win_length: int = -1,
    center: bool = True,
    *,
    window: torch.Tensor | None = None,
    length: int | None = None,
) -> torch.Tensor:
    """The signal whose :func:`stft` comes closest to a spectrum.

    Parameters
    ----------
    spectrum : torch.Tensor
        Complex ``[..., n_fft // 2 + 1, frames]``, of an even `n_fft`.
    hop_length, win_length, center, window
        As in :func:`stft`.
    length : int, optional
        Samples of the result. What no frame reaches is 0; otherwise the result ends where the last frame's middle is.

    Returns
    -------
    torch.Tensor
        ``[..., samples]``.

    Raises
    ------
    RuntimeError
        For windows that leave a sample uncovered.

    Examples
    --------
    >>> same = torch_aule.audio.istft(torch_aule.audio.stft(signal), length=signal.shape[-1])
    """
    n_fft = 2 * (spectrum.shape[-2] - 1)
    window, width = _window(spectrum, window, win_length, n_fft)
    flat = spectrum.reshape(-1, *spectrum.shape[-2:])
    signal = torch.istft(flat, n_fft, hop_length, width, window, center=center, length=length)
    return signal.reshape(*spectrum.shape[:-2], signal.shape[-1])


def power_spectrum(spectrum: torch.Tensor) -> torch.Tensor:
    """Squares of magnitudes; the gradient at 0 is 0.

    Parameters
    ----------
    spectrum : torch.Tensor
        Complex, of any shape.

    Returns
    -------
    torch.Tensor
        Real, of the same shape.
    """
    return spectrum.abs().square()  # two kernels; squares of the parts, which lie apart, are three slower ones


def magnitude_spectrum(spectrum: torch.Tensor) -> torch.Tensor:
    """Magnitudes.

    Parameters
    ----------
    spectrum : torch.Tensor
        Complex, of any shape.

    Returns
    -------
    torch.Tensor
        Real, of the same shape.
    """
    return spectrum.abs()


def griffin_lim(
    magnitude: torch.Tensor,
    hop_length: int = 160,
    win_length: int = -1,
    *,
    iterations: int = 32,
    momentum: float = 0.99,
    window: torch.Tensor | None = None,
    length: int | None = None,
    random_start: bool = True,
    generator: torch.Generator | None = None,
) -> torch.Tensor:
    """A signal with these magnitudes: phases are found by going between signals and spectra.

    Parameters
    ----------
    magnitude : torch.Tensor
        ``[..., n_fft // 2 + 1, frames]``, of an even `n_fft`, as of ``stft(...).abs()``.
    hop_length, win_length, window
        As in :func:`stft`.
    iterations : int, default 32
        Steps.
    momentum : float, default 0.99
        Of the fast form; 0 is the original one. At least 0 and below 1.
    length : int, optional
        Samples of the result.
    random_start : bool, default True
        Begin with random phases; otherwise with phases of 0, which gives the same signal each time.
    generator : torch.Generator, optional
        Of the random phases; the device's default one otherwise.

    Returns
    -------
    torch.Tensor
        ``[..., samples]``.

    Raises
    ------
    ValueError
        For another momentum, or iterations below 0.

    References
    ----------
    D. Griffin, J. Lim, "Signal Estimation from Modified Short-Time Fourier Transform", 1984.
    N. Perraudin et al., "A Fast Griffin-Lim Algorithm", 2013.
    """
    if not 0 <= momentum < 1 or iterations < 0:
        raise ValueError(f"expected 0 <= momentum < 1 and iterations >= 0, got {momentum} and {iterations}")
    n_fft = 2 * (magnitude.shape[-2] - 1)
    share = momentum / (1 + momentum)
    if random_start:
        # As torchaudio's: in one quadrant, and not of length 1.
        parts = torch.rand(*magnitude.shape, 2, dtype=magnitude.dtype, device=magnitude.device, generator=generator)
        phases = torch.view_as_complex(parts)
    else:
        phases = torch.complex(torch.ones_like(magnitude), torch.zeros_like(magnitude))
    before = None
    for _ in range(iterations):
        signal = istft(magnitude * phases, hop_length, win_length, window=window, length=length)
        rebuilt = stft(signal, n_fft, hop_length, win_length, window=window)
        phases = rebuilt if before is None else rebuilt - share * before
        phases = phases / (phases.abs() + 1e-16)
        before = rebuilt
    return istft(magnitude * phases, hop_length, win_length, window=window, length=length)
