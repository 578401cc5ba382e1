// Dense rows of n elements, read from a 16-byte aligned base in aligned blocks of 16 bytes (vec16b). Rows may start
// anywhere, so the block at a row's end may hold elements of the next row. The last block may end after the tensor, but
// not after its memory. Expects DTYPE (float types of 2 or 4 bytes). E is the number of elements in a block.
#include "common/dtype.glsl"
#include "common/half.glsl"
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Vec16bRef { uvec4 v; };
const uint E = DTYPE == AULE_DT_F32 ? 4u : 8u;
const int MAX_E = 8;  // the largest E

uvec4 load_vec16b(uint64_t base, uint64_t block) { return Vec16bRef(base + block * 16).v; }
float element_of(uvec4 w, uint i, int dt) {
  if (dt == AULE_DT_F32) return uintBitsToFloat(w[i & 3u]);
  const uint word = w[i / 2u];
  if (dt == AULE_DT_F16) return (i & 1u) == 0u ? unpackHalf2x16(word).x : unpackHalf2x16(word).y;
  return uintBitsToFloat((i & 1u) == 0u ? word << 16 : word & 0xffff0000u);
}
float element(uvec4 w, uint i) { return element_of(w, i, DTYPE); }
uvec4 to_vec16b(float x[MAX_E]) {
  if (DTYPE == AULE_DT_F32) return floatBitsToUint(vec4(x[0], x[1], x[2], x[3]));
  uvec4 w;
  const bool halves = DTYPE == AULE_DT_F16 && packs_halves();
  [[unroll]] for (uint i = 0u; i < 4u; ++i) {
    if (DTYPE == AULE_DT_BF16) w[i] = float_to_bf16(x[2u * i]) | float_to_bf16(x[2u * i + 1u]) << 16;
    else if (halves) w[i] = packHalf2x16(vec2(x[2u * i], x[2u * i + 1u]));
    else w[i] = float_to_f16(x[2u * i]) | float_to_f16(x[2u * i + 1u]) << 16;
  }
  return w;
}
