// Poisson draws, one invocation per element with its own Philox subsequence. Rates below 10: products of uniforms
// (Knuth) until they fall under exp(-rate). Above: Hoermann's transformed rejection PTRS ("The transformed rejection
// method for generating Poisson random variables", 1993), accepted with probability over 0.85 a round.
layout(local_size_x = 128) in;
#include "common/dtype.glsl"
#include "common/errors.glsl"
#include "common/indexing.glsl"
#include "common/philox.glsl"
#include "random/open_uniform.glsl"

struct Params {
  uint64_t rates;  // float32, contiguous
  uint64_t dst;
  uint64_t error;
  uint64_t n;
  uint64_t seed, offset, state;
  uint tag;
};
#include "common/params.glsl"

// log(k!) by Stirling's series, exact enough from k = 10; smaller ones by their product.
float log_factorial(float k) {
  if (k < 10.0) {
    float product = 1.0;
    for (float i = 2.0; i <= k; i += 1.0) product *= i;
    return log(product);
  }
  float x = k + 1.0, inverse = 1.0 / x;
  return (x - 0.5) * log(x) - x + 0.918938533 + inverse * (0.0833333333 - inverse * inverse * 0.00277777778);
}

void main() {
  uint64_t i = linear_invocation();
  if (i >= p.n) return;
  float rate = F32Ref(p.rates + i * 4).v;
  if (!(rate >= 0.0)) {
    report_error(p.error, AULE_ERR_INVALID_PROBABILITY, p.tag, int64_t(i), int64_t(p.n));
    return;
  }
  Philox g = philox_begin(p.seed, p.offset, p.state);
  float result = 0.0;
  if (rate < 10.0) {
    float limit = exp(-rate), product = 1.0;
    for (uint step = 0u; step < 32u; ++step) {
      uvec4 bits = philox_draw(g, i, step);
      bool done = false;
      for (int k = 0; k < 4; ++k) {
        product *= positive(bits[k]);
        if (product <= limit) {
          done = true;
          break;
        }
        result += 1.0;
      }
      if (done) break;
    }
  } else {
    float root = sqrt(rate), b = 0.931 + 2.53 * root, a = -0.059 + 0.02483 * b;
    float inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), v_r = 0.9277 - 3.6224 / (b - 2.0);
    result = floor(rate);
    for (uint step = 0u; step < 128u; ++step) {
      uvec4 bits = philox_draw(g, i, step);
      float u = positive(bits.x) - 0.5, v = positive(bits.y);
      float us = 0.5 - abs(u), k = floor((2.0 * a / us + b) * u + rate + 0.43);
      if (us >= 0.07 && v <= v_r) {
        result = k;
        break;
      }
      if (k < 0.0 || (us < 0.013 && v > us)) continue;
      if (log(v) + log(inverse_alpha) - log(a / (us * us) + b) <= -rate + k * log(rate) - log_factorial(k)) {
        result = k;
        break;
      }
    }
  }
  F32Ref(p.dst + i * 4).v = result;
}
