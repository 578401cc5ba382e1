"""Leaves out the functions of included files that a kernel does not call: most of what glslang would read.

This reads text, not GLSL. Names decide: a function stays if its name occurs outside of functions and macros, or in one
of those that is used. Whatever is not plainly a function at the top level of its file stays, too. Where that is not
enough (names pasted by macros), the result does not compile, and the caller compiles the whole text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

WORD = re.compile(r"[A-Za-z_]\w*")
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)
DEFINE = re.compile(r"[ \t]*#[ \t]*define[ \t]+(\w+)")
HEAD = re.compile(r"(?:precise\s+)?[A-Za-z_]\w*(?:\s*\[\w*\])?\s+([A-Za-z_]\w*)\s*\([^(){};]*\)\s*")


@dataclass(frozen=True)
class Function:
    """Or a macro: its definition stays, but what it names is called only if it is used."""

    name: str
    first: int  # line numbers from 0, its braces' included; -1: a macro
    last: int
    words: frozenset[str]


@dataclass(frozen=True)
class Outline:
    """The functions of a file that may go, and the words of all the rest."""

    functions: tuple[Function, ...]
    words: frozenset[str]


def _blank(match: re.Match) -> str:
    return "\n" * match[0].count("\n")


def _balanced(directives: Iterable[str]) -> bool:
    """Whether conditionals that begin here end here; an include is never in balance."""
    depth = 0
    for directive in directives:
        word = WORD.search(directive)
        if word is None or word[0] == "include":
            return False
        depth += {"if": 1, "ifdef": 1, "ifndef": 1, "endif": -1}.get(word[0], 0)
        if depth < 0 or depth == 0 and word[0] in ("else", "elif"):
            return False
    return depth == 0


def _spans(code: str) -> list[tuple[str, int, int]]:
    """Name, begin and end of each function of a text without comments and directives; empty if braces do not match."""
    found, depth, begin, name = [], 0, 0, None
    for match in re.finditer(r"[{};]", code):
        at, sign = match.start(), match[0]
        if sign == "{":
            if depth == 0:
                head = HEAD.fullmatch(code[begin:at].lstrip())
                name = head[1] if head else None
                begin = at - len(code[begin:at].lstrip())
            depth += 1
        elif sign == "}":
            depth -= 1
            if depth < 0:
                return []
            if depth == 0:
                if name is not None:
                    found.append((name, begin, at + 1))
                begin = at + 1
        elif depth == 0:
            begin = at + 1
    return found if depth == 0 else []


def outline(lines: list[str]) -> Outline:
    """The functions of a file."""
    text = COMMENT.sub(_blank, "\n".join(lines))
    code = DIRECTIVE.sub(_blank, text)
    text_lines = text.split("\n")
    functions, rest, done = [], [], 0
    for name, begin, end in _spans(code):
        first, last = code.count("\n", 0, begin), code.count("\n", 0, end)
        before, behind = code[code.rfind("\n", 0, begin) + 1 : begin], code[end : (code + "\n").index("\n", end)]
        alone = not before.strip() and not behind.strip()
        own = text_lines[first : last + 1]
        if not alone or first < done or not _balanced(line for line in own if line.lstrip().startswith("#")):
            continue
        functions.append(Function(name, first, last, frozenset(WORD.findall("\n".join(own)))))
        rest += text_lines[done:first]
        done = last + 1
    remaining = "\n".join([*rest, *text_lines[done:]])
    for directive in DIRECTIVE.finditer(remaining):
        if define := DEFINE.match(directive[0]):
            functions.append(Function(define[1], -1, -1, frozenset(WORD.findall(directive[0][define.end() :]))))
    remaining = DIRECTIVE.sub(lambda d: "" if DEFINE.match(d[0]) else d[0], remaining)
    return Outline(tuple(functions), frozenset(WORD.findall(remaining)))


def unused(outlines: Iterable[Outline], roots: Iterable[str]) -> set[Function]:
    """The functions that nothing reaches from `roots`, words of the text that calls them."""
    by_name: dict[str, list[Function]] = {}
    todo = set(roots)
    for file in outlines:
        todo |= file.words
        for function in file.functions:
            by_name.setdefault(function.name, []).append(function)
    while names := todo & by_name.keys():
        for name in names:
            for function in by_name.pop(name):
                todo |= function.words
    return {function for functions in by_name.values() for function in functions}
