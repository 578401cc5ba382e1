// For generated kernels: loads and stores of each dtype, functions for each arithmetic type, reductions' helpers.
// VEC_ELEMS (4 or 8) is how many elements a vector access has; C_double is defined if the kernel computes in float64.
#include "common/indexing.glsl"
#include "common/dtype.glsl"
#include "common/vec8.glsl"
#include "common/float8.glsl"
#include "common/philox.glsl"
#include "pointwise/functions/math.glsl"
#include "pointwise/functions/math_special.glsl"

layout(buffer_reference, scalar, buffer_reference_align = 8) buffer U64BitsRef { uint64_t v; };

// Numbers beyond the largest, as the PyTorch at hand converts them.
#ifndef AULE_FLOAT8_SATURATES
#define AULE_FLOAT8_SATURATES true
#endif
uint code_of_float8(float x, int format) { return encode_float8(x, format, AULE_FLOAT8_SATURATES); }
float round_float8(float x, int format) { return decode_float8(code_of_float8(x, format), format); }

#define AULE_LOAD_F32(base, i) F32Ref((base) + uint64_t(i) * 4ul).v
#define AULE_LOAD_F16(base, i) float(F16Ref((base) + uint64_t(i) * 2ul).v)
#define AULE_LOAD_BF16(base, i) bf16_to_float(uint(U16Ref((base) + uint64_t(i) * 2ul).v))
#define AULE_LOAD_F64(base, i) F64Ref((base) + uint64_t(i) * 8ul).v
#define AULE_LOAD_I64(base, i) I64Ref((base) + uint64_t(i) * 8ul).v
#define AULE_LOAD_U64(base, i) U64BitsRef((base) + uint64_t(i) * 8ul).v
#define AULE_LOAD_I32(base, i) I32Ref((base) + uint64_t(i) * 4ul).v
#define AULE_LOAD_U32(base, i) U32Ref((base) + uint64_t(i) * 4ul).v
#define AULE_LOAD_I16(base, i) int(I16Ref((base) + uint64_t(i) * 2ul).v)
#define AULE_LOAD_U16(base, i) int(uint(U16Ref((base) + uint64_t(i) * 2ul).v))
#define AULE_LOAD_I8(base, i) int(I8Ref((base) + uint64_t(i)).v)
#define AULE_LOAD_U8(base, i) int(uint(U8Ref((base) + uint64_t(i)).v))
#define AULE_LOAD_F8(base, i, format) decode_float8(uint(U8Ref((base) + uint64_t(i)).v), format)
#define AULE_LOAD_E4M3FN(base, i) AULE_LOAD_F8(base, i, E4M3FN)
#define AULE_LOAD_E5M2(base, i) AULE_LOAD_F8(base, i, E5M2)
#define AULE_LOAD_E4M3FNUZ(base, i) AULE_LOAD_F8(base, i, E4M3FNUZ)
#define AULE_LOAD_E5M2FNUZ(base, i) AULE_LOAD_F8(base, i, E5M2FNUZ)
#define AULE_LOAD_E8M0FNU(base, i) AULE_LOAD_F8(base, i, E8M0FNU)
#define AULE_LOAD_BOOL(base, i) (uint(U8Ref((base) + uint64_t(i)).v) != 0u)

#define AULE_STORE_F32(base, i, x) F32Ref((base) + uint64_t(i) * 4ul).v = (x)
#define AULE_STORE_F16(base, i, x) U16Ref((base) + uint64_t(i) * 2ul).v = uint16_t(float_to_f16(x))
#define AULE_STORE_BF16(base, i, x) U16Ref((base) + uint64_t(i) * 2ul).v = uint16_t(float_to_bf16(x))
#define AULE_STORE_F64(base, i, x) F64Ref((base) + uint64_t(i) * 8ul).v = (x)
#define AULE_STORE_I64(base, i, x) I64Ref((base) + uint64_t(i) * 8ul).v = (x)
#define AULE_STORE_U64(base, i, x) U64BitsRef((base) + uint64_t(i) * 8ul).v = (x)
#define AULE_STORE_I32(base, i, x) I32Ref((base) + uint64_t(i) * 4ul).v = (x)
#define AULE_STORE_U32(base, i, x) U32Ref((base) + uint64_t(i) * 4ul).v = (x)
#define AULE_STORE_I16(base, i, x) I16Ref((base) + uint64_t(i) * 2ul).v = int16_t(x)
#define AULE_STORE_U16(base, i, x) U16Ref((base) + uint64_t(i) * 2ul).v = uint16_t(uint(x))
#define AULE_STORE_I8(base, i, x) I8Ref((base) + uint64_t(i)).v = int8_t(x)
#define AULE_STORE_U8(base, i, x) U8Ref((base) + uint64_t(i)).v = uint8_t(uint(x))
#define AULE_STORE_F8(base, i, x, format) U8Ref((base) + uint64_t(i)).v = uint8_t(code_of_float8(x, format))
#define AULE_STORE_E4M3FN(base, i, x) AULE_STORE_F8(base, i, x, E4M3FN)
#define AULE_STORE_E5M2(base, i, x) AULE_STORE_F8(base, i, x, E5M2)
#define AULE_STORE_E4M3FNUZ(base, i, x) AULE_STORE_F8(base, i, x, E4M3FNUZ)
#define AULE_STORE_E5M2FNUZ(base, i, x) AULE_STORE_F8(base, i, x, E5M2FNUZ)
#define AULE_STORE_E8M0FNU(base, i, x) AULE_STORE_F8(base, i, x, E8M0FNU)
#define AULE_STORE_BOOL(base, i, x) U8Ref((base) + uint64_t(i)).v = uint8_t((x) ? 1u : 0u)

// Element i of loaded words, and into words, by the compute type.
#define AULE_UNPACK_F32(words, i) uintBitsToFloat(words.w[i])
#define AULE_UNPACK_F16(words, i) unpack_float(words, i, AULE_DT_F16)
#define AULE_UNPACK_BF16(words, i) unpack_float(words, i, AULE_DT_BF16)
#define AULE_UNPACK_F64(words, i) unpack_double(words, i, AULE_DT_F64)
#define AULE_UNPACK_I64(words, i) int64_t(unpack_64(words, i))
#define AULE_UNPACK_I32(words, i) int(words.w[i])
#define AULE_UNPACK_I16(words, i) unpack_int(words, i, AULE_DT_I16)
#define AULE_UNPACK_I8(words, i) unpack_int(words, i, AULE_DT_I8)
#define AULE_UNPACK_U8(words, i) unpack_int(words, i, AULE_DT_U8)
#define AULE_UNPACK_BOOL(words, i) (unpack_int(words, i, AULE_DT_BOOL) != 0)
#define AULE_PACK_F32(w, i, x) put_bits(w, i, 4, floatBitsToUint(x))
#define AULE_PACK_F16(w, i, x) put_bits(w, i, 2, float_to_f16(x))
#define AULE_PACK_BF16(w, i, x) put_bits(w, i, 2, float_to_bf16(x))
#define AULE_PACK_F64(w, i, x) pack_double(w, i, AULE_DT_F64, x)
#define AULE_PACK_I64(w, i, x) put_64(w, i, uint64_t(x))
#define AULE_PACK_I32(w, i, x) put_bits(w, i, 4, uint(x))
#define AULE_PACK_I16(w, i, x) put_bits(w, i, 2, uint(x) & 0xffffu)
#define AULE_PACK_I8(w, i, x) put_bits(w, i, 1, uint(x))
#define AULE_PACK_U8(w, i, x) put_bits(w, i, 1, uint(x))
#define AULE_PACK_BOOL(w, i, x) put_bits(w, i, 1, (x) ? 1u : 0u)

// Elements of `size` bytes that may begin between the addresses of whole vectors. 16 bytes are then parts of two
// aligned vectors: each has an element that is asked for, so that nothing outside of the elements' memory is read.
Words load_any_words(uint64_t address, int size, bool is_aligned) {
  if (is_aligned) return load_words(address, size * VEC_ELEMS);
  Words r;
  if (size * VEC_ELEMS == 16) {
    const uint ahead = uint(address) & 15u, bits = (ahead & 3u) * 8u;
    const Words low = load_words(address - ahead, 16), high = load_words((address + 15ul) & ~15ul, 16);
    uint w[8] = uint[8](low.w[0], low.w[1], low.w[2], low.w[3], high.w[0], high.w[1], high.w[2], high.w[3]);
    if ((ahead & 8u) != 0u) {
      [[unroll]] for (int i = 0; i < 6; ++i) w[i] = w[i + 2];
    }
    if ((ahead & 4u) != 0u) {
      [[unroll]] for (int i = 0; i < 5; ++i) w[i] = w[i + 1];
    }
    [[unroll]] for (int i = 0; i < 4; ++i) r.w[i] = bits == 0u ? w[i] : w[i] >> bits | w[i + 1] << (32u - bits);
    return r;
  }
  [[unroll]] for (int i = 0; i < VEC_ELEMS; ++i) {
    const uint64_t at = address + uint64_t(i * size);
    put_bits(r, i, size, size == 4 ? U32Ref(at).v : size == 2 ? uint(U16Ref(at).v) : uint(U8Ref(at).v));
  }
  return r;
}

// A vector of bfloat16, which asks once for all of its elements whether there is a NaN.
Words pack_bf16(float x[VEC_ELEMS]) {
  Words r;
  float sum = abs(x[0]);
  [[unroll]] for (int i = 1; i < VEC_ELEMS; ++i) sum += abs(x[i]);
  [[unroll]] for (int i = 0; i < VEC_ELEMS; i += 2) {
    uint low = floatBitsToUint(x[i]), high = floatBitsToUint(x[i + 1]);
    low += 0x7fffu + bitfieldExtract(low, 16, 1);
    high += 0x7fffu + bitfieldExtract(high, 16, 1);
    r.w[i / 2] = low >> 16 | (high & 0xffff0000u);
  }
  if (is_nan(sum)) {
    [[unroll]] for (int i = 0; i < VEC_ELEMS; ++i) put_bits(r, i, 2, float_to_bf16(x[i]));
  }
  return r;
}

// Functions for each type that computes.
#undef C_float
#undef C_int
#undef C_int64
#ifdef C_double
#define AULE_WITH_DOUBLE
#undef C_double
#endif

#define T float
#define C_float
#include "pointwise/functions/functions.glsl"
#undef T
#undef C_float
#define T int
#define C_int
#include "pointwise/functions/functions.glsl"
#undef T
#undef C_int
// NVIDIA's compiler (580.159) makes wrong remainders where a kernel divides 64 bits by several constants, as x % 7
// beside x // 16, x % 16 and five more. gl_WorkGroupID.z is 0 in all such launches, which a compiler does not know.
#undef DIVISOR
#define DIVISOR(y) ((y) + T(gl_WorkGroupID.z))
#define T int64_t
#define C_int64
#include "pointwise/functions/functions.glsl"
#undef DIVISOR
#undef T
#undef C_int64
#ifdef AULE_WITH_DOUBLE
#define T double
#define C_double
#include "pointwise/functions/functions.glsl"
#undef T
#endif

uint max_(uint x, uint y) { return x > y ? x : y; }
uint min_(uint x, uint y) { return x < y ? x : y; }
uint64_t max_(uint64_t x, uint64_t y) { return x > y ? x : y; }
uint64_t min_(uint64_t x, uint64_t y) { return x < y ? x : y; }
bool max_(bool x, bool y) { return x || y; }
bool min_(bool x, bool y) { return x && y; }
bool is_nan(uint x) { return false; }
bool is_nan(uint64_t x) { return false; }
bool is_nan(bool x) { return false; }

// x / y as divide has it, but that a subnormal x may be flushed to 0, as sums and products of it are: then what is
// asked about a divisor that a whole row has is asked once.
float quotient(float x, float y) {
  const bool is_usual = (floatBitsToUint(y) << 1) - 0x01000000u < 252u << 24;  // from 2^-126, below 2^126
  precise float usual = x / y;
  return is_usual ? usual : divide(x, y);
}
#ifdef AULE_WITH_DOUBLE
double quotient(double x, double y) { return x / y; }
#endif

// e^x by the hardware's 2^x, with the part of x log2(e) that rounding lost: about 2 ulp on GPUs, a fifth of exp_'s
// instructions. Software devices take exp_: nobody knows their 2^x.
#ifdef AULE_SOFTWARE
#define quick_exp exp_
#define quick_tanh tanh_
#define quick_sigmoid sigmoid_
#define softmax_term exp_
#else
float quick_exp(float x) {
  precise float high = x * 1.44269502;
  precise float low = fma(x, 1.44269502, -high) + x * 1.92596299e-8;
  const float y = exp2(high);
  return mix(y, y + y * (low * LN2), abs(high) < 126.0);
}
// The terms of a sum of e^x with x <= 0 whose largest is 1. Where rounding x log2(e) costs much, the term is small.
float softmax_term(float x) { return exp2(x * 1.44269502); }
float quick_tanh(float x) {
  const float a = abs(x), z = x * x;
  const float near = ((((-5.70498872745e-3 * z + 2.06390887954e-2) * z - 5.37397155531e-2) * z + 1.33314422036e-1) * z -
      3.33332819422e-1) * z * x + x;
  const bool is_near = (floatBitsToUint(x) & 0x7fffffffu) - 0x3f200000u > 0x40600000u;  // below 0.625, or NaN
  return with_sign(mix(1.0 - 2.0 / (quick_exp(2.0 * min(a, 16.0)) + 1.0), near, is_near), x);
}
float quick_sigmoid(float x) { return 1.0 / (1.0 + quick_exp(-x)); }
#ifdef AULE_WITH_DOUBLE
double quick_exp(double x) { return exp_(x); }
double softmax_term(double x) { return exp_(x); }
double quick_tanh(double x) { return tanh_(x); }
double quick_sigmoid(double x) { return sigmoid_(x); }
#endif
#endif

// Rounding of results to 16 bits (torch_aule/compile/codegen/arithmetic.py).
float coarse_exp(float x) { return exp2(x * 1.44269502); }
float coarse_sigmoid(float x) { return 1.0 / (1.0 + coarse_exp(-x)); }
// 1 + erf(x) = 2 - erfc(|x|) or erfc(|x|), which is 2^-p(|x|), p a fit for |x| < 5.5 that grows beyond: to 1e-4 of
// itself, without the cancellation of 1 - 0.999.
float coarse_one_plus_erf(float x) {
  const float a = abs(x);
  const float p = (((((((3.818838014e-7 * a + 9.970674940e-6) * a - 3.864330521e-4) * a + 4.767727831e-3) * a -
      3.284691385e-2) * a + 1.512033381e-1) * a + 9.176932158e-1) * a + 1.627969314) * a;
  const float t = exp2(-p);
  return mix(2.0 - t, t, x < 0.0);
}
float coarse_one_plus_tanh(float x) { return 2.0 / (1.0 + coarse_exp(-2.0 * x)); }
// x / y = x divisor_scale(y) divisor_inverse(y) for a y that many x share. The scale is not 1 where 1 / y or y is
// subnormal, which drivers may flush: 2^-4 from 2^126 on, and 2^100 for a subnormal y, read from its bits as y 2^149.
float divisor_scale(float y) {
  const uint bits = floatBitsToUint(y) << 1;  // without the sign
  return bits >= 0xfd000000u ? 0.0625 : bits < 0x01000000u ? uintBitsToFloat(227u << 23) : 1.0;
}
float divisor_inverse(float y) {
  const uint bits = floatBitsToUint(y) << 1;
  if (bits >= 0x01000000u) return 1.0 / (bits >= 0xfd000000u ? y * 0.0625 : y);
  return uintBitsToFloat(176u << 23) / with_sign(float(bits >> 1), y);  // 2^49
}

bool to_bool(float x) { return x != 0.0 || is_nan(x); }
bool to_bool(int x) { return x != 0; }
bool to_bool(uint x) { return x != 0u; }
bool to_bool(int64_t x) { return x != int64_t(0); }
bool to_bool(uint64_t x) { return x != uint64_t(0); }
#ifdef AULE_WITH_DOUBLE
bool to_bool(double x) { return x != 0.0lf || is_nan(x); }
#endif

// lavapipe 22.3 compares sign-extended integers wrongly: there the two words are put together.
#ifdef AULE_SOFTWARE
int64_t widened(int x) { return int64_t(packUint2x32(uvec2(uint(x), uint(x >> 31)))); }
#else
int64_t widened(int x) { return int64_t(x); }
#endif

// Narrow integers compute as int.
int wrap_i8(int x) { return bitfieldExtract(x, 0, 8); }
int wrap_i16(int x) { return bitfieldExtract(x, 0, 16); }
int wrap_u8(int x) { return x & 255; }
int wrap_u16(int x) { return x & 65535; }

// Values as they are after a trip through memory.
float round_f16(float x) { return unpackHalf2x16(float_to_f16(x)).x; }
float round_bf16(float x) { return bf16_to_float(float_to_bf16(x)); }

int floor_div(int a, int b) { return div_floor(a, b); }
int64_t floor_div(int64_t a, int64_t b) { return div_floor(a, b); }
int floor_mod(int a, int b) { return remainder_(a, b); }
int64_t floor_mod(int64_t a, int64_t b) { return remainder_(a, b); }

// Draws of torch.rand and its kin in compiled code: a counter-based generator at (seed, offset).
uvec4 draw(int64_t seed, int64_t offset) {
  return philox_draw(Philox(uvec2(uint(seed), uint(seed >> 32)), uint64_t(0)), uint64_t(offset), 0u);
}
float rand_(int64_t seed, int64_t offset) { return uniform01(draw(seed, offset).x); }
float randn_(int64_t seed, int64_t offset) {
  const uvec4 bits = draw(seed, offset);
  const float radius = sqrt(-2.0 * log_(1.0 - uniform01(bits.x)));
  return radius * cos_(6.28318530717958647692 * uniform01(bits.y));
}
int64_t randint_(int64_t seed, int64_t offset, int64_t low, int64_t high) {
  const uvec4 bits = draw(seed, offset);
  const uint64_t range = uint64_t(high - low);
  if (range == uint64_t(0)) return low;
  if (range <= 0xfffffffful) return low + int64_t(uint64_t(bits.x) % range);
  return low + int64_t(packUint2x32(bits.xy) % range);
}

// The value of the invocation whose number in the subgroup differs by `apart`, a power of two.
#ifdef AULE_SHUFFLES
float shuffle_xor(float x, uint apart) { return subgroupShuffleXor(x, apart); }
int shuffle_xor(int x, uint apart) { return subgroupShuffleXor(x, apart); }
uint shuffle_xor(uint x, uint apart) { return subgroupShuffleXor(x, apart); }
bool shuffle_xor(bool x, uint apart) { return subgroupShuffleXor(x ? 1u : 0u, apart) != 0u; }
int64_t shuffle_xor(int64_t x, uint apart) {
  return int64_t(packUint2x32(subgroupShuffleXor(unpackUint2x32(uint64_t(x)), apart)));
}
uint64_t shuffle_xor(uint64_t x, uint apart) { return packUint2x32(subgroupShuffleXor(unpackUint2x32(x), apart)); }
#ifdef AULE_WITH_DOUBLE
double shuffle_xor(double x, uint apart) { return packDouble2x32(subgroupShuffleXor(unpackDouble2x32(x), apart)); }
#endif
#endif

// Additions by several invocations. Without the device's own for float32, by compare and exchange.
#define AULE_ATOMIC_ADD_I32(base, i, x) atomicAdd(I32Ref((base) + uint64_t(i) * 4ul).v, x)
#define AULE_ATOMIC_ADD_F32(base, i, x) atomic_add_f32((base) + uint64_t(i) * 4ul, x)
void atomic_add_f32(uint64_t address, float x) {
#ifdef AULE_ATOMIC_FLOAT
  atomicAdd(F32Ref(address).v, x);
#else
  U32Ref word = U32Ref(address);
  uint seen = word.v;
  for (;;) {  // an exchange fails because another one succeeded
    const uint was = atomicCompSwap(word.v, seen, floatBitsToUint(uintBitsToFloat(seen) + x));
    if (was == seen) return;
    seen = was;
  }
#endif
}
