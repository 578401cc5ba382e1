#!/usr/bin/env python3
"""Writes the list of registered operators in docs/use/operators.md from csrc/aten and the pointwise tables.

python tools/operators_page.py           rewrites the list
python tools/operators_page.py --check   exits 1 if it is not what the sources say
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/use/operators.md"
BEGIN, END = "<!-- begin: python tools/operators_page.py -->", "<!-- end -->"
ROW = re.compile(r"^(?:UNARY|BINARY|TERNARY)_\w+\(\d+,\s*(\w+),\s*(\w+),", re.MULTILINE)
NAME = re.compile(r'"(?:aten::|aule::|torchvision::)?([A-Za-z_]\w*)(?:\.\w+)?[("]')


def registered_in(path: Path) -> set[str]:
    """Names of the operators that a file of csrc/aten registers, without overloads."""
    text = re.sub(r"//.*", "", path.read_text())
    heads = r"(?:TORCH_LIBRARY_IMPL\(\w+, PrivateUse1, m\)|void register_\w+\(torch::Library& m\))"
    blocks = re.findall(heads + r" \{(.*?)\n\}", text, re.DOTALL)
    return {name for block in blocks for name in NAME.findall(block)}


def without_kernel() -> set[str]:
    """Names that are registered to go to the CPU, or to be refused in words of ours."""
    return registered_in(ROOT / "csrc/aten/fallback.cpp")


def families() -> dict[str, set[str]]:
    """Family of csrc/aten -> names of the operators that it registers, without overloads."""
    found = {}
    for path in sorted((ROOT / "csrc/aten").glob("**/*.cpp")):
        if path.stem in ("autocast", "fallback"):  # dtypes of operators that others register; those without a kernel
            continue
        text = re.sub(r"//.*", "", path.read_text())
        names = registered_in(path)
        for table in re.findall(r'#include "(pointwise/\w+_ops\.def)"', text):
            names |= {name for name, forms in ROW.findall((ROOT / "shaders" / table).read_text()) if forms != "HAND"}
        if names:  # autograd/rnn_layer.cpp is a part of rnn
            family = path.stem if path.parent.name == "aten" else path.stem.partition("_")[0]
            found.setdefault(family, set()).update(names)
    return dict(sorted(found.items()))


def listed(names: set[str]) -> list[str]:
    """In-place forms are named by their operator."""
    return sorted(name for name in names if not (name.endswith("_") and name[:-1] in names))


def table() -> str:
    rows = [f"| `{family}` | {', '.join(f'`{n}`' for n in listed(names))} |" for family, names in families().items()]
    return "\n".join([BEGIN, "", "| family | operators |", "|---|---|", *rows, "", END])


def main() -> int:
    text = PAGE.read_text()
    new = text[: text.index(BEGIN)] + table() + text[text.index(END) + len(END) :]
    if "--check" in sys.argv[1:]:
        if new != text:
            print("docs/use/operators.md is not what is registered: python tools/operators_page.py", file=sys.stderr)
        return int(new != text)
    PAGE.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
