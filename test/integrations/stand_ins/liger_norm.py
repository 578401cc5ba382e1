"""As liger_kernel.ops.rms_norm and its like: how many workgroups a backward takes."""

import functools

from liger_kernel.utils import infer_device

DEVICE = infer_device()


@functools.cache
def get_npu_core_count(default=20):
    return default


def backward(x):
    count = 1
    if x.device.type == "cuda":
        count = -1
    elif x.device.type == "npu":
        count = get_npu_core_count()
    return count


def forward(x):
    return x
