#pragma aule axis C float double
#pragma aule feature float64 if C=double
// Fills a dense tensor with draws of one distribution (KIND). One invocation draws for 4 elements, 128 apart, so that
// neighbouring invocations write neighbouring elements. Its Philox subsequence is its linear id, so an element's value
// depends on the seed, the offset and its position only.
// Normals are Box-Muller, exponentials and geometrics are logarithms of 32-bit draws in (0, 1]. In the double variant
// only uniform and bernoulli draw 53 bits. The others are float32 values widened, because GLSL has no double logarithm.
layout(local_size_x = 128) in;
#include "common/dtype.glsl"
#include "common/errors.glsl"
#include "common/indexing.glsl"
#include "common/philox.glsl"

layout(constant_id = 0) const int DTYPE = AULE_DT_F32;
layout(constant_id = 1) const int KIND = 0;
layout(constant_id = 2) const int P_DTYPE = AULE_DT_F32;  // of probabilities
#define RANDOM_KIND(code, name) const int KIND_##name = code;
#include "random/kinds.def"

struct Params {
  uint64_t dst;
  uint64_t probabilities;  // bernoulli with a tensor
  uint64_t error;
  uint64_t n;
  uint64_t seed, offset, state;
  uint64_t range;           // integers: base + [0, range), 0 means 2^64; bernoulli: p in 2^-32
  int64_t base;
  uint64_t a_bits, b_bits;  // of doubles: uniform's bounds, bernoulli's p
  float a, b;               // uniform: from, to; normal: mean, std; exponential: lambda; geometric: b = log(1 - p)
  uint tag;
};
#include "common/params.glsl"

#include "common/real.glsl"
#ifdef C_double
double bits_to_double(uint64_t b) { return packDouble2x32(uvec2(uint(b), uint(b >> 32))); }
#endif

// [0, 1) with no more bits than the storage dtype has, because rounding could give 1.
REAL uniform_draw(uint x, uint y) {
#ifdef C_double
  return (double(x >> 5) * 67108864.0lf + double(y >> 6)) * (1.0lf / 9007199254740992.0lf);
#else
  if (DTYPE == AULE_DT_BF16) return float(x >> 24) * (1.0 / 256.0);
  if (DTYPE == AULE_DT_F16) return float(x >> 21) * (1.0 / 2048.0);
  return uniform01(x);
#endif
}
// (0, 1] with 32 bits.
float positive_draw(uint x) { return (float(x) + 1.0) * (1.0 / 4294967296.0); }

vec2 normal_pair(uint x, uint y) {
  float r = sqrt(-2.0 * log(positive_draw(x)));
  float t = 6.28318530717958647692 * uniform01(y);
  return vec2(r * cos(t), r * sin(t));
}

REAL rounded_to_storage(REAL x) {
#ifdef C_double
  return x;
#else
  if (DTYPE == AULE_DT_BF16) return bf16_to_float(float_to_bf16(x));
  if (DTYPE == AULE_DT_F16) return unpackHalf2x16(packHalf2x16(vec2(x, 0.0))).x;
  return x;
#endif
}

uint64_t integer_draw(uint x, uint y) {
  uint64_t r = (uint64_t(x) << 32) | uint64_t(y);
  if (p.range == uint64_t(0)) return r;
  if (p.range >> 32 != uint64_t(0)) return r % p.range;
  // r * range / 2^64 without a division
  return (uint64_t(x) * p.range + ((uint64_t(y) * p.range) >> 32)) >> 32;
}

void store_one(uint64_t i, uint x, uint y, float normal) {
  switch (KIND) {
    case KIND_uniform: {
#ifdef C_double
      REAL from = bits_to_double(p.a_bits), to = bits_to_double(p.b_bits);
#else
      REAL from = p.a, to = p.b;
#endif
      REAL v = rounded_to_storage(uniform_draw(x, y) * (to - from) + from);
      STORE(p.dst, i, DTYPE, v >= to && to > from ? from : v);
      break;
    }
    case KIND_normal: STORE(p.dst, i, DTYPE, REAL(normal) * REAL(p.b) + REAL(p.a)); break;
    case KIND_log_normal: STORE(p.dst, i, DTYPE, REAL(exp(normal * p.b + p.a))); break;
    case KIND_bernoulli: {
#ifdef C_double
      bool hit = uniform_draw(x, y) < bits_to_double(p.a_bits);
#else
      bool hit = uint64_t(x) < p.range;
#endif
      STORE(p.dst, i, DTYPE, hit ? REAL(1) : REAL(0));
      break;
    }
    case KIND_bernoulli_tensor: {
      REAL q = LOAD(p.probabilities, i, P_DTYPE);
      if (!(q >= REAL(0) && q <= REAL(1))) report_error(p.error, AULE_ERR_INVALID_PROBABILITY, p.tag, int64_t(i),
          int64_t(p.n));
#ifdef C_double
      bool hit = uniform_draw(x, y) < q;
#else
      bool hit = q >= 1.0 || x < uint(max(q, 0.0) * 4294967296.0);  // a NaN is reported
#endif
      STORE(p.dst, i, DTYPE, hit ? REAL(1) : REAL(0));
      break;
    }
    case KIND_exponential: {
      // Never 0: the logarithm's smallest magnitude is half a rounding step of 1.
      float v = positive_draw(x);
      float l = v >= 1.0 - 5.9604645e-8 ? -5.9604645e-8 : log(v);
      STORE(p.dst, i, DTYPE, REAL(-l / p.a));
      break;
    }
    case KIND_integer: {
      int64_t v = p.base + int64_t(integer_draw(x, y));
#ifdef C_double
      store_double(p.dst, i, DTYPE, double(v));
#else
      store_int64(p.dst, i, DTYPE, v);
#endif
      break;
    }
    case KIND_geometric: {
      // Inversion: ceil(log(u) / log(1 - p)).
      float v = max(ceil(log(positive_draw(x)) / p.b), 1.0);
      STORE(p.dst, i, DTYPE, REAL(v));
      break;
    }
    case KIND_cauchy: {
      float u = (float(x >> 9) + 0.5) * (1.0 / 8388608.0);
      STORE(p.dst, i, DTYPE, REAL(p.a + p.b * tan(3.14159265358979323846 * (u - 0.5))));
      break;
    }
  }
}

void main() {
  Philox g = philox_begin(p.seed, p.offset, p.state);
  uint64_t id = linear_invocation();
  uvec4 x = philox_draw(g, id, 0u);
  // 64 bits for each element where 32 are not enough.
  uvec4 y = uvec4(0u);
#ifdef C_double
  bool wide = KIND == KIND_uniform || KIND == KIND_bernoulli || KIND == KIND_bernoulli_tensor || KIND == KIND_integer;
#else
  bool wide = KIND == KIND_integer;
#endif
  if (wide) y = philox_draw(g, id, 1u);
  vec4 normal = vec4(0.0);
  if (KIND == KIND_normal || KIND == KIND_log_normal) normal = vec4(normal_pair(x.x, x.y), normal_pair(x.z, x.w));
  uint64_t first = uint64_t(linear_group()) * 512 + uint64_t(gl_LocalInvocationID.x);
  [[unroll]] for (int k = 0; k < 4; ++k) {
    uint64_t i = first + uint64_t(k * 128);
    if (i < p.n) store_one(i, x[k], y[k], normal[k]);
  }
}
