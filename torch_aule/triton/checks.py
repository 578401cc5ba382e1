"""Checks that a kernel makes while it runs: assertions, and whether an access is inside of its tensor's storage. Pure.

A failed check writes to the device's error record, which the host raises at the next synchronisation. Each check is a
site: a member of Params, the number by which the record names a text that the host knows.
"""

from __future__ import annotations

import json
import re

from torch_aule.triton.ir import BITS, Op, Value
from torch_aule.triton.writer import Access, Writer

__all__ = ["EMITTERS", "bounds_members", "guarded", "site_members", "site_texts"]

_SITE = "// aule site: "  # how a line of a kernel's text begins that has the text of a site


def _site(w: Writer, op: Op, text: str) -> str:
    """The expression of a new site's number; that of the kernel where the host knows none of the site."""
    w.asserts = True
    text = f"Triton kernel {w.function.name}, {text}, {op.place}"
    if text not in w.sites:
        w.sites.append(text)
    name = f"p.site{w.sites.index(text)}"
    return f"({name} == 0u ? p.error_tag : {name})"


def site_members(w: Writer) -> list[str]:
    """Members of Params for the sites of a kernel, with their texts."""
    return [line for i, text in enumerate(w.sites) for line in (f"{_SITE}{json.dumps(text)}", f"  uint site{i};")]


def site_texts(source: str) -> list[str]:
    """The texts of a kernel's sites for errors, in their order.

    Parameters
    ----------
    source : str
        GLSL of a kernel.

    Returns
    -------
    list of str
    """
    return [json.loads(line.removeprefix(_SITE)) for line in source.split("\n") if line.startswith(_SITE)]


def bounds_members(arguments: list[Value]) -> list[str]:
    """Members of Params: the bytes of a tensor's storage before its first element, and from there on."""
    numbers = [i for i, argument in enumerate(arguments) if argument.type.element == "ptr"]
    return [f"  int64_t {side}{i};" for i in numbers for side in ("before", "after")]


def guarded(w: Writer, op: Op, condition: Access | None, address: Access, size: int) -> Access | None:
    """The condition of an access, and that it is inside, where kernels check that.

    Parameters
    ----------
    w : Writer
    op : Op
        A load, a store or an atomic operation.
    condition : callable, optional
        Its mask.
    address : callable
    size : int
        Bytes of one access.
    """
    if not w.check_bounds:
        return condition
    arguments = w.function.arguments
    numbers = sorted(arguments.index(value) for value in w.pointers[op.operands[0]])
    called = w.function.named
    names = " or ".join(called.get(arguments[i].name, arguments[i].name) for i in numbers)
    site = _site(w, op, f"{op.name.removeprefix('tt.')} of argument {names}")
    function = _inside(w, numbers, size, BITS[op.operands[0].type.pointee] // 8)

    def text(r: str) -> str:
        inside = f"{function}({address(r)}, {site})"
        return inside if condition is None else f"{condition(r)} && {inside}"

    return text


def _inside(w: Writer, numbers: list[int], size: int, item: int) -> str:
    """A function (address, site) that tells whether bytes are inside of one of some arguments' storages."""
    name = f"inside_{'_'.join(map(str, numbers))}_{size}_{item}"
    lines = [f"bool {name}(uint64_t address, uint site) {{"]
    for i in reversed(numbers):
        lines.append(f"{'' if i != numbers[-1] else 'int64_t '}at = int64_t(address - p.a{i});")
        lines.append(f"if (at >= -p.before{i} && at + {size}l <= p.after{i}) return true;")
    first = numbers[0]
    lines.append(f"if (at >= -p.before{first} && at < p.after{first}) at = p.after{first};")  # begins inside
    lines.append(f"report_error(p.errors, AULE_ERR_INDEX_OUT_OF_RANGE, site, at / {item}l, p.after{first} / {item}l);")
    w.define("\n".join([*lines, "return false;", "}"]))
    return name


def _unescaped(text: str) -> str:
    """A string as MLIR prints it: a backslash before another, or before two hexadecimal digits of a byte."""

    def byte(found: re.Match) -> bytes:
        return found[1] if len(found[1]) == 1 else bytes.fromhex(found[1].decode())

    return re.sub(rb"\\(\\|[0-9A-F]{2})", byte, text.encode()).decode(errors="replace")


def check(w: Writer, op: Op) -> None:
    """A device assertion: whoever finds it false reports it, and goes on."""
    value = op.operands[0]
    message = _unescaped(op.text.partition('"')[2].rpartition('"')[0])
    site = _site(w, op, f"device_assert {message!r}")
    layout = w.home(value)
    access = w.access(value, layout)
    report = f"report_error(p.errors, AULE_ERR_ASSERT, {site}, int64_t(0), int64_t(0));"
    w.each(layout.count, lambda r: [f"if (!({access(r)})) {report}"])


def show(w: Writer, op: Op) -> None:
    raise op.unsupported("tl.device_print (a kernel has nowhere to write text)")


EMITTERS = {"tt.assert": check, "tt.print": show}
