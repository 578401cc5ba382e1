"""As ultralytics.utils.torch_utils."""

import torch


def select_device(device="", newline=False, verbose=True):
    if isinstance(device, torch.device):
        return device
    if device not in ("", "cpu", None):
        raise ValueError(f"Invalid CUDA 'device={device}' requested.")
    return torch.device("cpu")
