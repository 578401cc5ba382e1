// Standard gamma draws, one invocation per element with its own Philox subsequence: Marsaglia and Tsang, "A simple
// method for generating gamma variables" (2000), accepted with probability over 0.95 a round. Of shapes below 1, a draw
// of shape + 1 times u^(1 / shape). LOG: their logarithms, which hold draws of the smallest shapes.
layout(local_size_x = 128) in;
#include "common/dtype.glsl"
#include "common/float_bits.glsl"
#include "common/indexing.glsl"
#include "common/philox.glsl"
#include "random/open_uniform.glsl"

layout(constant_id = 0) const bool LOG = false;

struct Params {
  uint64_t shapes;  // float32, contiguous
  uint64_t dst;
  uint64_t n;
  uint64_t seed, offset, state;
};
#include "common/params.glsl"

void main() {
  uint64_t i = linear_invocation();
  if (i >= p.n) return;
  const float shape = F32Ref(p.shapes + i * 4).v;
  Philox g = philox_begin(p.seed, p.offset, p.state);
  const float boost = shape < 1.0 ? log(positive(philox_draw(g, i, 0u).x)) / shape : 0.0;
  const float d = (shape < 1.0 ? shape + 1.0 : shape) - 1.0 / 3.0, c = inversesqrt(9.0 * d);
  float v = 1.0;
  for (uint step = 1u; step < 64u; ++step) {
    const uvec4 bits = philox_draw(g, i, step);
    const float x = normal2(bits.x, bits.y).x, y = 1.0 + c * x;
    if (y <= 0.0) continue;
    v = y * y * y;
    if (log(positive(bits.z)) < 0.5 * x * x + d * (1.0 - v + log(v))) break;
  }
  float result = LOG ? log(d) + log(v) + boost : d * v * exp(boost);
  if (shape == 0.0) result = LOG ? -AULE_INF : 0.0;
  if (is_nan(shape) || shape < 0.0) result = AULE_NAN;
  F32Ref(p.dst + i * 4).v = result;
}
