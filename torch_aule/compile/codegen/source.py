"""GLSL of a generated kernel: its statements (statements.py) written by the first form (forms/) that fits it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch._inductor.virtualized import V

from torch_aule.compile import config
from torch_aule.compile.codegen import facts
from torch_aule.compile.codegen.facts import DeviceFacts, KernelFacts
from torch_aule.compile.codegen.forms.columns import Columns
from torch_aule.compile.codegen.forms.form import Form
from torch_aule.compile.codegen.forms.lanes import LaneBlocks, LaneColumns, LanesOfRow
from torch_aule.compile.codegen.forms.odd_rows import OddRows
from torch_aule.compile.codegen.forms.rows import Rows
from torch_aule.compile.codegen.forms.tile import Tile
from torch_aule.compile.codegen.forms.vectors import Vectors
from torch_aule.compile.codegen.signature import head_of, params_of, sizes_of
from torch_aule.compile.codegen.writer import Writer

__all__ = ["FORMS", "INCLUDES", "Definition", "define", "form_of", "is_persistent", "is_read_once"]

# In the order in which they are tried: `Vectors` takes every pointwise kernel that is left, `Rows` every reduction.
FORMS: tuple[type[Form], ...] = (Tile, LaneBlocks, OddRows, Vectors, LaneColumns, LanesOfRow, Columns, Rows)


@dataclass(frozen=True)
class Definition:
    """A kernel as the wrapper needs it.

    Attributes
    ----------
    text : str
        GLSL, without the kernel's name.
    signature : str
        A letter for each argument (torch_aule.shader.generated).
    arguments : tuple of str
        Python expressions in the order of Params, then the number of workgroups.
    head, params, body : tuple of str
        Lines of the text: those before Params, its members, those of main().
    form : Form or None
        What wrote the lines; None for several kernels in one.
    """

    text: str
    signature: str
    arguments: tuple[str, ...]
    head: tuple[str, ...] = ()
    params: tuple[str, ...] = ()
    body: tuple[str, ...] = ()
    form: Form | None = None


INCLUDES = ('#include "common/params.glsl"', '#include "inductor/prelude.glsl"')


def is_persistent(kernel: Any) -> bool:
    """True if an invocation keeps its share of a row in registers, so that a row is read once.

    Asked before the kernel's body is known; `define` then finds how many vectors that takes.
    """
    from torch._inductor.ir import ReductionHint

    if not kernel.features.is_reduction() or not config.persistent_reductions:
        return False
    n = kernel.features.reduction_numel
    if facts.is_software(V.graph.get_current_device_or_throw()) or not facts.is_whole(n):
        return False
    outer = kernel.features.get_reduction_hint() == ReductionHint.OUTER
    return int(n) <= _most_elements(outer)


def _most_elements(outer: bool) -> int:
    """The longest row that stays in registers."""
    return 64 if outer else 8192


def is_read_once(x: torch.Tensor, dim: int) -> bool:
    """True if a reduction over `dim` of a tensor of a graph keeps its rows in registers, or should read them again."""
    if facts.is_software(x.device) or x.dim() == 0:  # memory costs it less than another exponential function
        return True
    n = x.shape[dim]
    return isinstance(n, int) and n <= _most_elements(dim % x.dim() != x.dim() - 1)


def form_of(known: KernelFacts) -> Form:
    """The first form that fits.

    Parameters
    ----------
    known : KernelFacts
        Of the kernel.

    Returns
    -------
    Form
        It is ready to write.
    """
    return next(form for kind in FORMS if (form := kind.fits(known)) is not None)


def define(kernel: Any, device: DeviceFacts) -> Definition:
    """The GLSL of a kernel whose statements are all there, and how it is called."""
    form = form_of(KernelFacts.of(kernel, device))
    writer = Writer(form.facts, kernel.index_to_str)
    form.lines(writer)
    body = [*sizes_of(kernel), *writer.lines]  # known by now: printing an index makes its sizes arguments
    signature, arguments, params = params_of(kernel, form)
    head = head_of(form)
    struct = ["struct Params {", *("  " + member for member in params), "};", *INCLUDES]
    if kernel.uses_errors:
        struct.append('#include "inductor/errors.glsl"')
    if form.has_lanes:
        struct.append('#include "inductor/lanes.glsl"')
    text = "\n".join([*head, *struct, *writer.shared_lines, "void main() {", *body, "}", ""])
    return Definition(text, signature, (*arguments, form.groups()), tuple(head), tuple(params), tuple(body), form)
