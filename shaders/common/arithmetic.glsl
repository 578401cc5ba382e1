// The arithmetic type T of a variant (axis C: raw, float, int, int64, double, double_bits; of complex numbers vec2 and
// dvec2) and its loads and stores. Include after vec8.glsl.
#ifdef C_raw
#define T uvec4
#define load_T load_raw
#define store_T store_raw
#endif
#ifdef C_float
#define T float
#define load_T load_float
#define store_T store_float
#define unpack_T unpack_float
#define pack_T pack_float
T scalar_T(uint64_t bits) { return uintBitsToFloat(uint(bits)); }
#endif
#ifdef C_int
#define T int
#define load_T load_int
#define store_T store_int
#define unpack_T unpack_int
#define pack_T pack_int
T scalar_T(uint64_t bits) { return int(bits); }
#endif
#if defined(C_int64) || defined(C_int64_t)
#define T int64_t
#define load_T load_int64
#define store_T store_int64
#define unpack_T unpack_int64
#define pack_T pack_int64
T scalar_T(uint64_t bits) { return int64_t(bits); }
#endif
#ifdef C_double
#define T double
#define load_T load_double
#define store_T store_double
#define unpack_T unpack_double
#define pack_T pack_double
T scalar_T(uint64_t bits) { return packDouble2x32(unpackUint2x32(bits)); }
#endif
#ifdef C_double_bits  // float64 without the device's float64
#include "common/double_bits.glsl"
#define T uint64_t
#define load_T load_double_bits
#define store_T store_double_bits
#define unpack_T unpack_double_bits
#define pack_T pack_double_bits
T scalar_T(uint64_t bits) { return bits; }
#endif
#if defined(C_vec2) || defined(C_dvec2)
#include "common/complex.glsl"
#define load_T load_complex
#define store_T store_complex
#define unpack_T unpack_complex
#define pack_T pack_complex
#ifdef C_dvec2
#define T dvec2
T scalar_T(uint64_t re, uint64_t im) {
  return dvec2(packDouble2x32(unpackUint2x32(re)), packDouble2x32(unpackUint2x32(im)));
}
#else
#define T vec2
T scalar_T(uint64_t re, uint64_t im) { return uintBitsToFloat(uvec2(uint(re), uint(im))); }
#endif
#endif
