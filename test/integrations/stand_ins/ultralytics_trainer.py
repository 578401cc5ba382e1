"""As ultralytics.engine.trainer."""

import torch
from ultralytics.utils.torch_utils import select_device


class BaseTrainer:
    def __init__(self, device, amp=True):
        self.device, self.amp = select_device(device), amp

    def _setup_train(self):
        self.scaler = torch.amp.GradScaler("cuda", enabled=self.amp)
