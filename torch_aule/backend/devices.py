"""The devices, their abilities, and the current one."""

from __future__ import annotations

import torch

from torch_aule import _C
from torch_aule.indices import DeviceLike, _get_device_index, checked_index


def is_available() -> bool:
    """Whether a Vulkan device that torch_aule can use is present. Never raises and starts nothing."""
    return _C.device_count() > 0


def unavailable_reason() -> str:
    """Why :func:`is_available` is False, in words; empty when it is True."""
    return "" if is_available() else _C.unavailable_reason()


def device_count() -> int:
    """Number of devices. Does not create any, so that it is safe to call before a fork."""
    return _C.device_count()


def is_initialized() -> bool:
    """Whether a device has been started in this process."""
    return _C.is_initialized()


def _is_in_bad_fork() -> bool:
    """Whether this process was forked from one that had started a device, and so cannot use it."""
    return _C.is_in_bad_fork()


def _lazy_init() -> None:
    if _C.is_in_bad_fork():
        raise RuntimeError(
            "Cannot use aule in a forked subprocess: Vulkan devices do not survive fork(). "
            "Use the 'spawn' start method of multiprocessing, or touch the device in the child only."
        )
    _C.init()


def init() -> None:
    """Start the backend now instead of on first use."""
    _lazy_init()


def current_device() -> int:
    """Index of the current device of this thread."""
    return _C.current_device()


def set_device(device: DeviceLike) -> None:
    """Make a device current in this thread.

    Parameters
    ----------
    device : torch.device, str or int
        A negative index changes nothing, as in ``torch.cuda``; nor does None, or a device without an index.

    Raises
    ------
    RuntimeError
        If the device does not exist.
    TypeError, ValueError
        If `device` names no device of this backend.
    """
    index = _get_device_index(device, optional=True)
    if index >= 0:
        _C.set_device(checked_index(index))


def _exchange_device(index: int) -> int:
    """Make `index` current and return the former one; -1 changes nothing and returns -1."""
    return -1 if index < 0 else _C.exchange_device(index)


def _maybe_exchange_device(index: int) -> int:
    return _exchange_device(index)


class device:
    """Context in which a device is current.

    Parameters
    ----------
    device : torch.device, str or int, optional
        None and negative indices change nothing.

    Raises
    ------
    RuntimeError
        On entry, if the device does not exist.
    TypeError, ValueError
        If `device` names no device of this backend.

    Examples
    --------
    >>> with torch.aule.device(1):
    ...     x = torch.zeros(3, device="aule")  # on aule:1
    """

    def __init__(self, device: DeviceLike):
        self.idx = -1 if device is None else _get_device_index(device, optional=True)
        self.prev_idx = -1

    def __enter__(self):
        self.prev_idx = _exchange_device(self.idx)

    def __exit__(self, *exc_info):
        _exchange_device(self.prev_idx)
        return False


class device_of(device):
    """Context in which the device of a tensor is current.

    Parameters
    ----------
    obj : torch.Tensor or storage
        One of another kind of device changes nothing.
    """

    def __init__(self, obj: torch.Tensor):
        super().__init__(obj.device.index if obj.device.type == "aule" else None)


def synchronize(device: DeviceLike = None) -> None:
    """Wait for all work of a device, on every stream, and raise what its kernels reported.

    Parameters
    ----------
    device : torch.device, str or int, optional
        Default: the current device.

    Raises
    ------
    IndexError
        If an index was out of range in a kernel since the last synchronisation (embedding, gather, a class in a loss).
    RuntimeError
        If the device does not exist or is lost, or if this is a fork of a process that had started a device.
    TypeError, ValueError
        If `device` names no device of this backend.
    """
    _lazy_init()
    _C.synchronize(checked_index(device))


def _shutdown() -> None:
    """Wait for every device that was started, keep its pipelines, and give memory that holds no tensor back.

    Tensors stay, and what is called afterwards works as before. Programs need not call it: pipelines are kept at the
    end of the process anyway, and the driver takes the rest. Nothing registers it at exit, since waiting for a device
    that hangs would keep a process that was told to end; ``atexit.register(torch.aule._shutdown)`` does so.
    """
    for index in range(_C.device_count() if _C.is_initialized() else 0):
        if _C.device_properties(index)["created"]:
            _C.synchronize(index)
            _C.save_pipelines(index)
            _C.empty_cache(index)


_SYNC_DEBUG_MODES = {"default": 0, "warn": 1, "error": 2}


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """Find what makes the host wait for the device, such as ``.item()``, ``.nonzero()`` and copies to the host.

    Explicit waits, such as :func:`synchronize`, stay as they are. So do copies with ``non_blocking=True`` into pinned
    memory, which do not wait.

    Parameters
    ----------
    debug_mode : int or str
        0 or ``"default"``: nothing; 1 or ``"warn"``: a warning; 2 or ``"error"``: a RuntimeError instead of the wait.

    Raises
    ------
    ValueError
        For another mode.
    """
    mode = _SYNC_DEBUG_MODES.get(debug_mode, debug_mode) if isinstance(debug_mode, str) else debug_mode
    if mode not in (0, 1, 2):
        raise ValueError(f"the mode is one of 0, 1, 2, 'default', 'warn', 'error', not {debug_mode!r}")
    _C.set_sync_debug_mode(int(mode))


def get_sync_debug_mode() -> int:
    """The mode that :func:`set_sync_debug_mode` set: 0, 1 or 2."""
    return _C.sync_debug_mode()


class DeviceProperties:
    """Properties and abilities of a device, as plain attributes.

    Among them are name, kind (discrete, integrated, virtual, cpu or other), driver_name, driver_info, uuid,
    total_memory (bytes), max_allocation_bytes, subgroup_size, max_shared_bytes, multi_processor_count (0: unknown), and
    a bool for each optional feature, such as float16, float64 and cooperative_matrix. :meth:`as_dict` has all.

    Parameters
    ----------
    values : dict
        Attributes by name. Programs get an object of this class from :func:`get_device_properties`.
    """

    def __init__(self, values: dict):
        self._values = dict(values)
        # Vulkan does not tell the number of compute units in a portable way; 0 says so.
        self._values.setdefault("multi_processor_count", 0)

    def __getattr__(self, name: str):
        try:
            return self.__dict__["_values"][name]
        except KeyError:
            raise AttributeError(f"a device of aule has no property {name!r}") from None

    def __dir__(self):
        return [*super().__dir__(), *self._values]

    def as_dict(self) -> dict:
        """A copy of all properties."""
        return dict(self._values)

    @property
    def vulkan_version(self) -> tuple[int, int, int]:
        """(major, minor, patch) of the Vulkan version that the driver offers."""
        packed = self._values.get("api_version", 0)
        return packed >> 22 & 0x7F, packed >> 12 & 0x3FF, packed & 0xFFF

    def __repr__(self) -> str:
        gib = self.total_memory / 2**30
        version = ".".join(map(str, self.vulkan_version))
        return (
            f"DeviceProperties(name={self.name!r}, kind={self.kind!r}, driver={self.driver_name!r}, "
            f"vulkan={version}, total_memory={gib:.1f}GiB, subgroup_size={self.subgroup_size})"
        )


_known_properties: dict[int, DeviceProperties] = {}


def _properties(index: int) -> DeviceProperties:
    if index not in _known_properties:
        values = _C.device_properties(index)
        properties = DeviceProperties(values)
        if not values["created"]:  # some things are asked of the device when it is created
            return properties
        _known_properties[index] = properties
    return _known_properties[index]


def get_device_properties(device: DeviceLike = None) -> DeviceProperties:
    """Properties of a device: name, total_memory, kind, driver_name, limits and optional features.

    Parameters
    ----------
    device : torch.device, str or int, optional
        Default: the current device.

    Returns
    -------
    DeviceProperties
        What the driver tells. Some values are known only once the device has been used.

    Raises
    ------
    RuntimeError
        If the device does not exist.
    TypeError, ValueError
        If `device` names no device of this backend.
    """
    return _properties(checked_index(device))


def get_device_name(device: DeviceLike = None) -> str:
    """Name of a device, as its driver gives it.

    Parameters
    ----------
    device : torch.device, str or int, optional
        Default: the current device.

    Returns
    -------
    str
        Such as ``"NVIDIA H200"``.

    Raises
    ------
    RuntimeError
        If the device does not exist.
    TypeError, ValueError
        If `device` names no device of this backend.
    """
    return get_device_properties(device).name


def get_device_capability(device: DeviceLike = None) -> tuple[int, int]:
    """Vulkan version of a device, in the form of CUDA's compute capability.

    The numbers order devices of this backend and stay far below CUDA's compute capabilities, so that code which takes
    "8 or more" as a sign of a certain NVIDIA generation takes its general path.

    Parameters
    ----------
    device : torch.device, str or int, optional
        Default: the current device.

    Returns
    -------
    (int, int)
        Major and minor version, such as ``(1, 3)``.

    Raises
    ------
    RuntimeError
        If the device does not exist.
    TypeError, ValueError
        If `device` names no device of this backend.
    """
    major, minor, _ = get_device_properties(device).vulkan_version
    return major, minor


def get_arch_list() -> list[str]:
    """``["spirv"]``, which the driver compiles on every device; empty if there is none."""
    return ["spirv"] if is_available() else []


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether bfloat16 tensors work on the current device.

    Parameters
    ----------
    including_emulation : bool, default True
        They work on every device: where it has no bfloat16 arithmetic, values are stored in 16 bits and computed in
        float32. False asks for arithmetic in the device itself.

    Returns
    -------
    bool
        False without a device.
    """
    if not is_available():
        return False
    return bool(including_emulation or get_device_properties().bfloat16)
