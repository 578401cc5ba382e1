"""Compiles a kernel with nothing but a package's files. The arguments: the folder of torch_aule, and the source."""

import sys
import types
from pathlib import Path

folder, source = Path(sys.argv[1]), sys.argv[2]
package = sys.modules["torch_aule"] = types.ModuleType("torch_aule")
package.__path__ = [str(folder)]

from torch_aule.glsl.compiler import find_compiler
from torch_aule.glsl.shader_source import INCLUDE_DIRS, expand, parse_shader

assert INCLUDE_DIRS == [folder / "glsl" / "include"]
shader = parse_shader(Path("axpb"), source)
expand(shader, "")
print(len(find_compiler().compile(shader.variants[0].text)))
