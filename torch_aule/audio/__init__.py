"""Sound: spectra, features, pitch, resampling, streams and WAV files, for tensors of any device.

A signal is ``[..., samples]``, float32 or float64; what stands before the last dimension are channels and batches.
torchaudio's and librosa's functions of the same meaning give the same numbers, and all but decisions have gradients.
"""

from torch_aule.audio.features import (
    amplitude_to_db,
    delta,
    log_mel_spectrogram,
    mel_spectrogram,
    mfcc,
    onset_strength,
    spectral_flatness,
    voice_activity,
    whisper_log_mel,
)
from torch_aule.audio.filterbanks import create_dct, create_mel_filterbank, hz_to_mel, mel_to_hz
from torch_aule.audio.pitch import autocorrelation, detect_pitch_yin, detect_pitch_yin_frames
from torch_aule.audio.resampling import normalize_peak, normalize_rms, resample, to_mono
from torch_aule.audio.spectra import frame, griffin_lim, istft, magnitude_spectrum, power_spectrum, rms, stft
from torch_aule.audio.streaming import AudioStream, RingBuffer
from torch_aule.audio.wav import WavError, read_wav, write_wav

__all__ = [
    "AudioStream",
    "RingBuffer",
    "WavError",
    "amplitude_to_db",
    "autocorrelation",
    "create_dct",
    "create_mel_filterbank",
    "delta",
    "detect_pitch_yin",
    "detect_pitch_yin_frames",
    "frame",
    "griffin_lim",
    "hz_to_mel",
    "istft",
    "log_mel_spectrogram",
    "magnitude_spectrum",
    "mel_spectrogram",
    "mel_to_hz",
    "mfcc",
    "normalize_peak",
    "normalize_rms",
    "onset_strength",
    "power_spectrum",
    "read_wav",
    "resample",
    "rms",
    "spectral_flatness",
    "stft",
    "to_mono",
    "voice_activity",
    "whisper_log_mel",
    "write_wav",
]
