"""`#pragma aule inline` of compile.py: functions and file-scope variables of a kernel become part of its main()."""

from __future__ import annotations

import re

from torch_aule.glsl.spirv import ShaderError

# Words before a variable's type that keep it at file scope.
FILE_SCOPE = r"const|shared|layout|struct|precise|return|buffer|precision"


def inlined(lines: list[str], files: list[str]) -> list[str]:
    """`#pragma aule inline`: void functions of the files that say so become macros, their variables locals of main().

    Drivers keep cooperative matrices of file scope, or passed between functions, in memory: attention ran at 38
    instead of 321 TFLOPS on an NVIDIA H200. Parameters are values; each call site evaluates its arguments once.

    Parameters
    ----------
    lines : list of str
        The source with includes inlined, and `#line N FILE` where the file changes.
    files : list of str
        The files' names by number.

    Raises
    ------
    ShaderError
        With file and line: a void function that is no macro, as it stands, and a variable whose name the file declares
        once more, as under `#if` and `#else`.
    """
    places, number, current = [], 0, ""
    for line in lines:
        mark = re.match(r"#line (\d+) (\d+)", line)
        number, current = (int(mark[1]) - 1, mark[2]) if mark else (number + 1, current)
        places.append((current, number))
    marked = {file for (file, _), line in zip(places, lines) if line.split()[:3] == ["#pragma", "aule", "inline"]}

    def place(i: int) -> str:
        file, number = places[i]
        return f"{files[int(file)] if file else 'shader'}:{number}"

    def refuse(i: int, why: str):
        raise ShaderError(f"{place(i)}: `#pragma aule inline` cannot take this: {why}")

    declared: dict[str, tuple[int, bool]] = {}  # name -> the last line, and whether it moves

    def declare(i: int, names: list[str], moves: bool):
        for name in names:
            j, moved_too = declared.get(name, (i, False))
            if j != i and (moves or moved_too):
                refuse(i, f"`{name}` is declared at {place(j)} too, and variables leave their #if")
            declared[name] = i, moves or moved_too

    out: list[str] = []
    moved: list[str] = []
    i = 0
    while i < len(lines):
        line = lines[i]
        own = places[i][0] in marked
        function = re.match(r"void (\w+)\(([^)]*)\) \{$", line) if own else None
        variable = re.match(rf"(?!{FILE_SCOPE})\w+ \w+[^(){{}}]*;", line) if own else None
        if function and function[1] != "main":
            body, end = _body(lines, i, refuse)
            out.append(_macro(function[1], function[2], body, i, refuse))
            out.extend([""] * (end - i))  # line numbers stay
            i = end
        elif variable:
            declare(i, _names(line), True)
            moved.append(line.split("//")[0])
            out.append("")
        elif line == "void main() {":
            out.append(line + " " + " ".join(moved))
        elif own and re.match(r"\s*(inline\s+)?void\s+\w+\s*\(", line):
            refuse(i, "a void function's head is one line, `void name(type a, type b) {`")
        elif own and re.match(rf"(?!{FILE_SCOPE})\w+ \w+\s*[\[=,;]", line):
            refuse(i, "a variable's declaration is one line, and calls nothing")
        else:
            stays = re.match(r"(?:#\s*define|(?:const|shared|precise) \w+) (\w+)", line) if own else None
            declare(i, [stays[1]] if stays else [], False)
            out.append(line)
        i += 1
    return out


def _names(declaration: str) -> list[str]:
    """Those of `float a = 1.0, b[2];`."""
    text = declaration.split("//")[0].split(None, 1)[1]
    while (plain := re.sub(r"\[[^][]*\]|\{[^{}]*\}|\([^()]*\)", "", text)) != text:
        text = plain
    return [part.split("=")[0].strip(" ;\n") for part in text.split(",")]


def _body(lines: list[str], start: int, refuse) -> tuple[list[str], int]:
    """The statements of the function that begins at `start`, and the line of its closing brace."""
    body = []
    for i in range(start + 1, len(lines)):
        if lines[i] == "}":
            return body, i
        statement = lines[i].split("//")[0].strip()
        if statement.startswith("#"):
            refuse(i, "a macro's body holds no directive")
        if re.search(r"\breturn\b", statement):
            refuse(i, "return would leave main()")
        if "/*" in statement:
            refuse(i, "comments are // there")
        body.append(statement)
    return refuse(start, "the function has no closing brace at the line's start")


def _macro(name: str, parameters: str, body: list[str], start: int, refuse) -> str:
    text, values, names = " ".join(body), [], []
    for parameter in filter(str.strip, parameters.split(",")):
        if len(parameter.split()) != 2 or "[" in parameter:
            refuse(start, f"a parameter is a value, `type name`, not `{parameter.strip()}`")
        kind, own = parameter.split()
        text = re.sub(rf"\b{own}\b", f"{own}_{name}", text)
        values.append(f"const {kind} {own}_{name} = (_{own});")
        names.append(f"_{own}")
    return f"#define {name}({', '.join(names)}) {{ {' '.join(values)} {text} }}"
