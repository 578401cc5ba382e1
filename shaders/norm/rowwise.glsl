// Rows of a tensor, read four elements at a time: shared by softmax and the norms.
//
// A row is n elements at base + (start + k * hop) * size. With VEC (hop 1, n and every start a multiple of 4, addresses
// aligned) four elements are one access of 16 bytes, or 8 for half types. Words have 64 bits, because lavapipe 22.3
// takes time per word and lane. Defines C, V4 and C's is_nan, exp and log. Include after the axis `C float double`.
#ifndef AULE_ROWS_GLSL
#define AULE_ROWS_GLSL
#include "common/dtype.glsl"
#include "common/float_bits.glsl"

layout(buffer_reference, scalar, buffer_reference_align = 16) buffer U64x2Ref { u64vec2 v; };
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer U64Ref { uint64_t v; };
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer F16x4Ref { f16vec4 v; };

// Saved statistics have the arithmetic type.
#ifdef C_double
#define STAT_DTYPE AULE_DT_F64
#define V4 dvec4
C load1(uint64_t base, uint64_t i, int dt) { return load_double(base, i, dt); }
void store1(uint64_t base, uint64_t i, int dt, C x) { store_double(base, i, dt, x); }
V4 exp(V4 x) { return V4(exp(x.x), exp(x.y), exp(x.z), exp(x.w)); }
#else
#define STAT_DTYPE AULE_DT_F32
#define V4 vec4
C load1(uint64_t base, uint64_t i, int dt) { return load_float(base, i, dt); }
void store1(uint64_t base, uint64_t i, int dt, C x) { store_float(base, i, dt, x); }
#endif

C max4(V4 x) { return max(max(x.x, x.y), max(x.z, x.w)); }
C sum4(V4 x) { return (x.x + x.y) + (x.z + x.w); }

vec4 load4(uint64_t base, uint64_t i, int dt) {
  if (dt == AULE_DT_F32) {
    u64vec2 w = U64x2Ref(base + i * 4).v;
    return uintBitsToFloat(uvec4(unpackUint2x32(w.x), unpackUint2x32(w.y)));
  }
  uvec2 w = unpackUint2x32(U64Ref(base + i * 2).v);
  if (dt == AULE_DT_F16) return vec4(unpackHalf2x16(w.x), unpackHalf2x16(w.y));
  return uintBitsToFloat(uvec4(w.x << 16, w.x & 0xffff0000u, w.y << 16, w.y & 0xffff0000u));
}
void store4(uint64_t base, uint64_t i, int dt, vec4 x) {
  if (dt == AULE_DT_F32) {
    uvec4 u = floatBitsToUint(x);
    U64x2Ref(base + i * 4).v = u64vec2(packUint2x32(u.xy), packUint2x32(u.zw));
  } else if (dt == AULE_DT_F16) {
    F16x4Ref(base + i * 2).v = f16vec4(x);
  } else {
    uvec2 u = uvec2(float_to_bf16(x.x) | float_to_bf16(x.y) << 16, float_to_bf16(x.z) | float_to_bf16(x.w) << 16);
    U64Ref(base + i * 2).v = packUint2x32(u);
  }
}

struct Row {
  uint64_t base, start, hop;
  uint n;
};
// Elements k .. k+3, and `fill` past the row's end.
V4 fetch(Row r, uint k, int dt, C fill) {
#ifndef C_double
  if (VEC != 0) return k < r.n ? load4(r.base, r.start + k, dt) : V4(fill);
#endif
  V4 x = V4(fill);
  [[unroll]] for (uint j = 0; j < 4u; ++j)
    if (k + j < r.n) x[j] = load1(r.base, r.start + (k + j) * r.hop, dt);
  return x;
}
void put(Row r, uint k, int dt, V4 x) {
#ifndef C_double
  if (VEC != 0) {
    if (k < r.n) store4(r.base, r.start + k, dt, x);
    return;
  }
#endif
  [[unroll]] for (uint j = 0; j < 4u; ++j)
    if (k + j < r.n) store1(r.base, r.start + (k + j) * r.hop, dt, x[j]);
}
#endif
