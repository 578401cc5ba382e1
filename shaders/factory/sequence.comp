#pragma aule axis C float double
#pragma aule feature float64 if C=double
// Contiguous dst[i], by KIND:
//   0, 1   start + i * step, in int64 (0) or in C (1)
//   2      base to the power of that
//   3      linspace, computed from the nearer end, so that the last element is exactly `end`
// In the float variant start and step have a low part, and start + i * step has an error term. So a float32 sequence is
// rounded once, and the step's rounding error is not multiplied by i.
layout(local_size_x = 128) in;
#include "common/dtype.glsl"
#include "common/indexing.glsl"

layout(constant_id = 0) const int DTYPE = AULE_DT_F32;
layout(constant_id = 1) const int KIND = 0;
#define SEQUENCE_KIND(code, name) const int KIND_##name = code;
#include "factory/sequence_kinds.def"

struct Params {
  uint64_t dst;
  uint64_t n;
  int64_t integer_start, integer_step;
  uint64_t start_bits, step_bits, end_bits;  // of doubles
  float start, start_low, step, step_low, end, end_low;
  float log2_base;
};
#include "common/params.glsl"

#include "common/real.glsl"
#ifdef C_double
double bits_to_double(uint64_t b) { return packDouble2x32(uvec2(uint(b), uint(b >> 32))); }
double line(uint64_t i, uint64_t from, uint64_t step) { return bits_to_double(from) +
    double(int64_t(i)) * bits_to_double(step); }
#define START p.start_bits
#define STEP p.step_bits
#else
// from + i * step in twofold precision, i up to 2^48.
float line(uint64_t i, vec2 from, vec2 step) {
  precise float result;
  precise float upper = float(uint(i >> 24)) * 16777216.0, lower = float(uint(i) & 0xffffffu);
  precise float a = upper * step.x, ae = fma(upper, step.x, -a);
  precise float b = lower * step.x, be = fma(lower, step.x, -b);
  precise float s = a + b, v = s - a, se = (a - (s - v)) + (b - v);
  precise float t = from.x + s, w = t - from.x, te = (from.x - (t - w)) + (s - w);
  result = t + (te + (se + (ae + be) + (upper + lower) * step.y + from.y));
  return result;
}
#define START vec2(p.start, p.start_low)
#define STEP vec2(p.step, p.step_low)
#endif

void main() {
  uint64_t i = linear_invocation();
  if (i >= p.n) return;
  if (KIND == KIND_integer) {
    int64_t v = p.integer_start + int64_t(i) * p.integer_step;
#ifdef C_double
    store_double(p.dst, i, DTYPE, double(v));
#else
    store_int64(p.dst, i, DTYPE, v);
#endif
    return;
  }
  REAL x;
  if (KIND == KIND_linear || KIND == KIND_power) {
    bool early = i < p.n / 2;
#ifdef C_double
    x = early ? line(i, p.start_bits, p.step_bits) : bits_to_double(p.end_bits) -
        double(int64_t(p.n - 1 - i)) * bits_to_double(p.step_bits);
#else
    x = early ? line(i, START, STEP) : line(p.n - 1 - i, vec2(p.end, p.end_low), vec2(-p.step, -p.step_low));
#endif
    if (KIND == KIND_power) x = REAL(exp2(float(x) * p.log2_base));
  } else {
    x = line(i, START, STEP);
  }
  STORE(p.dst, i, DTYPE, x);
}
