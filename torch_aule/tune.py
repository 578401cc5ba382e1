"""Measures shapes of attention on cooperative matrices for this device: ``python -m torch_aule.tune``.

The shipped shapes were chosen on one GPU. This tries others, passes over those that give wrong numbers, fail to build
or spill more registers to memory than the shipped shape, and keeps the fastest per pass and head size in a file that
the planner reads from then on (``--reset`` removes it).
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import torch

import torch_aule
from torch_aule.attention import active_attention_variants
from torch_aule.backend.cache_folder import make_private
from torch_aule.backend.overrides import override

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["main", "override", "tune"]

#: (name in the file, override of a trial, backward, causal)
PASSES = (
    ("forward", "attention_shape", False, False),
    ("forward_banded", "attention_shape", False, True),
    ("dq", "attention_shape_dq", True, True),
    ("dkdv", "attention_shape_dkdv", True, True),
)
DIMS = (32, 64, 96, 128, 256)
TOLERANCE = 1e-2


def candidates(backward: bool, dim: int) -> list[tuple[int, ...]]:
    """Shapes that fit the registers.

    Each is (subgroups, row blocks of each, tile, column blocks in flight, stages, operands straight from memory, motion
    barriers that keep the compiler from holding more blocks in registers).
    """
    role_split = 2 if backward and dim > 128 else 1  # subgroups that share the rows of wide heads
    found: list[tuple[int, ...]] = []
    for subgroups, rows, tile, step, stages, from_global, motion_barriers in itertools.product(
        (4, 8), (1, 2), (16, 32, 64), (1, 2, 4), (1, 2), (0, 1), (0, 1, 2)
    ):
        if step * 16 > tile or (backward and role_split == 1 and step > 1):
            continue
        if motion_barriers and (backward or rows * dim < 128):  # few accumulators: nothing to keep back
            continue
        if rows * dim // role_split > (256 if not backward else 128):  # accumulators and operands stay in registers
            continue
        found.append((subgroups, rows, tile, step, stages, from_global, motion_barriers))
    return found


def serves(name: str, dim: int) -> bool:
    """Whether the planner takes the shape on trial, for which the device must have the shared memory."""
    with override(attention_variant="coopmat"):
        return active_attention_variants(dim)[name.removesuffix("_banded")] == "coopmat"


class SpilledMemory:
    """The bytes that kernels compiled inside the block keep in memory because registers do not suffice.

    ``most`` is that of the worst kernel, in the driver's unit (VK_KHR_pipeline_executable_properties); 0 where the
    driver does not tell, and for kernels that were compiled before.
    """

    most = 0

    def __enter__(self) -> SpilledMemory:
        torch_aule._C.keep_pipeline_statistics(True)
        return self

    def __exit__(self, *_) -> None:
        kernels = torch_aule._C.keep_pipeline_statistics(False)
        self.most = max((spilled(values) for _, values in kernels), default=0)


def spilled(values: list[tuple[str, int]]) -> int:
    """Of one kernel. Scalar registers do not count: they go to lanes of vector registers."""
    names = ("spilled vgprs", "spill count", "local memory size")  # as AMD's, Intel's and NVIDIA's drivers call it
    return max((value for name, value in values if name.lower() in names), default=0)


class Problem:
    """One attention call, forward or backward."""

    def __init__(self, backward: bool, causal: bool, heads: int, length: int, dim: int):
        self.backward, self.causal = backward, causal
        shape = (1, heads, length, dim)
        self.q, self.k, self.v, self.grad = (torch.randn(shape, device="aule", dtype=torch.float16) for _ in range(4))
        self.saved = torch.ops.aule.flash_attn_fwd(self.q, self.k, self.v, is_causal=causal)

    def __call__(self) -> list[torch.Tensor]:
        if not self.backward:
            return [torch.ops.aule.flash_attn_fwd(self.q, self.k, self.v, is_causal=self.causal)[0]]
        args = (self.grad, self.q, self.k, self.v, *self.saved)
        return list(torch.ops.aule.flash_attn_bwd(*args, is_causal=self.causal)[:3])

    def reference(self) -> list[torch.Tensor]:
        """In float64 on the CPU."""
        q, k, v = (t.cpu().double().requires_grad_() for t in (self.q, self.k, self.v))
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        if not self.backward:
            return [out.detach()]
        return list(torch.autograd.grad(out, (q, k, v), self.grad.cpu().double()))

    def milliseconds(self, calls: int = 3, samples: int = 3) -> float:
        self()
        times = []
        for _ in range(samples):
            start, end = (torch.Event("aule", enable_timing=True) for _ in range(2))
            start.record()
            for _ in range(calls):
                self()
            end.record()
            torch.aule.synchronize()
            times.append(start.elapsed_time(end) / calls)
        return statistics.median(times)


def right(actual: list[torch.Tensor], expected: list[torch.Tensor]) -> bool:
    """Whether all results are within the tolerance of 16-bit attention."""
    return all(
        bool((a.cpu().double() - e).abs().max() / max(1.0, float(e.abs().max())) < TOLERANCE)
        for a, e in zip(actual, expected, strict=True)
    )


def tune(
    dims=DIMS, length: int = 4096, elements: int = 1 << 24, shapes=None, console: Console | None = None
) -> list[str]:
    """Lines for the planner's file: the fastest sound shape of each pass and head size.

    Parameters
    ----------
    dims : sequence of int
        Head sizes; a size is served by the next larger row.
    length : int
        Queries and keys of the timed problem.
    elements : int
        heads * length * head size of it.
    shapes : list of tuple, optional
        Candidates, instead of all that fit.
    console : rich.console.Console, optional
        For progress and the table.

    Returns
    -------
    list of str
        Only those that are faster than the shipped shape.

    Raises
    ------
    RuntimeError
        Where no matrix-unit kernel serves the device.
    """
    try:
        from rich.console import Console
        from rich.progress import track
    except ImportError as error:
        raise ImportError("torch_aule.tune shows its progress with rich: pip install rich") from error

    console = console or Console(stderr=True)
    if not torch_aule._C.matrix_layout(torch.aule.current_device(), False)["known"]:
        raise RuntimeError("this device has no cooperative matrices whose layout is known: there is nothing to tune")
    lines = []
    for (name, variable, backward, causal), dim in itertools.product(PASSES, dims):
        with SpilledMemory() as shipped:
            checks = [Problem(backward, causal, 2, n, dim) for n in (200, 256)]  # ragged and whole blocks of rows
            expected = [check.reference() for check in checks]

            def sound(checks=checks, expected=expected) -> bool:
                return all(right(check(), e) for check, e in zip(checks, expected, strict=True))

            timed = Problem(backward, causal, max(1, elements // length // dim), length, dim)
            with override(**{variable: None}):
                default = timed.milliseconds()
                is_sound = sound()
        best, best_ms = None, default
        if not is_sound:
            warnings.warn(f"{name} D {dim}: the shipped shape gives wrong numbers on this device", stacklevel=2)
            best_ms = float("inf")
        trials = shapes or candidates(backward, dim)
        for shape in track(trials, f"{name} D {dim}", console=console, transient=True):
            with override(**{variable: shape}):
                if not serves(name, dim):
                    continue
                try:
                    with SpilledMemory() as candidate:
                        is_sound = sound()
                    if not is_sound:
                        warnings.warn(f"{name} D {dim}: shape {shape} gives wrong numbers on this device", stacklevel=2)
                        continue
                    if candidate.most > shipped.most:
                        console.print(f"{name} D {dim}: {shape} passed over: spills {candidate.most}")
                        continue
                    ms = timed.milliseconds()
                except RuntimeError as error:
                    console.print(f"{name} D {dim}: {shape} passed over: {str(error).splitlines()[0]}")
                    continue
            if ms < 0.98 * best_ms:  # within the noise the shipped shape stays
                best, best_ms = shape, ms
        chosen = "as shipped" if best is None else str(best)
        console.print(f"{name:15s} D {dim:3d}  {default:8.3f} ms -> {best_ms:8.3f} ms  {chosen}")
        if best is not None:
            lines.append(" ".join(map(str, (name, dim, *best))))
    return lines


def main(arguments: list[str] | None = None) -> int:
    """The command line.

    Parameters
    ----------
    arguments : list of str, optional
        Default: those of this process.

    Returns
    -------
    int
        The exit status: 0, or 1 if there is nothing to tune or no folder to keep a result in.
    """
    parser = argparse.ArgumentParser(prog="python -m torch_aule.tune", description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--reset", action="store_true", help="remove what was measured and go back to the shipped shapes"
    )
    parser.add_argument("--dry-run", action="store_true", help="print the lines and keep nothing")
    options = parser.parse_args(arguments)
    name = torch_aule._C.tuning_file(torch.aule.current_device())
    if not name:
        print("there is no cache folder to keep a result in: set TORCH_AULE_CACHE_DIR", file=sys.stderr)
        return 1
    path = Path(name)
    if options.reset:
        path.unlink(missing_ok=True)
        return 0
    try:
        lines = tune()
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 1
    header = (
        "# pass, head size up to, subgroups, row blocks, tile, column blocks in flight, stages, straight from memory,"
        " motion barriers"
    )
    text = "".join(line + "\n" for line in (header, *lines))
    if options.dry_run:
        print(text, end="")
        return 0
    make_private(path.parent)
    temporary = path.with_suffix(f".{os.getpid()}")
    temporary.write_text(text)
    temporary.replace(path)
    print(f"kept in {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
