#pragma aule axis C float double
#pragma aule feature float64 if C=double
// Rounds x to the numbers of a quantization, and back: q = round(zero_point + x / scale), half to even,
//   y = (clamp(q, quant_min, quant_max) - zero_point) * scale,  mask = quant_min <= q <= quant_max
// GRADIENTS, of learnable scale and zero point, with dy in place of a mask that is written: y is dx = dy * mask, and
// two tensors get the terms of the other gradients, before their sums. One invocation per element; scale and zero point
// are numbers, or tensors: of one element, or of one for each channel of [outer, channels, inner].
layout(local_size_x = 128) in;
#include "common/dtype.glsl"
#include "common/float_bits.glsl"
#include "common/half_even.glsl"
#include "common/indexing.glsl"
#include "common/real.glsl"

layout(constant_id = 0) const int DTYPE = AULE_DT_F32;
layout(constant_id = 1) const bool TENSORS = false;          // scale and zero point are tensors
layout(constant_id = 2) const int SCALE_DTYPE = AULE_DT_F32;
layout(constant_id = 3) const int ZERO_DTYPE = AULE_DT_I32;
layout(constant_id = 4) const int ZERO = 0;                  // of zero_points.def
layout(constant_id = 5) const bool SWITCHED = false;         // `enabled` says whether to round at all
layout(constant_id = 6) const int SWITCH_DTYPE = AULE_DT_U8;
layout(constant_id = 7) const bool GRADIENTS = false;
#define ZERO_POINT(code, name) const int ZERO_##name = code;
#include "quantize/zero_points.def"

struct Params {
  uint64_t x, scale_, zero_point_, enabled;
  uint64_t y, mask;                   // bool
  uint64_t dy, scale_terms, zero_terms;  // GRADIENTS
  uint64_t n, inner;
  uint channels;
  float scale, inverse, zero_point, quant_min, quant_max, factor;  // inverse: of scale
};
#include "common/params.glsl"

void main() {
  const uint64_t i = linear_invocation();
  if (i >= p.n) return;
  const REAL x = LOAD(p.x, i, DTYPE);
  float scale = p.scale, inverse = p.inverse, zero = p.zero_point;
  if (TENSORS) {
    const uint64_t channel = i / p.inner % uint64_t(p.channels);
    scale = load_float(p.scale_, channel, SCALE_DTYPE);
    inverse = 1.0 / scale;
    zero = load_float(p.zero_point_, channel, ZERO_DTYPE);
  }
  if (ZERO == ZERO_cut) zero = trunc(clamp(zero + 0.5, p.quant_min, p.quant_max));
  if (ZERO == ZERO_rounded) zero = clamp(roundEven(zero), p.quant_min, p.quant_max);
  if (SWITCHED && load_float(p.enabled, uint64_t(0), SWITCH_DTYPE) == 0.0) {
    STORE(p.y, i, DTYPE, x);
    U8Ref(p.mask + i).v = uint8_t(1);
    return;
  }
  const REAL low = REAL(p.quant_min), high = REAL(p.quant_max), scaled = x * REAL(inverse);
  // As PyTorch's CPU, also where x / scale is a half and the zero point odd: gradients round the sum.
  const REAL q = !GRADIENTS && (is_integer_dtype(ZERO_DTYPE) || ZERO != ZERO_plain) ? REAL(zero) + half_even(scaled)
                                                                                    : half_even(REAL(zero) + scaled);
  const bool inside = q >= low && q <= high;
  const REAL back = ((q > low ? q < high ? q : high : low) - REAL(zero)) * REAL(scale);
  if (!GRADIENTS) {
    STORE(p.y, i, DTYPE, back);
    U8Ref(p.mask + i).v = uint8_t(inside ? 1 : 0);
    return;
  }
  const REAL dy = LOAD(p.dy, i, DTYPE), factor = REAL(p.factor);
  STORE(p.y, i, DTYPE, inside ? dy : REAL(0));
  const REAL slope = inside ? (back - x) * REAL(inverse) : (q < low ? low : high) - REAL(zero);
  STORE(p.scale_terms, i, REAL_DTYPE, dy * slope * factor);
  STORE(p.zero_terms, i, REAL_DTYPE, inside ? REAL(0) : -dy * REAL(scale) * factor);
}
