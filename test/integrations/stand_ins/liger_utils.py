"""As liger_kernel.utils."""

import torch


def infer_device():
    return "cuda" if torch.cuda.is_available() else "cpu"
