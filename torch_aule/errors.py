"""The exceptions of the device, with the codes that the C interface returns for them."""

from __future__ import annotations

import torch

__all__ = [
    "AuleError",
    "DeviceLostError",
    "InvalidShapeError",
    "NoComputeQueueError",
    "OutOfMemoryError",
    "ShaderCompileError",
    "VulkanInitError",
]


class AuleError(RuntimeError):
    """An error of the device, or of a call of this package's own functions.

    Attributes
    ----------
    code : int
        ``AULE_ERROR_...`` of ``torch_aule/include/aule.h``, which C programs get for the same failure.
    """

    code = -1


class VulkanInitError(AuleError):
    """There is no Vulkan loader, no driver, or no device that has what this package needs; the text says what."""

    code = -2


class NoComputeQueueError(VulkanInitError):
    """There are Vulkan devices, and all that they lack is a queue that computes."""

    code = -3


class OutOfMemoryError(AuleError, torch.OutOfMemoryError):
    """The device, or the host memory that it sees, has no room; freeing tensors and trying again is safe."""

    code = -4


class InvalidShapeError(AuleError, ValueError):
    """Shapes that do not fit together; nothing has been launched."""

    code = -5


class ShaderCompileError(AuleError):
    """A shader does not compile, or has what no kernel may have; the text has the line in the source."""

    code = -6


class DeviceLostError(AuleError):
    """The device stopped answering, and is of no use any more in this process; a new process may use it again."""

    code = -7


def _register(extension) -> None:
    """Have the extension raise them."""
    extension.set_error_types(
        VulkanInitError, NoComputeQueueError, OutOfMemoryError, ShaderCompileError, DeviceLostError
    )
