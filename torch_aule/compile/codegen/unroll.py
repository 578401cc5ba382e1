"""Loops that are unrolled before the compiler sees them, so that the module's text stays readable.

A driver may decline to unroll a long body, and then what is indexed by the loop's variable, packed words above all,
lies in memory instead of registers.
"""

from __future__ import annotations

import re

__all__ = ["UNROLLED", "loop_head", "unrolled"]

UNROLLED = "// unrolled"
_HEAD = re.compile(rf"( *)for \(int (\w+) = 0; \2 < (\d+); \+\+\2\) {{  {UNROLLED}$")


def loop_head(name: str, count: int) -> str:
    """The head of a loop that `unrolled` expands; its end is the next line `}` that is indented as far."""
    return f"for (int {name} = 0; {name} < {count}; ++{name}) {{  {UNROLLED}"


def unrolled(source: str) -> str:
    """The source with a block for each turn of each marked loop."""
    return "\n".join(_expanded(source.split("\n")))


def _expanded(lines: list[str]) -> list[str]:
    out, i = [], 0
    while i < len(lines):
        head = _HEAD.match(lines[i])
        if head is None:
            out.append(lines[i])
            i += 1
            continue
        indent, name, count = head.group(1), head.group(2), int(head.group(3))
        end = lines.index(indent + "}", i)
        body = _expanded(lines[i + 1 : end])
        for turn in range(count):
            out += [f"{indent}{{", f"{indent}  const int {name} = {turn};", *body, f"{indent}}}"]
        i = end + 1
    return out
