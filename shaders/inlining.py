"""`#pragma aule inline` of compile.py: functions and file-scope variables of a kernel become part of its main()."""

from __future__ import annotations

import re


def inlined(lines: list[str]) -> list[str]:
    """`#pragma aule inline`: void functions of the files that say so become macros, their variables locals of main().

    Drivers keep cooperative matrices of file scope, or passed between functions, in memory: attention ran at 38
    instead of 321 TFLOPS on an NVIDIA H200. Parameters are values; each call site evaluates its arguments once.
    """
    # The number of the file that each line came from, by the #line directives.
    files, current = [], ""
    for line in lines:
        mark = re.match(r"#line \d+ (\d+)", line)
        current = mark[1] if mark else current
        files.append(current)
    marked = {file for file, line in zip(files, lines) if line.split()[:3] == ["#pragma", "aule", "inline"]}
    out: list[str] = []
    moved: list[str] = []
    i = 0
    while i < len(lines):
        line = lines[i]
        own = files[i] in marked
        function = re.match(r"void (\w+)\(([^)]*)\) \{$", line) if own else None
        variable = re.match(r"(?!const|shared|layout|struct|precise|return)\w+ \w+[^(){}]*;", line) if own else None
        if function and function[1] != "main":
            name, body, start = function[1], [], i
            i += 1
            while lines[i] != "}":
                body.append(lines[i].split("//")[0].strip())
                i += 1
            text = " ".join(body)
            parameters = [parameter.split() for parameter in function[2].split(",") if parameter.strip()]
            values = []
            for kind, parameter in parameters:
                text = re.sub(rf"\b{parameter}\b", f"{parameter}_{name}", text)
                values.append(f"const {kind} {parameter}_{name} = (_{parameter});")
            names = ", ".join(f"_{parameter}" for _, parameter in parameters)
            out.append(f"#define {name}({names}) {{ {' '.join(values)} {text} }}")
            out.extend([""] * (i - start))  # line numbers stay
        elif variable:
            moved.append(line.split("//")[0])
            out.append("")
        elif line == "void main() {":
            out.append(line + " " + " ".join(moved))
        else:
            out.append(line)
        i += 1
    return out
