"""The roof of a device: bytes per second of a copy, operations per second of products. Measured once, and kept.

    python -m torch_aule.benchmark roof

The profiler's report (torch_aule/profiling) holds kernels against it: the least time that a kernel could take is
that of its bytes or that of its arithmetic, whichever is longer.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import time
from pathlib import Path

import torch

from torch_aule import _C
from torch_aule.backend.cache_folder import make_private
from torch_aule.backend.fallback import strict
from torch_aule.indices import DeviceLike, checked_index

__all__ = ["Roof", "load", "measure"]

DTYPES = ("float32", "float16", "bfloat16")
SAMPLES = 5
ENOUGH_S = 0.05  # a product that takes as long is large enough
LARGEST = 8192  # rows of a product
COPY_BYTES = {False: 1 << 30, True: 1 << 26}  # of a GPU, past its caches; of a software device


@dataclasses.dataclass(frozen=True)
class Roof:
    """Rates that were measured on a device.

    Attributes
    ----------
    device, driver : str
        Their names.
    bandwidth : float
        Bytes per second, read and written, of a copy that no cache holds.
    rates : dict
        Name of a dtype -> floating-point operations per second of square products; those that the device has.
    seconds : float
        When it was measured, Unix time.
    """

    device: str
    driver: str
    bandwidth: float
    rates: dict[str, float]
    seconds: float

    def least_seconds(self, moved: float, flops: float = 0.0, dtype: str = "float32") -> float:
        """The least time for so much work.

        Parameters
        ----------
        moved : float
            Bytes read and written.
        flops : float, default 0
            Operations; left out if products of `dtype` were not measured.
        dtype : str, default "float32"
            What the operations are of.

        Returns
        -------
        float
            Seconds.
        """
        rate = self.rates.get(dtype)
        return max(moved / self.bandwidth, flops / rate if rate else 0.0)

    def text(self) -> str:
        """The rates in lines for a person.

        Returns
        -------
        str
            One line for the copy, and one for each dtype.
        """
        lines = [f"{self.device}, {self.driver}", f"  {'copy':10}{self.bandwidth / 1e9:12.1f} GB/s"]
        return "\n".join([*lines, *(f"  {name:10}{rate / 1e12:12.3f} TFLOPS" for name, rate in self.rates.items())])


def _names(index: int) -> tuple[str, str]:
    p = torch.aule.get_device_properties(index)
    return p.name, f"{p.driver_name} {p.driver_info}"


def _file(index: int) -> Path | None:
    """The file of a device's roof, one for each driver; None if nothing is kept."""
    folder = _C.cache_directory()
    key = hashlib.sha256(" ".join((*_names(index), str(_C.device_properties(index)["uuid"]))).encode()).hexdigest()
    return Path(folder, f"roof-{key[:16]}.json") if folder else None


def load(device: DeviceLike = None) -> Roof | None:
    """The roof that was measured on a device with its current driver.

    Parameters
    ----------
    device : torch.device, str or int, optional
        Default: the current device.

    Returns
    -------
    Roof or None
        None if nothing was, or it cannot be read.

    Raises
    ------
    RuntimeError
        If the device does not exist.
    """
    path = _file(checked_index(device))
    if path is None:
        return None
    try:
        kept = Roof(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return None
    numbers = [kept.bandwidth, *kept.rates.values()] if isinstance(kept.rates, dict) else [None]
    return kept if all(isinstance(x, float) and x > 0 for x in numbers) else None


def _keep(roof: Roof, path: Path) -> None:
    make_private(path.parent)
    temporary = path.with_suffix(f".{os.getpid()}")
    temporary.write_text(json.dumps(dataclasses.asdict(roof)))
    temporary.replace(path)


def _seconds(function, device: torch.device) -> float:
    """Least time of a call on the device's clock, after two to warm up: other work only makes it longer."""
    times = []
    for sample in range(SAMPLES + 2):
        first, last = (torch.Event(device, enable_timing=True) for _ in range(2))
        first.record()
        function()
        last.record()
        last.synchronize()
        if sample >= 2:
            times.append(first.elapsed_time(last) * 1e-3)
    return max(min(times), 1e-9)


def _bandwidth(device: torch.device, most_bytes: int) -> float:
    count = max(1, min(most_bytes, torch.aule.mem_get_info(device)[0] // 8) // 4)
    x = torch.zeros(count, device=device)
    y = torch.empty_like(x)
    return 2 * x.numel() * x.element_size() / _seconds(lambda: y.copy_(x), device)


def _rate(device: torch.device, dtype: torch.dtype, largest: int) -> float | None:
    """Of growing products in two layouts, the best; None if the device multiplies no such dtype."""
    best, n = 0.0, min(256, largest)
    while True:
        try:
            a, b = (torch.randn(n, n, device=device).to(dtype) for _ in range(2))
            layouts = (lambda a=a, b=b: a @ b.t(), lambda a=a, b=b: a @ b)
            seconds = min(_seconds(product, device) for product in layouts)
        except torch.OutOfMemoryError:
            return best or None
        except NotImplementedError:
            return None
        best = max(best, 2.0 * n**3 / seconds)
        if seconds >= ENOUGH_S or 2 * n > largest:
            return best
        n *= 2


def measure(
    device: DeviceLike = None, *, keep: bool = True, copy_bytes: int | None = None, largest: int = LARGEST
) -> Roof:
    """Measure a device, which should have nothing else to do: some seconds.

    Parameters
    ----------
    device : torch.device, str or int, optional
        Default: the current device.
    keep : bool, default True
        Write it where :func:`load` finds it, in the cache folder (``TORCH_AULE_CACHE_DIR``).
    copy_bytes : int, optional
        What is copied; default 1 GiB, 64 MiB on a software device. At most an eighth of the free memory.
    largest : int, default 8192
        Rows of the largest product. They double from 256 on, until one takes 50 ms.

    Returns
    -------
    Roof
        The best of some samples each.

    Raises
    ------
    RuntimeError
        If the device does not exist.
    """
    index = checked_index(device)
    where = torch.device("aule", index)
    software = torch.aule.get_device_properties(index).kind == "cpu"
    with torch.aule.device(index), torch.no_grad(), strict():  # never the CPU's numbers
        bandwidth = _bandwidth(where, copy_bytes or COPY_BYTES[software])
        found = {name: _rate(where, getattr(torch, name), largest) for name in DTYPES}
    rates = {name: rate for name, rate in found.items() if rate is not None}
    roof = Roof(*_names(index), bandwidth=bandwidth, rates=rates, seconds=time.time())
    path = _file(index) if keep else None
    if path is not None:
        _keep(roof, path)
    return roof
