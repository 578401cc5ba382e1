// Binomial draws, one invocation per element with its own Philox subsequence. Means below 10 of the rarer outcome: its
// waiting times, which are geometric. Above: Hoermann's BTRS ("The generation of binomial random variates", 1993),
// accepted with probability over 0.79 a round; the quotient of probabilities is Loader's ("Fast and accurate
// computation of binomial probabilities", 2000), whose terms do not cancel in float32. Counts are exact up to 2^24.
layout(local_size_x = 128) in;
#include "common/dtype.glsl"
#include "common/float_bits.glsl"
#include "common/indexing.glsl"
#include "common/philox.glsl"
#include "random/open_uniform.glsl"

struct Params {
  uint64_t counts, probabilities;  // float32, contiguous
  uint64_t dst;
  uint64_t n;
  uint64_t seed, offset, state;
};
#include "common/params.glsl"
#include "common/real.glsl"
#include "random/log_ratio.glsl"

// log(k!) - log(sqrt(2 pi k) (k / e)^k) of k > 0.
float stirling_error(float k) {
  const float small[9] = float[9](0.0810614668, 0.0413406960, 0.0276779257, 0.0207906721, 0.0166446912, 0.0138761288,
      0.0118967099, 0.0104112653, 0.0092554622);
  if (k < 10.0) return small[clamp(int(k) - 1, 0, 8)];
  const float r = 1.0 / k, z = r * r;
  return r * (1.0 / 12.0 - z * (1.0 / 360.0 - z * (1.0 / 1260.0)));
}
// x log(x / mean) + mean - x
float deviance(float x, float mean) {
  const float r = (x - mean) / mean;
  return mean * (r * r - (1.0 + r) * minus_log1p(r));
}
// log of the probability of k of n, 0 <= k <= n, without the terms of n alone.
float log_probability(float k, float n, float q, float other) {
  if (k == 0.0) return n * log(other) - 0.5 * log(n) - stirling_error(n) + 0.9189385332;
  if (k == n) return n * log(q) - 0.5 * log(n) - stirling_error(n) + 0.9189385332;
  return -0.5 * (log(k) + log(n - k)) - stirling_error(k) - stirling_error(n - k) - deviance(k, n * q) -
      deviance(n - k, n * other);
}

float by_waiting(Philox g, uint64_t i, float n, float q) {
  const float l = q < 0.01 ? -q * (1.0 + q * (0.5 + q * (1.0 / 3.0 + q * 0.25))) : log(1.0 - q);
  float waited = 0.0, hits = 0.0;
  for (uint step = 0u; step < 64u; ++step) {
    const uvec4 bits = philox_draw(g, i, step);
    for (int k = 0; k < 4; ++k) {
      waited += max(ceil(log(positive(bits[k])) / l), 1.0);
      if (waited > n) return hits;
      hits += 1.0;
    }
  }
  return hits;
}
float by_rejection(Philox g, uint64_t i, float n, float q) {
  const float other = 1.0 - q, deviation = sqrt(n * q * other), b = 1.15 + 2.53 * deviation;
  const float a = -0.0873 + 0.0248 * b + 0.01 * q, center = n * q + 0.5, v_r = 0.92 - 4.2 / b;
  const float alpha = (2.83 + 5.1 / b) * deviation, mode = floor((n + 1.0) * q);
  const float most = log_probability(mode, n, q, other);
  for (uint step = 0u; step < 128u; ++step) {
    const uvec4 bits = philox_draw(g, i, step);
    const float u = positive(bits.x) - 0.5, v = positive(bits.y);
    const float us = 0.5 - abs(u), k = floor((2.0 * a / us + b) * u + center);
    if (k < 0.0 || k > n) continue;
    if (us >= 0.07 && v <= v_r) return k;
    if (log(v * alpha / (a / (us * us) + b)) <= log_probability(k, n, q, other) - most) return k;
  }
  return mode;
}

void main() {
  uint64_t i = linear_invocation();
  if (i >= p.n) return;
  const float n = floor(F32Ref(p.counts + i * 4).v), q = F32Ref(p.probabilities + i * 4).v;
  const Philox g = philox_begin(p.seed, p.offset, p.state);
  float result = AULE_NAN;
  if (is_nan(q) || !is_finite(n)) {
    // stays
  } else if (n <= 0.0 || q <= 0.0) {
    result = 0.0;
  } else if (q >= 1.0) {
    result = n;
  } else {
    const float rare = q <= 0.5 ? q : 1.0 - q;
    const float hits = n * rare < 10.0 ? by_waiting(g, i, n, rare) : by_rejection(g, i, n, rare);
    result = q <= 0.5 ? hits : n - hits;
  }
  F32Ref(p.dst + i * 4).v = result;
}
