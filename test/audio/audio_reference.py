"""What torch_aule.audio computes, written out in numpy's float64, frame by frame."""

import math

import numpy as np


def pad(x, before, after, mode):
    """numpy's "reflect" goes on where a signal is shorter than what is added."""
    return np.pad(x, [(0, 0)] * (x.ndim - 1) + [(before, after)], mode=mode)


def frames(x, length, hop):
    count = 1 + (x.shape[-1] - length) // hop
    return np.stack([x[..., i * hop : i * hop + length] for i in range(count)], -2)


def hann(length):
    return np.array([0.5 - 0.5 * math.cos(2 * math.pi * i / length) for i in range(length)])


def windowed(x, n_fft=512, hop=160, win=None, center=True, mode="reflect"):
    """Frames that are transformed: [..., frames, n_fft]."""
    win = n_fft if win is None else win
    window, left = np.zeros(n_fft), (n_fft - win) // 2
    window[left : left + win] = hann(win)
    x = pad(x, n_fft // 2, n_fft // 2, mode) if center else x
    return frames(x, n_fft, hop) * window


def stft(x, *args, **options):
    return np.swapaxes(np.fft.rfft(windowed(x, *args, **options)), -1, -2)


def largest_prime(n):
    prime = 2
    while prime < n:
        n, prime = (n // prime, prime) if n % prime == 0 else (n, prime + 1)
    return n


def stft_error(x, epsilon, *args, **options):
    """At most by how much a bin may be off, [..., 1, frames].

    A fast transform of n points errs by about 4 roundings for each of its log2(n) stages, relative to the norm (N.
    Higham, "Accuracy and Stability of Numerical Algorithms", 2002, theorem 24.2); a bin has its share of that, which is
    the frame's norm. A library may sum up the terms of a large prime one after the other. numpy's errs, too.
    """
    w = windowed(x, *args, **options)
    n, prime = w.shape[-1], largest_prime(w.shape[-1])
    stages = math.log2(n) + (prime if prime > 11 else 0)
    return 4 * (epsilon + 2.3e-16) * stages * np.sqrt((w * w).sum(-1))[..., None, :]


def to_mel(f, scale):
    if scale == "htk":
        return 2595 * math.log10(1 + f / 700)
    return f * 3 / 200 if f < 1000 else 15 + 27 * math.log(f / 1000) / math.log(6.4)


def to_hz(m, scale):
    if scale == "htk":
        return 700 * (10 ** (m / 2595) - 1)
    return m * 200 / 3 if m < 15 else 1000 * math.exp((m - 15) * math.log(6.4) / 27)


def filterbank(n_mels=80, n_fft=512, rate=16000, f_min=0.0, f_max=None, norm=None, scale="htk"):
    low, high = to_mel(f_min, scale), to_mel(rate / 2 if f_max is None else f_max, scale)
    edges = [to_hz(low + (high - low) * i / (n_mels + 1), scale) for i in range(n_mels + 2)]
    out = np.zeros((n_mels, n_fft // 2 + 1))
    for i, (a, b, c) in enumerate(zip(edges, edges[1:], edges[2:])):
        for k in range(out.shape[1]):
            f = k * rate / n_fft
            height = (f - a) / (b - a) if f < b else (c - f) / (c - b)
            out[i, k] = max(0.0, height) * (2 / (c - a) if norm == "slaney" else 1.0)
    return out


def decibels(power, top=80.0):
    """The largest counts for channels, bins and frames of an item together."""
    levels = 10 * np.log10(np.maximum(power, 1e-10))
    axes = tuple(range(max(0, levels.ndim - 3), levels.ndim))
    return np.maximum(levels, levels.max(axes, keepdims=True) - top)


def dct(count, n, norm="ortho"):
    out = np.array([[2 * math.cos(math.pi * k * (2 * i + 1) / (2 * n)) for i in range(n)] for k in range(count)])
    return out * np.array([math.sqrt((1 if k else 0.5) / (2 * n)) for k in range(count)])[:, None] if norm else out


def delta(x, width):
    """Least squares: the slope of the line through 2 * width + 1 values."""
    x = pad(x, width, width, "edge")
    places = np.arange(-width, width + 1)
    return np.stack(
        [x[..., t : t + 2 * width + 1] @ places / (places @ places) for t in range(x.shape[-1] - 2 * width)], -1
    )


def autocorrelation(x, lags):
    n = x.shape[-1]
    return np.stack([(x[..., lag:] * x[..., : n - lag]).sum(-1) for lag in range(lags)], -1)


def yin_curve(x, shortest, longest):
    """librosa's form of YIN's difference function: what is left of the frame at longer lags counts less."""
    r, d = autocorrelation(x, longest + 1), []
    for lag in range(1, longest + 1):
        d.append(2 * (r[..., 0] - r[..., lag]) - (x[..., :lag] ** 2).sum(-1))
    d = np.stack(d, -1)
    mean = np.cumsum(d, -1) / np.arange(1, longest + 1)
    return (d / (mean + np.finfo(float).tiny))[..., shortest - 1 :]


def yin_choice(curve, threshold):
    """Of one curve: the place, and whether it is a trough below the threshold."""
    n = len(curve)

    def is_trough(i):
        return (i == 0 or curve[i] < curve[i - 1]) and (i == n - 1 or curve[i] < curve[i + 1] or 0 < i and
                curve[i] == curve[i + 1])  # fmt: skip

    deep = [i for i in range(n) if is_trough(i) and curve[i] < threshold]
    place = deep[0] if deep else int(np.argmin(curve))
    if 0 < place < n - 1:
        bend = curve[place + 1] + curve[place - 1] - 2 * curve[place]
        slope = (curve[place + 1] - curve[place - 1]) / 2
        if abs(slope) < abs(bend):
            return place - slope / bend, bool(deep)
    return float(place), bool(deep)


def resample(x, old, new, zeros=6, rolloff=0.99, beta=None):
    """Each output is a sum over all inputs, of which few have a weight."""
    common = math.gcd(old, new)
    old, new = old // common, new // common
    cutoff = min(old, new) * rolloff
    inputs, outputs = np.arange(x.shape[-1]) * new, np.arange(-(-x.shape[-1] * new // old)) * old
    t = (inputs - outputs[:, None]) * (cutoff / (old * new))  # differences of integers have no rounding
    u = np.clip(t / zeros, -1, 1)
    window = np.cos(math.pi * u / 2) ** 2 if beta is None else np.i0(beta * np.sqrt(1 - u * u)) / np.i0(beta)
    # Kaiser's window ends above 0, and a last input may lie before an end in one rounding and behind it in another.
    weight = np.where(np.abs(t) < zeros, np.sinc(t) * window, 0.0) * cutoff / old
    return x @ weight.T
