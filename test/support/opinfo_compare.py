"""Are two results of an operator the same? The operator database's own tolerances, and float64 where they are exceeded.

A result that differs from the CPU's by more than the database allows is computed a third time, in float64. It is right
if it lies within the tolerance of that, or if the CPU's own result is the less exact one. It is called rounded, not
wrong, if its error is at most four roundings of the largest value or eight times the CPU's own: sums in another order.
Both errors are kept in these cases.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch.testing._comparison import default_tolerances
from torch.utils._pytree import tree_flatten

WIDE = {
    torch.float16: torch.float64, torch.bfloat16: torch.float64, torch.float32: torch.float64,
    torch.complex32: torch.complex128, torch.complex64: torch.complex128,
}  # fmt: skip


@dataclass
class Comparison:
    """What a comparison found: `message` is empty when the results agree."""

    message: str = ""
    # (ours, the CPU's, rule): largest errors against float64 of results that only float64 could settle
    settled: list[tuple[float, float, str]] = field(default_factory=list)


def tolerances(op, dtype: torch.dtype) -> dict[torch.dtype, tuple[float, float]]:
    """(rtol, atol) by dtype of the result: torch.testing's, widened by what the database says for this operator."""

    def test():
        pass

    for decorate in op.get_decorators("TestCommon", "test_compare_cpu", "cuda", dtype, {}):
        decorate(test)
    relative = {d: t.rtol for d, t in (getattr(test, "tolerance_overrides", None) or {}).items()}
    absolute = {d: t.atol for d, t in (getattr(test, "tolerance_overrides", None) or {}).items()}
    absolute |= getattr(test, "precision_overrides", None) or {}
    table = {}
    for result in (*WIDE, torch.float64, torch.complex128):
        rtol, atol = default_tolerances(result)
        table[result] = (max(rtol, relative.get(dtype, 0.0)), max(atol, absolute.get(dtype, 0.0)))
    return table


def widen(value):
    """Floating-point tensors, dtypes and default dtypes of a call as float64 or complex128."""
    if isinstance(value, torch.Tensor) and value.dtype in WIDE:
        with torch.no_grad():
            wide = value.detach().to(WIDE[value.dtype], copy=True)
        return wide.requires_grad_(value.requires_grad)
    if isinstance(value, torch.dtype):
        return WIDE.get(value, value)
    return value


def compare(actual, expected, values: bool, table, reference=None, statistics=False) -> Comparison:
    """Compares nested results; `reference` computes the same in float64, and is only called where it must settle.

    With `statistics` a float32 result may stand for a 16-bit one: means and variances, kept so by torch.cuda too.
    """
    a_leaves, e_leaves = tree_flatten(actual)[0], tree_flatten(expected)[0]
    if len(a_leaves) != len(e_leaves):
        return Comparison(f"{len(a_leaves)} results instead of {len(e_leaves)}")
    found, wide = Comparison(), None
    for i, (a, e) in enumerate(zip(a_leaves, e_leaves)):
        if not isinstance(e, torch.Tensor):
            message = _compare_scalars(a, e, values)
        else:
            if statistics and isinstance(a, torch.Tensor) and a.dtype == torch.float32 and e.element_size() == 2:
                a = a.to(e.dtype)
            message = _compare_kinds(a, e)
            if not message and values and a.layout == torch.strided:
                a, e = a.detach().cpu().resolve_conj().resolve_neg(), e.detach().resolve_conj().resolve_neg()
                message = _differences(a, e, table)
                if message and e.dtype in WIDE and reference is not None:
                    if wide is None:
                        wide = _in_float64(reference)
                    verdict = _settle(a, e, wide[i], table) if len(wide) == len(e_leaves) else None
                    if verdict is not None:
                        found.settled.append(verdict)
                        message = ""
        if message:
            found.message = message
            return found
    return found


def _in_float64(reference) -> list:
    """Leaves of what `reference` computes, integers in float64 too; empty where it cannot."""
    torch.set_default_dtype(torch.float64)
    try:
        return tree_flatten(reference())[0]
    except Exception:
        return []
    finally:
        torch.set_default_dtype(torch.float32)


def _compare_scalars(a, e, values) -> str:
    if isinstance(e, (bool, int, str, torch.Size, torch.dtype)) and a != e:
        return f"{a} instead of {e}"
    if isinstance(e, float) and values:
        if not torch.allclose(torch.tensor(a), torch.tensor(e), rtol=1e-4, atol=1e-5, equal_nan=True):
            return f"{a} instead of {e}"
    return ""


def _compare_kinds(a, e) -> str:
    if not isinstance(a, torch.Tensor):
        return f"{type(a).__name__} instead of a tensor"
    if a.dtype != e.dtype:
        return f"dtype {a.dtype} instead of {e.dtype}"
    if a.shape != e.shape:
        return f"shape {tuple(a.shape)} instead of {tuple(e.shape)}"
    if a.numel() and a.device.type == "cpu" and e.device.type != "cpu":
        return "result left on the CPU"
    return ""


def _comparable(t):
    """A dtype that has comparisons: float8 and complex32 have none on the CPU, nor have the wide unsigned integers."""
    if t.dtype == torch.complex32:
        return t.to(torch.complex64)
    if t.dtype in (torch.uint16, torch.uint32, torch.uint64):
        return t.view({2: torch.int16, 4: torch.int32, 8: torch.int64}[t.element_size()])
    return t.float() if t.dtype.is_floating_point and t.element_size() == 1 else t


def _differences(a: torch.Tensor, e: torch.Tensor, table) -> str:
    rtol, atol = table.get(e.dtype, (0.0, 0.0))
    a, e = _comparable(a), _comparable(e)
    if not (e.dtype.is_floating_point or e.dtype.is_complex):
        different = (a != e).sum().item()
        if not different:
            return ""
        at = int((a != e).flatten().to(torch.uint8).argmax())
        first = f"{a.flatten()[at].item()} instead of {e.flatten()[at].item()}"
        return f"{different} of {e.numel()} values differ, first {first}"
    close = torch.isclose(a, e, rtol=rtol, atol=atol, equal_nan=True)
    if close.all():
        return ""
    difference = torch.nan_to_num((a - e).abs().double(), nan=1e300)
    at = int(torch.where(close, torch.zeros((), dtype=torch.float64), difference).argmax())
    return (
        f"{(~close).sum().item()} of {e.numel()} values differ, worst at {at}: "
        f"{a.flatten()[at].item()} instead of {e.flatten()[at].item()}"
    )


def _settle(a, e, r, table):
    """(our error, the CPU's, what makes it right) or None where it is wrong."""
    if not isinstance(r, torch.Tensor) or r.shape != e.shape or r.dtype not in WIDE.values():
        return None
    rtol, atol = table[e.dtype]
    r = r.detach().resolve_conj().resolve_neg()
    dtype, largest = e.dtype, torch.finfo(e.dtype).max
    a, e = _comparable(a).to(r.dtype), _comparable(e).to(r.dtype)

    def errors(x):
        same = (x == r) | (x.isnan() & r.isnan())
        # A finite float64 value past the narrow type's range is its infinity.
        if not x.dtype.is_complex:
            same |= x.isinf() & (r.abs() > largest)
        error = torch.nan_to_num((x - r).abs(), nan=float("inf"))
        return torch.where(same, torch.zeros((), dtype=error.dtype), error)

    ours, cpus = errors(a), errors(e)
    allowed = torch.maximum(atol + rtol * torch.nan_to_num(r.abs()), cpus)
    found = (ours.max().item(), cpus.max().item())
    if bool((ours <= allowed).all()) or found[0] <= found[1] < float("inf"):
        return (*found, "nearer")
    finite = r[torch.isfinite(r)].abs()
    scale = finite.max().item() if finite.numel() else 0.0
    if found[0] <= max(4 * torch.finfo(dtype).eps * scale, 8 * found[1]) < float("inf"):
        return (*found, "rounded")
    return None
