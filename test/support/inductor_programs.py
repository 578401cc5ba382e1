"""Small programs through torch.compile on the device: compiled against float64, and against eager mode's layouts.

    PYTHONPATH=. python test/support/inductor_programs.py --jobs 2 [--only TEXT] [--modes static gpu dynamic grad]
        [--save FILE.md]

The programs are rows of the tables in test/support/compiled/. A row runs eagerly on the CPU in its own dtype (dtypes of
results, what becomes of inputs) and in float64 (values), eagerly on the device (strides), and compiled with
fullgraph=True: `static`; `gpu`, with the forms of kernels that GPUs get, on a software device; `dynamic`; and `grad`,
for gradients.
Exit status 1 if a row fails.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import contextlib
import multiprocessing
import os
import sys
import zlib

os.environ.setdefault("TORCH_AULE_STRICT", "1")
os.environ.setdefault("TORCHINDUCTOR_FORCE_DISABLE_CACHES", "1")

import torch  # noqa: E402
from torch.utils._pytree import tree_leaves, tree_map_only  # noqa: E402

from compiled import all_rows  # noqa: E402
from helpers import like_strided  # noqa: E402

MODES = ("static", "gpu", "dynamic", "grad")
TOLERANCES = {torch.float64: 1e-9, torch.float32: 3e-5, torch.float16: 3e-3, torch.bfloat16: 2e-2}


class Refused(Exception):
    """Eager mode has no kernel either."""


def modes_of(row) -> list[str]:
    """The modes in which a row runs."""
    modes = ["dynamic"] if row.sizes else ["static", "gpu"]
    if row.dynamic and not row.sizes:
        modes.append("dynamic")
    return modes + ["grad"] * row.grad


@contextlib.contextmanager
def gpu_forms():
    """The forms of kernels that GPUs get, whatever the device is."""
    from torch_aule.compile.codegen import facts

    with facts.override(software=False):
        yield


def check(row, mode: str) -> None:
    """Run a row. AssertionError if a result is wrong, Refused if eager mode refuses the row on the device."""
    torch._dynamo.reset()
    with gpu_forms() if mode == "gpu" else contextlib.nullcontext():
        compiled = torch.compile(row.function, fullgraph=True, dynamic=mode == "dynamic" or bool(row.sizes))
        for size in row.sizes or (None,):
            makers = row.inputs[0](size) if row.sizes else row.inputs
            inputs = [maker() if callable(maker) else maker for maker in makers]
            _compare(row, compiled, inputs, mode == "grad")


def _compare(row, compiled, inputs, grad: bool) -> None:
    def copies(convert):
        made = tree_map_only(torch.Tensor, convert, inputs)
        return [t.requires_grad_() if grad and _is_real(t) else t for t in made]

    def wider(t):
        return t.clone() if row.exact or not t.is_floating_point() else like_strided(t, "cpu").double()

    own, wide = copies(lambda t: like_strided(t, "cpu")), copies(wider)
    weights: list[torch.Tensor] = []
    expected, reference = _run(row.function, own, grad, weights), _run(row.function, wide, grad, weights)
    device = copies(like_strided)
    try:
        eager = _run(row.function, device, grad, weights)
        torch.aule.synchronize()
    except Exception as error:
        raise Refused(f"{type(error).__name__}: {' '.join(str(error).split())[:160]}") from error
    given = copies(like_strided)
    actual = _run(compiled, given, grad, weights)
    torch.aule.synchronize()
    layout = row.layout and not grad  # of gradients, eager mode promises none
    _check_results(row, "result", actual, expected, reference, eager, layout)
    if not grad:
        pairs = [x for x in zip(given, own, wide, device, strict=True) if isinstance(x[0], torch.Tensor)]
        _check_results(row, "input", *zip(*pairs, strict=True), layout)


def _is_real(x) -> bool:
    return isinstance(x, torch.Tensor) and x.dtype in TOLERANCES


def _run(function, inputs, grad: bool, weights: list) -> list[torch.Tensor]:
    """Results, and gradients of their weighted sum if asked for."""
    results = [x for x in tree_leaves(function(*inputs)) if x is not None]
    if not grad:
        return results
    used = [x for x in results if isinstance(x, torch.Tensor) and x.requires_grad]
    if not weights:
        weights += [torch.randn(x.shape) for x in used]
    with_grad = [x for x in inputs if _is_real(x)]
    seeds = [w.to(x.device, x.dtype) for w, x in zip(weights, used, strict=True)]
    gradients = torch.autograd.grad(used, with_grad, seeds, allow_unused=True)
    zeros = (torch.zeros_like(x) if g is None else g for g, x in zip(gradients, with_grad, strict=True))
    return [x.detach() if isinstance(x, torch.Tensor) else x for x in results] + list(zeros)


def _check_results(row, what: str, actual, expected, reference, eager, layout: bool) -> None:
    assert len(actual) == len(expected), f"{len(actual)} results, expected {len(expected)}"
    for number, (a, e, w, g) in enumerate(zip(actual, expected, reference, eager, strict=True)):
        where = f"{what} {number}"
        if not isinstance(e, torch.Tensor):
            assert a == e, f"{where}: {a}, expected {e}"
            continue
        assert a.device.type == g.device.type, f"{where}: on {a.device}, eager on {g.device}"
        assert a.dtype == e.dtype, f"{where}: {a.dtype}, expected {e.dtype}"
        assert a.shape == e.shape, f"{where}: shape {tuple(a.shape)}, expected {tuple(e.shape)}"
        if layout and e.numel():  # Inductor asks the shape functions of PyTorch, which are those of the CPU
            strides = (g.stride(), e.stride())
            assert a.stride() in strides, f"{where}: strides {a.stride()}, eager {strides[0]}, CPU {strides[1]}"
        _check_values(where, a.detach().cpu(), w.detach().cpu(), g.detach().cpu(), row.tolerance)


def _check_values(where: str, a, w, g, given: float | None) -> None:
    if not (a.is_floating_point() or a.is_complex()):
        assert torch.equal(a, w.to(a.dtype)), f"{where}: {(a != w).sum()} of {a.numel()} differ, eager {(g != w).sum()}"
        return
    tolerance = max(TOLERANCES.get(a.dtype, 1e-4), (given or 0) if a.dtype != torch.float64 else 1e-6)
    kind = torch.complex128 if a.is_complex() else torch.float64
    a, w, g = a.to(kind), w.to(a.dtype).to(kind), g.to(kind)
    mine, its = (torch.isclose(x, w, rtol=tolerance, atol=tolerance, equal_nan=True) for x in (a, g))
    if not mine.all():
        at = (~mine).nonzero()[0].tolist()
        pick = tuple(at)
        raise AssertionError(
            f"{where}: {(~mine).sum()} of {mine.numel()} differ, eager {(~its).sum()}; at {at} "
            f"{a[pick].item():.9g}, expected {w[pick].item():.9g}, eager {g[pick].item():.9g}"
        )


def outcome(row, mode: str) -> tuple[str, str]:
    """`same`, `refused`, `differs` or `fails`, and why."""
    torch.manual_seed(zlib.crc32(row.name.encode()))
    try:
        check(row, mode)
    except Refused as refused:
        return "refused", str(refused)
    except AssertionError as error:
        return "differs", " ".join(str(error).split())[:400]
    except Exception as error:
        return "fails", f"{type(error).__name__}: {' '.join(str(error).split())[:900]}"
    return "same", ""


def _job(names_modes: list[tuple[str, str]]) -> list[tuple]:
    import torch_aule  # noqa: F401

    rows = {row.name: row for row in all_rows()}
    done = []
    for name, mode in names_modes:
        done.append((name, mode, *outcome(rows[name], mode)))
        if done[-1][2] != "same":
            print(*done[-1], sep=" | ", flush=True)
    return done


def main() -> int:
    """Run rows in processes and print what became of them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only", default="", help="a part of the names")
    parser.add_argument("--modes", nargs="*", default=MODES, choices=MODES)
    parser.add_argument("--save", help="a Markdown table of the counts and causes")
    options = parser.parse_args()
    jobs = [(r.name, m) for r in all_rows() if options.only in r.name for m in modes_of(r) if m in options.modes]
    done, size = [], 30
    parts = [jobs[k : k + size] for k in range(0, len(jobs), size)]
    context = multiprocessing.get_context("spawn")
    for first in range(0, len(parts), 3 * options.jobs):  # fresh processes now and then: Dynamo keeps what it has seen
        with concurrent.futures.ProcessPoolExecutor(options.jobs, mp_context=context) as pool:
            for part in pool.map(_job, parts[first : first + 3 * options.jobs]):
                done += part
    counts = collections.Counter((mode, state) for _, mode, state, _ in done)
    print(f"{len(done)} runs:", ", ".join(f"{m} {s} {n}" for (m, s), n in sorted(counts.items())))
    if options.save:
        with open(options.save, "w") as file:
            states = ("same", "refused", "differs", "fails")
            file.write("| mode | " + " | ".join(states) + " |\n|---|" + "---:|" * len(states) + "\n")
            for mode in options.modes:
                file.write(f"| {mode} | " + " | ".join(str(counts[mode, s]) for s in states) + " |\n")
            file.write("\n| program | mode | state | why |\n|---|---|---|---|\n")
            for name, mode, state, why in done:
                if state != "same":
                    file.write(f"| {name} | {mode} | {state} | {why.replace('|', '/')} |\n")
    return int(any(state in ("differs", "fails") for _, _, state, _ in done))


if __name__ == "__main__":
    sys.exit(main())
