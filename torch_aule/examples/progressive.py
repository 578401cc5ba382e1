"""One model, faster in five levels, each validated against the first.

    python -m torch_aule.examples.progressive [--quick]

L1 eager, with attention written out; L2 Inductor; L3 attention by SDPA, FlexAttention, and over packed sequences; L4
recorded graphs, 8-bit weights, tuned tiles; L5 DistributedDataParallel, a process for each device.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Callable

from torch_aule.examples import _common as common  # isort: skip  (strict mode, before the backend loads)

import torch
import torch.nn as nn

from torch_aule import _C, tune, validate
from torch_aule.examples import _levels as levels
from torch_aule.glsl.compiler import CompilerMissing, find_compiler
from torch_aule.measure.numbers import table, time_text, writer
from torch_aule.measure.runs import Run, compared, median_seconds, modes_of, ran

FLOAT8_TOLERANCE = 0.15  # 4 significant bits in each factor, over a few layers


@dataclasses.dataclass(frozen=True)
class Row:
    """A level of the table.

    Parameters
    ----------
    level, what : str
        "L1" to "L5", and what it consists of.
    comparison : torch_aule.validate.Comparison or None
        With L1, L1's with the CPU in float64. None if the level did not run.
    note : str
        Why not, or what there is to say.
    """

    level: str
    what: str
    comparison: validate.Comparison | None
    note: str = ""

    def cells(self) -> list[str]:
        """Name, time, speed, error, verdict."""
        c = self.comparison
        if c is None:
            return [f"{self.level} {self.what}", "-", "-", "-", "not run"]
        speed = "1.00 x" if self.level == "L1" else f"{c.reference_seconds / c.seconds:.2f} x"
        verdict = "passed" if c.passed else "FAILED"
        return [f"{self.level} {self.what}", time_text(c.seconds), speed, f"{c.max_error:.1e}", verdict]


def _tuning(dim: int) -> str:
    if not tune.serves("forward", dim):
        return "autotune: no matrix units of this device serve attention, so there are no tiles to choose"
    measured = os.path.exists(_C.tuning_file(torch.aule.current_device()))
    which = "measured on this device" if measured else "the shipped ones; `python -m torch_aule.tune` measures others"
    return f"autotune: attention's tiles are {which}"


def _of_one_device(model: nn.Module, x: torch.Tensor, runs: int) -> Run:
    """The training step that L5 divides."""
    seconds = median_seconds(lambda: levels.step(model, x), x.device, runs)
    gradients = {f"gradient of {name}": p.grad.cpu() for name, p in model.named_parameters()}
    model.zero_grad()
    return Run({}, gradients, {x.dtype}, seconds, None)


def run_progressive_optimization_demo(
    quick: bool = False, device: str = "aule", write: Callable[[str], object] | None = None
) -> list[Row]:
    """Run the levels and print their table.

    Parameters
    ----------
    quick : bool, default False
        A small model, few calls, and without gradients from L2 to L4. Otherwise a larger one, on a GPU.
    device : str, default "aule"
        Where L1 to L4 run; L5 takes all devices.
    write : callable, optional
        Prints a line. Default: rich's console if it is installed, else print.

    Returns
    -------
    list of Row
        Every level; `comparison.passed` says whether it agrees with L1.
    """
    write, where = write or writer(), torch.device(device)
    size = torch.aule.device_count()
    software = torch.aule.get_device_properties(where).kind == "cpu"
    large = (128, 4, 2, 64, 3) if software else (512, 8, 4, 1024, 20)
    width, heads, depth, rows, runs = (64, 2, 1, 48, 2) if quick else large
    batch = -(-4 // size) * size
    model = levels.network(width, heads, depth).to(where)
    x = torch.randn(batch, rows, width, device=where)
    fused = levels.with_attention(model, levels.sdpa)
    rounded = {torch.float32: FLOAT8_TOLERANCE}
    try:
        missing, compiler = "", find_compiler()
    except CompilerMissing as error:
        missing, compiler = str(error), None

    with modes_of(False, model):
        forward = {grad: ran(model, (x,), grad, runs) for grad in {not quick, False}}
    first = dataclasses.replace(validate.compare(model, x, runs=1), seconds=forward[not quick].seconds)
    found = [Row("L1", "eager", first)]

    def add(level: str, what: str, make: Callable[[], nn.Module], compiled=False, grad=not quick, limits=None, note=""):
        if compiled and compiler is None:
            found.append(Row(level, what, None, missing))
            return
        built = make()
        with modes_of(False, built):
            run = ran(built, (x,), grad, runs)
        found.append(Row(level, what, compared(what, "L1", run, forward[grad], None, limits), note))

    add("L2", "Inductor", lambda: validate.at_level(model, "compiled"), compiled=True)
    add("L3", "SDPA", lambda: fused)
    add("L3", "FlexAttention", lambda: levels.with_attention(model, levels.flex), compiled=True)
    add("L3", "packed sequences", lambda: levels.with_attention(model, levels.varlen))
    add("L4", "SDPA, graphs", lambda: validate.at_level(fused, "graphs"), True, False, note=_tuning(width // heads))
    add("L4", "SDPA, float8 weights", lambda: levels.with_float8_weights(fused), grad=False, limits=rounded,
        note="float8 weights are for inference")
    gradients, seconds = levels.data_parallel(fused, x, size, runs)
    parts = compared(
        "DDP", "L1", Run({}, gradients, {x.dtype}, seconds, None), _of_one_device(model, x, runs), None, None
    )
    processes = "one device, so one process" if size == 1 else f"{size} devices, a process for each"
    found.append(Row("L5", "SDPA, DDP", parts, f"{processes}; times are of a training step"))
    for line in table(["level", "time", "speed", "from L1", ""], [row.cells() for row in found], ""):
        write(line)
    for row in found:
        if row.note:
            write(f"{row.level} {row.what}: {row.note}")
    return found


def main(arguments=None) -> int:
    parser = common.parser(__doc__)
    parser.add_argument("--quick", action="store_true", help="a small model, and few calls")
    options = parser.parse_args(arguments)
    device = common.begin(options.device)
    if device.type == "cpu":
        parser.error("--device cpu: the levels are those of an aule device")
    torch.manual_seed(0)
    found = run_progressive_optimization_demo(options.quick, options.device)
    failed = [row for row in found if row.comparison is not None and not row.comparison.passed]
    for row in failed:
        print(row.comparison)
    print("from L1: the largest relative difference; L1's is from the CPU in float64, with gradients")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
