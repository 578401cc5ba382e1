"""Sound that comes piece by piece: a ring of the last samples, and a stream of overlapping chunks."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from torch_aule.audio.spectra import check_signal, frame

__all__ = ["AudioStream", "RingBuffer"]


class RingBuffer:
    """The last samples of a signal, in memory of the device that is written and read in circles.

    Positions are the host's, so nothing waits for the device.

    Parameters
    ----------
    capacity : int
        Samples; older ones are overwritten.
    channels : int, optional
        Rows; a buffer without them holds ``[samples]``.
    dtype : torch.dtype, default torch.float32
        Of the samples.
    device : torch.device or str, optional
        Where they are kept; the CPU if it is left out.

    Raises
    ------
    ValueError
        For a capacity or a number of channels below 1.

    Examples
    --------
    >>> ring = torch_aule.audio.RingBuffer(16000, device="aule")
    >>> ring.write(samples)
    >>> last_second = ring.read(16000)
    """

    def __init__(
        self,
        capacity: int,
        channels: int | None = None,
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ):
        if capacity < 1 or (channels is not None and channels < 1):
            raise ValueError(f"expected a capacity and channels of at least 1, got {capacity} and {channels}")
        shape = (capacity,) if channels is None else (channels, capacity)
        self._samples = torch.zeros(shape, dtype=dtype, device=device)
        self._start = self._count = 0

    @property
    def capacity(self) -> int:
        """Samples that it can hold."""
        return self._samples.shape[-1]

    def __len__(self) -> int:
        return self._count

    def clear(self) -> None:
        """Forget all samples."""
        self._start = self._count = 0

    def write(self, samples: torch.Tensor) -> int:
        """Append samples; the oldest make room.

        Parameters
        ----------
        samples : torch.Tensor
            ``[..., samples]`` with the buffer's channels; of any device.

        Returns
        -------
        int
            Samples that were lost, of the buffer and of the new ones.

        Raises
        ------
        ValueError
            For other channels.
        """
        if samples.shape[:-1] != self._samples.shape[:-1] or samples.dim() == 0:
            expected = [*self._samples.shape[:-1], "samples"]
            raise ValueError(f"samples: expected {expected}, got {list(samples.shape)}")
        new = min(samples.shape[-1], self.capacity)
        dropped = samples.shape[-1] - new
        samples = samples[..., dropped:]
        lost = max(0, self._count + new - self.capacity)
        end = (self._start + self._count) % self.capacity
        first = min(new, self.capacity - end)
        if first:
            self._samples[..., end : end + first] = samples[..., :first]
        if new > first:
            self._samples[..., : new - first] = samples[..., first:]
        self._start = (self._start + lost) % self.capacity
        self._count += new - lost
        return dropped + lost

    def peek(self, count: int | None = None) -> torch.Tensor:
        """The oldest samples, which stay.

        Parameters
        ----------
        count : int, optional
            Of them; all if it is left out.

        Returns
        -------
        torch.Tensor
            ``[..., count]``, a copy.

        Raises
        ------
        ValueError
            For more than there are.
        """
        count = self._count if count is None else count
        if not 0 <= count <= self._count:
            raise ValueError(f"count: expected 0 to {self._count}, the samples that are there, got {count}")
        first = min(count, self.capacity - self._start)
        begin = self._samples[..., self._start : self._start + first]
        return torch.cat((begin, self._samples[..., : count - first]), -1)

    def read(self, count: int | None = None) -> torch.Tensor:
        """The oldest samples, which are then gone.

        Parameters
        ----------
        count : int, optional
            Of them; all if it is left out.

        Returns
        -------
        torch.Tensor
            ``[..., count]``.

        Raises
        ------
        ValueError
            For more than there are.
        """
        samples = self.peek(count)
        self._start = (self._start + samples.shape[-1]) % self.capacity
        self._count -= samples.shape[-1]
        return samples


class AudioStream:
    """Cuts a signal that comes piece by piece into chunks of one length that overlap.

    Parameters
    ----------
    chunk_length : int, default 480
        Samples of a chunk: 30 ms at 16 kHz.
    hop_length : int, optional
        Samples from one chunk's beginning to the next one's; half a chunk if it is left out.

    Raises
    ------
    ValueError
        For lengths below 1, or a hop that is longer than a chunk.

    Examples
    --------
    >>> stream = torch_aule.audio.AudioStream()
    >>> for samples in microphone:
    ...     chunks = stream.push(samples)  # [..., chunks, 480], of which there may be none
    """

    def __init__(self, chunk_length: int = 480, hop_length: int | None = None):
        hop_length = max(1, chunk_length // 2) if hop_length is None else hop_length
        if not 1 <= hop_length <= chunk_length:
            raise ValueError(f"expected 1 <= hop_length <= chunk_length, got {hop_length} and {chunk_length}")
        self.chunk_length, self.hop_length = chunk_length, hop_length
        self._rest: torch.Tensor | None = None
        self._fresh = False  # the rest has samples that were in no chunk

    def push(self, samples: torch.Tensor) -> torch.Tensor:
        """Take samples, give the chunks that are full now.

        Parameters
        ----------
        samples : torch.Tensor
            ``[..., samples]``, of one shape but for the last dimension, dtype and device from one call to the next.

        Returns
        -------
        torch.Tensor
            ``[..., chunks, chunk_length]``.
        """
        if samples.shape[-1:] != (0,):
            check_signal(samples, "samples")
            self._fresh = True
        joined = samples if self._rest is None else torch.cat((self._rest, samples), -1)
        count = max(0, 1 + (joined.shape[-1] - self.chunk_length) // self.hop_length)
        self._rest = joined[..., count * self.hop_length :].clone()
        if not count:
            return joined.new_empty(*joined.shape[:-1], 0, self.chunk_length)
        self._fresh = joined.shape[-1] > (count - 1) * self.hop_length + self.chunk_length
        return frame(joined, self.chunk_length, self.hop_length)

    def flush(self) -> torch.Tensor | None:
        """The last chunk, filled with zeros, after which the stream begins anew.

        Returns
        -------
        torch.Tensor or None
            ``[..., 1, chunk_length]``; None if each sample has been in a chunk.
        """
        rest, fresh = self._rest, self._fresh
        self._rest, self._fresh = None, False
        if rest is None or not fresh:
            return None
        return F.pad(rest, (0, self.chunk_length - rest.shape[-1])).unsqueeze(-2)
