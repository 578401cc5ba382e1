"""Pitch, resampling, loudness, streams and voice activity of torch_aule.audio, beside numpy's float64."""

import math

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


def epsilon(dtype):
    return torch.finfo(dtype).eps


def voice(pitch, samples, rate=16000):
    """Harmonics of a pitch, with a little noise; float64."""
    t = torch.arange(samples, dtype=torch.float64) / rate
    sound = sum(torch.sin(2 * math.pi * pitch * k * t + k) / k for k in range(1, 6))
    return sound + 0.003 * torch.randn(samples, dtype=torch.float64)


@pytest.mark.parametrize("shape", [(1,), (2,), (333,), (2, 3, 101)])
@pytest.mark.parametrize("place, dtype", PLACES)
@pytest.mark.validated
def test_autocorrelation(device, place, dtype, shape):
    """Products are at most the energy, the first of them, by which all are measured."""
    signal = torch.randn(shape, dtype=torch.float64).to(dtype)
    lags = int(torch.randint(1, shape[-1] + 1, ()))
    expected = torch.from_numpy(reference.autocorrelation(signal.double().numpy(), lags))
    assert relative_error(audio.autocorrelation(signal.to(place), lags), expected) < 40 * epsilon(dtype)
    assert audio.autocorrelation(signal, 10**6).shape == shape


@pytest.mark.parametrize("place, dtype", PLACES)
def test_pitch_of_voices(device, place, dtype):
    """Frames of a known pitch: found within 1 %, and voiced; each as written out, to 1e-4."""
    pitches = 110 + 300 * torch.rand(5)
    frames = torch.stack([voice(pitch.item(), 1024) for pitch in pitches]).to(dtype)
    hertz, voiced = audio.detect_pitch_yin(frames.to(place), return_voiced=True)
    curves = reference.yin_curve(frames.double().numpy(), 32, 320)
    expected = torch.tensor([16000 / (32 + reference.yin_choice(curve, 0.1)[0]) for curve in curves])
    assert voiced.all() and relative_error(hertz, expected) < 1e-4
    assert ((hertz.cpu() / pitches - 1).abs() < 0.01).all()
    low = torch.stack([voice(70, 1024), voice(70, 1024)]).to(dtype).to(place)  # has troughs, but no deep ones
    assert not audio.detect_pitch_yin(low, return_voiced=True)[1].any()
    assert audio.detect_pitch_yin(voice(70, 2048).to(dtype).to(place), return_voiced=True)[1].item()


@pytest.mark.parametrize("place, dtype", PLACES)
def test_pitch_of_noise(device, place, dtype):
    """Where the choice hangs on no rounding, it is as written out; noise has no pitch."""
    frames = torch.randn(7, 2, 700, dtype=torch.float64).to(dtype)
    hertz, voiced = audio.detect_pitch_yin(frames.to(place), 8000, 60, 400, 0.6, return_voiced=True)
    curves = reference.yin_curve(frames.double().numpy(), 20, 134)
    # The curve is off by roundings of the energy, over a mean of differences that is about twice that.
    close, compared = 100 * epsilon(dtype), 0
    for place_of in np.ndindex(curves.shape[:-1]):
        curve = curves[place_of]
        steps, order = np.abs(np.diff(curve)), np.sort(curve)
        if steps.min() < close or np.abs(curve - 0.6).min() < close or order[1] - order[0] < close:
            continue
        compared += 1
        at, deep = reference.yin_choice(curve, 0.6)
        assert bool(voiced[place_of]) == deep
        assert hertz[place_of].item() == pytest.approx(8000 / (20 + at), rel=1e-4 if dtype == torch.float32 else 1e-9)
    assert compared >= 7
    assert not audio.detect_pitch_yin(frames.to(place), return_voiced=True)[1].any()


@pytest.mark.parametrize("place, dtype", PLACES)
def test_pitch_along_a_signal(device, place, dtype):
    """Silence, then a voice that rises: unvoiced frames first, and frames centred where they should be."""
    parts = [torch.zeros(3000, dtype=torch.float64), voice(110, 4000), voice(220, 4000)]
    signal = torch.stack([torch.cat(parts), torch.cat(parts[::-1])]).to(dtype).to(place)
    hertz, voiced = audio.detect_pitch_yin_frames(signal, return_voiced=True)
    assert hertz.shape == voiced.shape == (2, 1 + 11000 // 256) and torch.isfinite(hertz).all()
    centre = torch.arange(hertz.shape[1]) * 256
    assert not voiced[0].cpu()[centre < 2400].any()
    for pitch, begin, row in ((110, 3600, 0), (220, 7600, 0), (220, 600, 1)):
        inside = (centre > begin) & (centre < begin + 2800)
        assert voiced[row].cpu()[inside].all()
        assert ((hertz[row].cpu()[inside] / pitch - 1).abs() < 0.01).all()
    assert audio.detect_pitch_yin_frames(signal[0], center=False).shape == (1 + (11000 - 1024) // 256,)
    assert torch.equal(audio.detect_pitch_yin_frames(signal[0]).cpu(), hertz[0].cpu())
    one = audio.detect_pitch_yin_frames(signal[..., :1])
    assert one.shape == (2, 1) and torch.isfinite(one).all()


RATES = [(48000, 16000), (44100, 16000), (16000, 48000), (8000, 11025), (3, 2), (1, 7)]


@pytest.mark.parametrize("rates", RATES, ids=lambda rates: f"{rates[0]}-{rates[1]}")
@pytest.mark.parametrize("place, dtype", PLACES)
@pytest.mark.validated
def test_resampling(device, place, dtype, rates, monkeypatch):
    """Filters sum to about 1 in magnitude, so an output is off by some roundings of the largest input."""
    for shape in ((1,), (101,), (2, 3, 77)):
        signal = torch.randn(shape, dtype=torch.float64).to(dtype)
        for options in ({}, {"zeros": 9, "rolloff": 0.9, "beta": 5.0}):
            names = {"lowpass_filter_width": options.get("zeros", 6), "rolloff": options.get("rolloff", 0.99),
                     "beta": options.get("beta")}  # fmt: skip
            method = "sinc_interp_kaiser" if options else "sinc_interp_hann"
            actual = audio.resample(signal.to(place), *rates, resampling_method=method, **names)
            expected = torch.from_numpy(reference.resample(signal.double().numpy(), *rates, **options))
            assert relative_error(actual, expected, signal.abs().max().double()) < 40 * epsilon(dtype)
    from torch_aule.audio import resampling

    whole = audio.resample(signal.to(place), *rates)
    monkeypatch.setattr(resampling, "LARGEST_PRODUCT", 7000)  # in pieces
    assert relative_error(audio.resample(signal.to(place), *rates), whole.cpu()) < 10 * epsilon(dtype)
    same = audio.resample(signal, 16000, 16000)
    assert torch.equal(same, signal) and same.data_ptr() != signal.data_ptr()


def test_a_tone_stays_a_tone(device):
    """48 kHz to 16 kHz and back, away from the ends; and what is above 8 kHz is gone."""
    t = torch.arange(9600, dtype=torch.float64, device="cpu") / 48000
    tone = torch.sin(2 * math.pi * 1000 * t).float().to(device)
    back = audio.resample(audio.resample(tone), 16000, 48000)
    assert relative_error(back[500:-500], tone[500:-500].cpu()) < 0.01
    high = torch.sin(2 * math.pi * 11000 * t).float().to(device)
    assert audio.resample(high)[100:-100].abs().max().item() < 0.01


@pytest.mark.parametrize("place, dtype", PLACES)
def test_loudness(device, place, dtype):
    signal = torch.randn(3, 2, 501, dtype=torch.float64).to(dtype)
    signal[1, 0] = 0
    x = signal.double()
    peak = audio.normalize_peak(signal.to(place), 0.5)
    level = audio.normalize_rms(signal.to(place))
    sizes = (x.abs().amax(-1, keepdim=True), x.square().mean(-1, keepdim=True).sqrt())
    for actual, size, wanted in zip((peak, level), sizes, (0.5, 0.1)):
        expected = torch.where(size > 0, x * wanted / torch.where(size > 0, size, 1.0), 0.0)
        assert relative_error(actual, expected) < 30 * epsilon(dtype)
    assert relative_error(audio.to_mono(signal.to(place)), x.mean(1)) < 4 * epsilon(dtype)
    assert torch.equal(audio.to_mono(signal[0, 0]), signal[0, 0])


@pytest.mark.parametrize("place, dtype", PLACES)
def test_voice_activity(device, place, dtype):
    """A voice between pauses with faint noise; loud noise, silence and one sample have none."""
    sound = torch.cat([torch.zeros(6000), voice(130, 8000).float() * 0.2, torch.zeros(6000)]) + 1e-4 * torch.randn(
        20000
    )
    signal = torch.stack([sound, 0.2 * torch.randn(20000), torch.zeros(20000)]).to(dtype).to(place)
    active = audio.voice_activity(signal, hangover=0).cpu()
    assert active.shape == (3, 1 + math.ceil((20000 - 480) / 240)) and active.dtype == torch.bool
    begin = torch.arange(active.shape[1]) * 240
    inside, outside = (begin >= 6000) & (begin + 480 <= 14000), (begin + 480 <= 6000) | (begin >= 14000)
    assert active[0][inside].all() and not active[0][outside].any()
    assert not active[1:].any()
    assert audio.voice_activity(signal[1], max_flatness=1.0).all()  # by its level alone
    longer = audio.voice_activity(signal[0], hangover=3).cpu()
    assert longer.sum() == active[0].sum() + 6 and longer[active[0]].all()
    assert audio.voice_activity(signal[0, :1]).cpu().tolist() == [False]


@pytest.mark.parametrize("place", ["cpu", "aule"])
@pytest.mark.parametrize("channels", [None, 2])
def test_ring(device, place, channels):
    """Against a list, with random sizes; capacities that divide nothing."""
    capacity = int(torch.randint(1, 50, ()))
    ring = audio.RingBuffer(capacity, channels, device=place)
    rows = () if channels is None else (channels,)
    kept = torch.empty(*rows, 0)
    for _ in range(60):
        if torch.rand(()) < 0.6:
            new = torch.randn(*rows, int(torch.randint(0, 2 * capacity, ())))
            lost = max(0, kept.shape[-1] + new.shape[-1] - capacity)
            kept = torch.cat((kept, new), -1)[..., lost:]
            assert ring.write(new.to(place)) == lost
        else:
            count = int(torch.randint(0, len(ring) + 1, ()))
            assert torch.equal(ring.peek(count).cpu(), kept[..., :count])
            assert torch.equal(ring.read(count).cpu(), kept[..., :count])
            kept = kept[..., count:]
        assert len(ring) == kept.shape[-1] and torch.equal(ring.peek().cpu(), kept)
    ring.clear()
    assert len(ring) == 0 and ring.read().shape == (*rows, 0) and ring.capacity == capacity


@pytest.mark.parametrize("place", ["cpu", "aule"])
@pytest.mark.parametrize("hop", [None, 7, 31])
def test_stream(device, place, hop):
    """Chunks of pieces of random lengths are those of the whole signal; the last one is filled with zeros."""
    signal = torch.randn(2, int(torch.randint(1, 400, ())))
    stream = audio.AudioStream(31, hop)
    hop = hop or 15
    assert stream.hop_length == hop
    for _ in range(2):
        got, rest = [], signal.to(place)
        while rest.shape[-1]:
            count = int(torch.randint(0, 60, ()))
            got.append(stream.push(rest[:, :count]))
            rest = rest[:, count:]
        last = stream.flush()
        chunks = torch.cat([*got, *([] if last is None else [last])], 1).cpu()
        count = 1 + max(0, math.ceil((signal.shape[1] - 31) / hop))
        filled = torch.nn.functional.pad(signal, (0, 31 + (count - 1) * hop - signal.shape[1]))
        assert torch.equal(chunks, filled.unfold(1, 31, hop))
        assert stream.flush() is None


WRONG = {
    "limits": (lambda: audio.detect_pitch_yin(torch.zeros(900), f_min=500, f_max=100), "f_min < f_max <= 8000"),
    "short frames": (lambda: audio.detect_pitch_yin(torch.zeros(33)), "33 samples hold no periods"),
    "lags": (lambda: audio.autocorrelation(torch.zeros(3), 0), "at least 1"),
    "rates": (lambda: audio.resample(torch.zeros(3), 0, 16000), "integers of at least 1"),
    "half rates": (lambda: audio.resample(torch.zeros(3), 8000.5, 16000), "integers of at least 1"),
    "method": (lambda: audio.resample(torch.zeros(3), resampling_method="linear"), "expected one of"),
    "filter": (lambda: audio.resample(torch.zeros(3), lowpass_filter_width=0), "lowpass_filter_width >= 1"),
    "a large filter": (lambda: audio.resample(torch.zeros(3), 48000, 44101), "choose other rates"),
    "capacity": (lambda: audio.RingBuffer(0), "at least 1"),
    "channels": (lambda: audio.RingBuffer(3, 2).write(torch.zeros(3)), r"expected \[2, 'samples'\], got \[3\]"),
    "count": (lambda: audio.RingBuffer(3).read(1), "expected 0 to 0"),
    "hop": (lambda: audio.AudioStream(3, 4), "hop_length <= chunk_length"),
    "frames": (lambda: audio.voice_activity(torch.zeros(3), 0), "at least 1"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_refused(name):
    call, words = WRONG[name]
    with pytest.raises(ValueError, match=words):
        call()
