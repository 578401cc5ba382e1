"""For tests of kernels: a comparison that says where tensors differ, and the device to test on."""

from __future__ import annotations

import torch

__all__ = ["assert_verbose_allclose", "infer_device", "supports_bfloat16"]


def infer_device() -> str:
    """The device that tests of this machine run on.

    Returns
    -------
    str
        ``"aule"`` where there is a Vulkan device, else ``"cpu"``.
    """
    return "aule" if torch.aule.is_available() else "cpu"


def supports_bfloat16() -> bool:
    """Whether the device that tests run on adds numbers of bfloat16.

    Returns
    -------
    bool
        False where that raises or comes out wrong.
    """
    try:
        one = torch.ones(1, dtype=torch.bfloat16, device=infer_device())
        return bool((one + one).item() == 2)
    except (RuntimeError, NotImplementedError):
        return False


def assert_verbose_allclose(
    a: torch.Tensor,
    b: torch.Tensor,
    rtol: float = 1e-5,
    atol: float = 1e-8,
    max_print: int = 5,
    extra_info: str = "",
) -> None:
    """Fail unless ``|a - b| <= atol + rtol * |b|`` everywhere, and say where not.

    NaN must meet NaN, and an infinity the same one.

    Parameters
    ----------
    a, b : torch.Tensor
        Of one shape, on any devices: what was computed, and what was expected.
    rtol, atol : float
        Relative and absolute tolerance.
    max_print : int, default 5
        Differences that are listed, with index and both values.
    extra_info : str
        Begins the message.

    Raises
    ------
    AssertionError
        With the number of differences, the largest, and the first ones.
    """
    if a.shape != b.shape:
        raise AssertionError(f"{extra_info}shapes differ: {list(a.shape)} and {list(b.shape)}")
    wide = torch.complex128 if a.is_complex() or b.is_complex() else torch.float64
    a, b = (t.detach().cpu().to(wide) for t in (a, b))
    bad = ~torch.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True)
    count = int(bad.sum())
    if not count:
        return
    distance = (a - b).abs()[bad]
    finite = distance[distance.isfinite()]
    largest = f", the largest by {finite.max().item():.6g}" if finite.numel() else ""
    places = bad.nonzero()[:max_print].tolist()
    rows = [f"  at {tuple(place)}: {a[tuple(place)].item()!r} and {b[tuple(place)].item()!r}" for place in places]
    rest = [f"  and {count - len(rows)} more"] if count > len(rows) else []
    head = f"{extra_info}{count} of {a.numel()} elements differ by more than {atol:g} + {rtol:g} * |b|{largest}:"
    raise AssertionError("\n".join([head, *rows, *rest]))
