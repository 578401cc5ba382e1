"""The protocol of a form: it says whether it fits a kernel, then writes its main()."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import ClassVar

from torch_aule.compile.codegen.facts import KernelFacts
from torch_aule.compile.codegen.forms.fitting import Work
from torch_aule.compile.codegen.writer import Writer

__all__ = ["Form"]


@dataclass(frozen=True, eq=False)
class Form(abc.ABC):
    """A division of a kernel's work among invocations, and its text. `source.FORMS` has all, in the order of trial.

    Attributes
    ----------
    facts : KernelFacts
        Of the kernel that it fits.
    work : Work
        How the invocations share the work.
    """

    facts: KernelFacts
    work: Work

    has_lanes: ClassVar[bool] = False  # needs inductor/lanes.glsl, and the digits that it asks for
    is_part: ClassVar[bool] = False  # may share a launch with other kernels (combo.py)

    @classmethod
    @abc.abstractmethod
    def fits(cls, facts: KernelFacts) -> Form | None:
        """The form for a kernel with these facts, or None. It changes nothing."""

    @abc.abstractmethod
    def lines(self, writer: Writer) -> None:
        """Write the lines of main()."""

    @abc.abstractmethod
    def groups(self) -> str:
        """The number of workgroups, as a Python expression of the sizes."""

    @property
    def shuffles(self) -> bool:
        """True if the text needs the shuffles of subgroups."""
        return self.has_lanes or self.work.combine in ("subgroup", "group")
