"""Prints the functions of torch_aule.compile that are in a module, class or pattern of torch, each with all its names.

Modules that were imported after a function was replaced have copies of it.
"""

import json
import os
import sys
import types

import torch._inductor.compile_fx
import torch.nn.attention.flex_attention  # noqa: F401
from torch._inductor.fx_passes import joint_graph

import torch_aule.compile

ours = os.path.dirname(torch_aule.compile.__file__)
found: dict[int, list[str]] = {}


def look(name: str, value) -> None:
    if isinstance(value, (staticmethod, classmethod)):
        value = value.__func__
    is_ours = isinstance(value, types.FunctionType) and value.__code__.co_filename.startswith(ours)
    if is_ours or "_aule_original" in getattr(value, "__dict__", {}):  # one with a cache is no function of Python
        found.setdefault(id(value), []).append(name)


for name, module in sorted(sys.modules.items()):
    if name.split(".")[0] != "torch" or module is None:
        continue
    for key, value in list(vars(module).items()):
        look(f"{name}.{key}", value)
        if isinstance(value, type) and value.__module__ == name:
            for member, inner in list(vars(value).items()):
                look(f"{name}.{key}.{member}", inner)
for table in joint_graph.pass_patterns:
    for rows in table.patterns.values():
        for row in rows:
            look(f"{joint_graph.__name__}.{getattr(row.extra_check, '__name__', '')}", row.extra_check)
print(json.dumps(list(found.values())))
