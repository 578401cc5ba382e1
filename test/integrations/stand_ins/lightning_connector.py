"""As the modules of lightning that choose accelerator, strategy and precision."""

import torch


class SingleDeviceStrategy:
    def __init__(self, device):
        self.device = device


class MixedPrecision:
    def __init__(self, precision, device, scaler=None):
        if scaler is None and precision == "16-mixed":
            scaler = torch.amp.GradScaler(device=device)
        self.precision, self.device, self.scaler = precision, device, scaler


class Connector:
    _precision_plugin_flag = None

    def __init__(self, flag, devices=(), precision="32-true"):
        self._accelerator_flag, self._parallel_devices, self._precision_flag = flag, list(devices), precision
        self._num_nodes_flag = 1

    @staticmethod
    def _choose_auto_accelerator():
        return "cpu"

    @staticmethod
    def _choose_gpu_accelerator_backend():
        raise RuntimeError("No supported gpu backend found!")

    def _choose_strategy(self):
        return SingleDeviceStrategy("cpu") if len(self._parallel_devices) <= 1 else "ddp"

    def _check_and_init_precision(self):
        if self._precision_plugin_flag is not None:
            return self._precision_plugin_flag
        if self._precision_flag == "32-true":
            return None
        return MixedPrecision(self._precision_flag, "cpu" if self._accelerator_flag == "cpu" else "cuda")


_AcceleratorConnector = _Connector = Connector
