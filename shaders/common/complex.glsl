// Loads and stores of complex numbers as pairs, real part first: vec2, and dvec2 where the variant has float64. Every
// real dtype is loaded with an imaginary part of 0. A real dtype gets the real part, bool whether either part is not 0.
// Include after dtype.glsl; after vec8.glsl for several elements at once.
#ifndef AULE_COMPLEX_GLSL
#define AULE_COMPLEX_GLSL
#include "common/half.glsl"
// Precise, without contraction: z conj(z) has an imaginary part of exactly 0.
vec2 c_mul(vec2 z, vec2 w) {
  precise vec2 r = vec2(z.x * w.x - z.y * w.y, z.x * w.y + z.y * w.x);
  return r;
}
#ifdef C_dvec2
dvec2 c_mul(dvec2 z, dvec2 w) {
  precise dvec2 r = dvec2(z.x * w.x - z.y * w.y, z.x * w.y + z.y * w.x);
  return r;
}
#endif
uint half_pair(vec2 x) { return float_to_f16(x.x) | float_to_f16(x.y) << 16; }
uint any_part(vec2 x) { return x.x != 0.0 || x.y != 0.0 ? 1u : 0u; }

vec2 load_complex64(uint64_t base, uint64_t i, int dt) {
  if (dt == AULE_DT_C64) return uintBitsToFloat(unpackUint2x32(uint64_t(I64Ref(base + i * 8).v)));
  if (dt == AULE_DT_C32) return unpackHalf2x16(U32Ref(base + i * 4).v);
  return vec2(load_float(base, i, dt), 0.0);
}
void store_complex64(uint64_t base, uint64_t i, int dt, vec2 x) {
  if (dt == AULE_DT_C64) I64Ref(base + i * 8).v = int64_t(packUint2x32(floatBitsToUint(x)));
  else if (dt == AULE_DT_C32) U32Ref(base + i * 4).v = half_pair(x);
  else if (dt == AULE_DT_BOOL) U8Ref(base + i).v = uint8_t(any_part(x));
  else store_float(base, i, dt, x.x);
}
#ifdef AULE_VEC8_GLSL
vec2 unpack_complex64(Words r, int i, int dt) {
  if (dt == AULE_DT_C64) return uintBitsToFloat(uvec2(r.w[2 * i], r.w[2 * i + 1]));
  if (dt == AULE_DT_C32) return unpackHalf2x16(r.w[i]);
  return vec2(unpack_float(r, i, dt), 0.0);
}
void pack_complex64(inout Words r, int i, int dt, vec2 x) {
  if (dt == AULE_DT_C64) put_64(r, i, packUint2x32(floatBitsToUint(x)));
  else if (dt == AULE_DT_C32) r.w[i] = half_pair(x);
  else if (dt == AULE_DT_BOOL) put_bits(r, i, 1, any_part(x));
  else pack_float(r, i, dt, x.x);
}
#endif

#ifdef C_dvec2
dvec2 load_complex(uint64_t base, uint64_t i, int dt) {
  if (dt == AULE_DT_C128) return dvec2(F64Ref(base + i * 16).v, F64Ref(base + i * 16 + 8).v);
  if (dt == AULE_DT_C64 || dt == AULE_DT_C32) return dvec2(load_complex64(base, i, dt));
  return dvec2(load_double(base, i, dt), 0.0lf);
}
void store_complex(uint64_t base, uint64_t i, int dt, dvec2 x) {
  if (dt == AULE_DT_C128) {
    F64Ref(base + i * 16).v = x.x;
    F64Ref(base + i * 16 + 8).v = x.y;
  } else if (dt == AULE_DT_C64 || dt == AULE_DT_C32) {
    store_complex64(base, i, dt, vec2(x));
  } else if (dt == AULE_DT_BOOL) {
    U8Ref(base + i).v = uint8_t(x.x != 0.0lf || x.y != 0.0lf ? 1u : 0u);
  } else {
    store_double(base, i, dt, x.x);
  }
}
#ifdef AULE_VEC8_GLSL
dvec2 unpack_complex(Words r, int i, int dt) {
  if (dt == AULE_DT_C128)
    return dvec2(packDouble2x32(uvec2(r.w[4 * i], r.w[4 * i + 1])), packDouble2x32(uvec2(r.w[4 * i + 2],
        r.w[4 * i + 3])));
  if (dt == AULE_DT_C64 || dt == AULE_DT_C32) return dvec2(unpack_complex64(r, i, dt));
  return dvec2(unpack_double(r, i, dt), 0.0lf);
}
void pack_complex(inout Words r, int i, int dt, dvec2 x) {
  if (dt == AULE_DT_C128) {
    pack_double(r, 2 * i, AULE_DT_F64, x.x);
    pack_double(r, 2 * i + 1, AULE_DT_F64, x.y);
  } else if (dt == AULE_DT_C64 || dt == AULE_DT_C32) {
    pack_complex64(r, i, dt, vec2(x));
  } else if (dt == AULE_DT_BOOL) {
    put_bits(r, i, 1, x.x != 0.0lf || x.y != 0.0lf ? 1u : 0u);
  } else {
    pack_double(r, i, dt, x.x);
  }
}
#endif
#else
#define load_complex load_complex64
#define store_complex store_complex64
#define unpack_complex unpack_complex64
#define pack_complex pack_complex64
#endif
#endif
