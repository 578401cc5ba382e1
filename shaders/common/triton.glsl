// Functions for kernels that torch_aule/triton writes. Its templates name an operand once, so what needs one twice is
// here. TRITON_DOUBLE is defined where a kernel has float64.
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_control_flow_attributes : require
#include "common/indexing.glsl"
#include "common/dtype.glsl"
#include "common/half.glsl"
#include "common/float8.glsl"
#include "pointwise/functions/math.glsl"
#include "pointwise/functions/math_special.glsl"
#ifdef TRITON_DOUBLE
#include "pointwise/functions/math_double.glsl"
#include "pointwise/functions/math_special_double.glsl"
#endif

// An index into shared memory with a word more after each 32, so that a column's words are in different banks.
int spread(int i) { return i + (i >> 5); }

#ifdef GL_KHR_shader_subgroup_shuffle
#define lane_before(x, step) subgroupShuffle(x, uint(max(int(gl_SubgroupInvocationID) - (step), 0)))
#endif

float bf16_rounded(float x) { return bf16_to_float(float_to_bf16(x)); }
float16_t to_half(float x) { return uint16BitsToFloat16(uint16_t(float_to_f16(x))); }
bool is_finite(float x) { return (floatBitsToUint(x) & 0x7fffffffu) < 0x7f800000u; }
float copy_sign(float x, float s) { return with_sign(abs(x), s); }
float divided(float a, float b) { return a / b; }
// Half away from zero; adding 0.5 would round 0.49999997 up.
float round_away(float x) {
  const float t = trunc(x);
  return abs(x - t) >= 0.5 ? t + sign(x) : t;
}

bool float_ord(float a, float b) { return !is_nan(a) && !is_nan(b); }
bool float_uno(float a, float b) { return is_nan(a) || is_nan(b); }
bool float_one(float a, float b) { return a < b || a > b; }
bool float_une(float a, float b) { return is_nan(a) || is_nan(b) || a != b; }
bool float_ueq(float a, float b) { return is_nan(a) || is_nan(b) || a == b; }
bool float_ult(float a, float b) { return is_nan(a) || is_nan(b) || a < b; }
bool float_ule(float a, float b) { return is_nan(a) || is_nan(b) || a <= b; }
bool float_ugt(float a, float b) { return is_nan(a) || is_nan(b) || a > b; }
bool float_uge(float a, float b) { return is_nan(a) || is_nan(b) || a >= b; }
float max_nan(float a, float b) { return is_nan(a) ? a : is_nan(b) ? b : max(a, b); }
float min_nan(float a, float b) { return is_nan(a) ? a : is_nan(b) ? b : min(a, b); }
float clamp_nan(float x, float low, float high) { return is_nan(x) ? x : clamp(x, low, high); }

// GLSL's % of negative numbers is undefined; the sign here is the dividend's.
int remainder_of(int a, int b) { return a - a / b * b; }
int64_t remainder_of(int64_t a, int64_t b) { return a - a / b * b; }
int ceil_divided(int a, int b) { return a / b + ((remainder_of(a, b) != 0 && (a < 0) == (b < 0)) ? 1 : 0); }
int floor_divided(int a, int b) { return a / b - ((remainder_of(a, b) != 0 && (a < 0) != (b < 0)) ? 1 : 0); }
// The order of int64_t as that of uint64_t: Mesa 22.3 compares int64_t(an int) and a literal wrongly.
uint64_t ordered(int64_t x) { return uint64_t(x) ^ 0x8000000000000000ul; }
// By comparisons: 64-bit min and max gave wrong values on a driver (common/indexing.glsl).
int larger(int a, int b) { return a < b ? b : a; }
int smaller(int a, int b) { return b < a ? b : a; }
uint larger(uint a, uint b) { return a < b ? b : a; }
uint smaller(uint a, uint b) { return b < a ? b : a; }
int64_t larger(int64_t a, int64_t b) { return ordered(a) < ordered(b) ? b : a; }
int64_t smaller(int64_t a, int64_t b) { return ordered(b) < ordered(a) ? b : a; }
uint64_t larger(uint64_t a, uint64_t b) { return a < b ? b : a; }
uint64_t smaller(uint64_t a, uint64_t b) { return b < a ? b : a; }

int mul_high_unsigned(int a, int b) {
  uint high, low;
  umulExtended(uint(a), uint(b), high, low);
  return int(high);
}
int mul_high_signed(int a, int b) {
  int high, low;
  imulExtended(a, b, high, low);
  return high;
}
int64_t mul_high_unsigned(int64_t a, int64_t b) {
  const uint64_t half_ = 0xfffffffful, x = uint64_t(a), y = uint64_t(b);
  const uint64_t low = (x & half_) * (y & half_), one = (x >> 32) * (y & half_), two = (x & half_) * (y >> 32);
  const uint64_t middle = (low >> 32) + (one & half_) + (two & half_);
  return int64_t((x >> 32) * (y >> 32) + (one >> 32) + (two >> 32) + (middle >> 32));
}

#ifdef TRITON_DOUBLE
bool float_ord(double a, double b) { return !is_nan(a) && !is_nan(b); }
bool float_uno(double a, double b) { return is_nan(a) || is_nan(b); }
bool float_une(double a, double b) { return is_nan(a) || is_nan(b) || a != b; }
double max_nan(double a, double b) { return is_nan(a) ? a : is_nan(b) ? b : max(a, b); }
double min_nan(double a, double b) { return is_nan(a) ? a : is_nan(b) ? b : min(a, b); }
double copy_sign(double x, double s) { return (s < 0.0lf) != (x < 0.0lf) ? -x : x; }
double divided(double a, double b) { return a / b; }
#endif
