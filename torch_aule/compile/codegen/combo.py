"""Several small pointwise kernels as one launch: those of ``torch._foreach_*``, of compiled optimizers above all.

Each part has workgroups of its own. Parts that differ in their number of elements alone share a function, which gets
their arguments.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from torch_aule.compile.codegen.source import INCLUDES, Definition

__all__ = ["batches", "combined", "is_part"]

_MOST_ARGUMENTS = 240  # of a launch; Inductor's own bound is 250
_MEMBER = re.compile(r"\bp\.(\w+)")
_LAST = re.compile(r"(  if \(linear_invocation\(\) \* \d+ul >= uint64_t\()(\d+)(\)\) return;)")


def is_part(kernel) -> bool:
    """True if a kernel whose definition is made can share a launch: pointwise over one axis of a known size."""
    made = kernel.definition
    return (
        made.form.is_part
        and not kernel.uses_errors
        and kernel.index_type == "int"
        and made.arguments[-1].isdigit()
        and int(made.arguments[-1]) > 0
        and set(made.signature) <= set("rwmh")
        and not any(s.atomic for s in kernel.statements.statements)
    )


def batches(definitions: list[Definition]) -> Iterator[list[Definition]]:
    """Those that share a launch: with the same head, and not too many arguments."""
    by_head: dict[tuple, list[Definition]] = {}
    for made in definitions:
        by_head.setdefault(made.head, []).append(made)
    for alike in by_head.values():
        # Those of one text are neighbours, in the order in which each text came first.
        texts = list(dict.fromkeys(_text(made) for made in alike))
        batch, arguments = [], 0
        for made in sorted(alike, key=lambda made: texts.index(_text(made))):
            if batch and arguments + len(made.signature) > _MOST_ARGUMENTS:
                yield batch
                batch, arguments = [], 0
            batch.append(made)
            arguments += len(made.signature)
        yield batch


def _text(made: Definition) -> tuple:
    return made.params, tuple(_LAST.sub(r"\1elements\3", line) for line in made.body)


def _elements(made: Definition) -> str:
    """The number of elements of a part, where its text asks for it."""
    return next((match.group(2) for line in made.body if (match := _LAST.fullmatch(line))), "0")


def _function(name: str, text: tuple) -> list[str]:
    params, body = text
    parameters = ", ".join(["uint elements", *(member.rstrip(";") for member in params)])
    lines = [_MEMBER.sub(r"\1", line).replace("linear_invocation()", "own_invocation()") for line in body]
    return [f"void {name}({parameters}) {{", *lines, "}"]


def combined(parts: list[Definition]) -> Definition:
    """One definition of several, which must not depend on each other."""
    functions: list[str] = []
    main = ["void main() {", "  const uint group = linear_group();"]
    params, arguments, signature = [], [], ""
    first = 0
    for number, text in enumerate(dict.fromkeys(map(_text, parts))):
        alike = [made for made in parts if _text(made) == text]
        functions += _function(f"part{number}", text)
        names = [member.rstrip(";").split()[-1] for member in alike[0].params]
        end = first + sum(int(made.arguments[-1]) for made in alike)
        main += [f"  if (group >= {first}u && group < {end}u) {{", "    uint elements;"]
        main += [f"    {member}" for member in alike[0].params]
        for made in alike:
            own = f"k{len(params)}"
            params += [f"{member.rstrip(';')}_{own};" for member in made.params]
            arguments += made.arguments[:-1]
            signature += made.signature
            values = " ".join([f"elements = {_elements(made)}u;", *(f"{name} = p.{name}_{own};" for name in names)])
            last = first + int(made.arguments[-1])
            # Not a chain of `else`, which would nest deeper than a driver bears.
            main.append(f"    if (group >= {first}u && group < {last}u) {{ first_group = {first}u; {values} }}")
            first = last
        main += [f"    part{number}({', '.join(['elements', *names])});", "  }"]
    own = [
        "uint first_group;  // of the part that this workgroup belongs to",
        "uint64_t own_invocation() {",
        "  return uint64_t(linear_group() - first_group) * gl_WorkGroupSize.x + gl_LocalInvocationID.x;",
        "}",
    ]
    head = parts[0].head
    struct = ["struct Params {", *("  " + member for member in params), "};"]
    text = "\n".join([*head, *struct, *INCLUDES, *own, *functions, *main, "}", ""])
    return Definition(text, signature, (*arguments, str(first)), head, tuple(params), tuple(main))
