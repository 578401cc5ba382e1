"""Streams and events. Both are PyTorch's own, to which `Stream` adds priorities; the device guard does the work.

Work is recorded first and submitted to the device later, several commands at a time: when enough commands or enough
estimated time has been recorded or the device has run dry, when a stream or the device is synchronized or queried,
when an event without timing is recorded, when an event is queried, synchronized or waited for by another stream, and
when another stream or device becomes current in this thread. Programs written for CUDA, where a launched kernel starts
by itself, thus find their work running. Streams still need `wait_stream` or an event between them, as on CUDA: nothing
else orders two streams, but for blocking copies from host memory, which are complete for work of any stream submitted
after them.
"""

from __future__ import annotations

import torch
from torch import Event

from torch_aule import _C
from torch_aule.indices import DeviceLike, checked_index

__all__ = [
    "Event",
    "ExternalStream",
    "Stream",
    "StreamContext",
    "current_stream",
    "default_stream",
    "get_stream_from_external",
    "in_flight",
    "set_in_flight_limit",
    "set_stream",
    "stream",
]

_DEFAULT_STREAM_ID = 0
_DEVICE_TYPE = torch._C._autograd.DeviceType.PrivateUse1.value


class _StreamType(type(torch.Stream)):  # type: ignore[misc]
    """Any torch.Stream of an aule device is a `torch.aule.Stream`."""

    def __instancecheck__(cls, instance):
        return isinstance(instance, torch.Stream) and instance.device.type == "aule"


class Stream(torch.Stream, metaclass=_StreamType):
    """A stream of an aule device, from a pool that is shared between its users.

    Parameters
    ----------
    device : torch.device, str or int, optional
        Default: the current device.
    priority : int, default 0
        Below 0 is high, as in ``torch.cuda``. Streams of high priority have queues of their own, which Vulkan gives the
        higher priority. How much that means is the driver's choice. On a device with one queue it has no effect, and
        :meth:`priority_range` is ``(0, 0)``.
    **kwargs
        stream_id, device_index and device_type of a stream that exists, instead of the two above.

    Raises
    ------
    RuntimeError
        If the device does not exist.
    TypeError, ValueError
        If `device` names no device of this backend.
    """

    def __new__(cls, device: DeviceLike = None, priority: int = 0, **kwargs):
        if kwargs:  # stream_id, device_index and device_type, of a stream that exists
            return super().__new__(cls, **kwargs)
        return super().__new__(cls, device=torch.device("aule", checked_index(device)), priority=priority)

    @property
    def priority(self) -> int:
        """0, or -1 for high priority; always 0 on a device with one queue."""
        return _C.stream_priority(self.stream_id, self.device_index)

    @staticmethod
    def priority_range(device: DeviceLike = None) -> tuple[int, int]:
        """Lowest and highest priority of a device's streams.

        Parameters
        ----------
        device : torch.device, str or int, optional
            Default: the current device.

        Returns
        -------
        (int, int)
            ``(0, -1)``, or ``(0, 0)`` on a device with one queue, where priorities have no effect.
        """
        return 0, _C.highest_stream_priority(checked_index(device))


def _make(stream_id: int, index: int) -> Stream:
    return Stream(stream_id=stream_id, device_index=index, device_type=_DEVICE_TYPE)


def current_stream(device: DeviceLike = None) -> Stream:
    """The stream on which this thread's work for a device is recorded.

    Parameters
    ----------
    device : torch.device, str or int, optional
        Default: the current device.

    Returns
    -------
    Stream
        The default stream, unless :func:`set_stream` or :func:`stream` chose another.

    Raises
    ------
    RuntimeError
        If the device does not exist.
    TypeError, ValueError
        If `device` names no device of this backend.
    """
    index = checked_index(device)
    return _make(_C.current_stream_id(index), index)


def default_stream(device: DeviceLike = None) -> Stream:
    """The stream that a device starts with. It orders nothing with other streams by itself.

    Parameters
    ----------
    device : torch.device, str or int, optional
        Default: the current device.

    Returns
    -------
    Stream
        The same stream in every thread.

    Raises
    ------
    RuntimeError
        If the device does not exist.
    TypeError, ValueError
        If `device` names no device of this backend.
    """
    return _make(_DEFAULT_STREAM_ID, checked_index(device))


def set_stream(stream: Stream | None) -> None:
    """Make `stream` current on its device, and its device current. None changes nothing.

    What the former stream has recorded is submitted, without waiting for it (not while it captures a graph).

    Parameters
    ----------
    stream : torch.Stream, optional
        A stream of an aule device.

    Raises
    ------
    ValueError
        If the stream belongs to another kind of device.
    """
    if stream is None:
        return
    if stream.device.type != "aule":
        raise ValueError(f"expected a stream of an aule device, got one of {stream.device}")
    _C.set_device(stream.device.index)
    _C.set_stream(stream.stream_id, stream.device.index)


def _set_stream_by_id(stream_id: int, device_index: int, device_type: int = _DEVICE_TYPE) -> None:
    _C.set_stream(stream_id, device_index)


def _of(stream: Stream | None, what: str) -> Stream:
    stream = current_stream() if stream is None else stream
    if stream.device.type != "aule":
        raise ValueError(f"{what}: expected a stream of an aule device, got one of {stream.device}")
    return stream


def set_in_flight_limit(batches: int, stream: Stream | None = None) -> None:
    """Limit the batches of commands that a stream has submitted to the device and that are not finished.

    Below the limit the host runs ahead of the device. At the limit commands are gathered in larger batches, and a call
    that has to submit one more waits before it returns. A replayed graph does not count.

    Parameters
    ----------
    batches : int
        At least 1; 64 unless it was set.
    stream : torch.Stream, optional
        Default: the current stream.

    Raises
    ------
    ValueError
        If `batches` is below 1, or the stream belongs to another kind of device.
    """
    stream = _of(stream, "set_in_flight_limit")
    if batches < 1:
        raise ValueError(f"set_in_flight_limit: expected batches of at least 1, but got {batches}")
    _C.limit_stream(stream.stream_id, stream.device.index, batches)


def in_flight(stream: Stream | None = None) -> dict[str, int]:
    """The work that a stream has before it, without waiting.

    Parameters
    ----------
    stream : torch.Stream, optional
        Default: the current stream.

    Returns
    -------
    dict
        ``batches`` that are submitted and not finished, ``commands`` in these and recorded since, and the ``limit`` of
        batches.

    Raises
    ------
    ValueError
        If the stream belongs to another kind of device.
    """
    stream = _of(stream, "in_flight")
    batches, commands, limit = _C.stream_load(stream.stream_id, stream.device.index)
    return {"batches": batches, "commands": commands, "limit": limit}


def get_stream_from_external(data_ptr: int, device: DeviceLike = None) -> Stream:
    """Not possible: a stream here is a recorder and a timeline of this library, not only a queue handle.

    Parameters
    ----------
    data_ptr : int
        Not looked at.
    device : torch.device, str or int, optional
        Not looked at.

    Returns
    -------
    Stream
        Never.

    Raises
    ------
    NotImplementedError
        Always.
    """
    raise NotImplementedError("aule streams cannot be made from another library's Vulkan queue")


class ExternalStream:
    """Not possible: a stream here is a recorder and a timeline of this library, not only a queue handle.

    Parameters
    ----------
    stream_ptr : int
        Not looked at.
    device : torch.device, str or int, optional
        Not looked at.
    **kwargs
        Not looked at.

    Raises
    ------
    NotImplementedError
        Always.
    """

    def __new__(cls, stream_ptr: int, device: DeviceLike = None, **kwargs):
        return get_stream_from_external(stream_ptr, device)


class StreamContext:
    """Context in which a stream, and its device, are current.

    On entry and on exit the stream that is left submits what it has recorded.

    Parameters
    ----------
    stream : torch.Stream, optional
        A stream of an aule device; None changes nothing.
    """

    def __init__(self, stream: Stream | None):
        self.stream = stream
        self._before: list[tuple[int, int, int]] = []  # a stack: one object may be entered again inside itself

    def __enter__(self):
        if self.stream is not None:
            index = self.stream.device.index
            self._before.append((_C.current_device(), index, _C.current_stream_id(index)))
            set_stream(self.stream)
        return self.stream

    def __exit__(self, *exc_info):
        if self.stream is not None:
            device_before, index, stream_before = self._before.pop()
            _C.set_stream(stream_before, index)
            _C.set_device(device_before)
        return False


def stream(stream: Stream | None) -> StreamContext:
    """Context in which `stream` is current, as ``torch.cuda.stream``.

    Parameters
    ----------
    stream : torch.Stream, optional
        A stream of an aule device; None changes nothing.

    Returns
    -------
    StreamContext
        To be used in a ``with`` statement. See the module's text for when work is submitted.
    """
    return StreamContext(stream)
