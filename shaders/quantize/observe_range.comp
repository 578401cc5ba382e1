// Moves the running range [low, high] of each channel to that of a tensor, where `observed` is not 0, and makes scale
// and zero point of it, where `quantized` is not 0: Jacob et al. 2018 (arXiv:1712.05877), section 3.
//   low += rate * (x_low - low), or x_low where low is infinite; high likewise
//   scale = (max(high, 0) - min(low, 0)) / (quant_max - quant_min)
//   zero_point = quant_min - min(low, 0) / scale, rounded, within quant_min .. quant_max
// symmetric: a range about 0, with the middle of quant_min and quant_max for it. One invocation per channel. The
// arithmetic is that of PyTorch's CPU to the last bit, which rounds to float32 after most of its steps: float64 by
// integers, so that no device divides otherwise or flushes subnormal numbers.
layout(local_size_x = 64) in;
#define VEC_ELEMS 4
#include "common/dtype.glsl"
#include "common/indexing.glsl"
#include "common/vec8.glsl"
#include "common/double_bits.glsl"

layout(constant_id = 0) const int X_DTYPE = AULE_DT_F32;        // of x_low and x_high
layout(constant_id = 1) const int RANGE_DTYPE = AULE_DT_F32;
layout(constant_id = 2) const int SCALE_DTYPE = AULE_DT_F32;
layout(constant_id = 3) const int ZERO_DTYPE = AULE_DT_I32;
layout(constant_id = 4) const int OBSERVED_DTYPE = AULE_DT_I64;
layout(constant_id = 5) const int QUANTIZED_DTYPE = AULE_DT_I64;

struct Params {
  uint64_t x_low, x_high, low, high, scale_, zero_point, observed, quantized;
  uint n;  // channels
  int quant_min, quant_max, symmetric;
  float rate;
};
#include "common/params.glsl"

// Numbers of float32 as float64. Rounding twice is rounding once: float64 has more than twice the bits.
uint64_t rounded(uint64_t x) { return d_from_float_bits(d_to_float_bits(x)); }
uint64_t single(float x) { return d_from_float_bits(floatBitsToUint(x)); }
uint64_t negative(uint64_t x) { return x ^ D_SIGN; }
uint64_t product(uint64_t x, uint64_t y) { return rounded(d_mul(x, y)); }
uint64_t quotient(uint64_t x, uint64_t y) { return rounded(d_div(x, y)); }

uint64_t moved(uint64_t from, uint64_t to) {
  if (d_abs(from) == D_INF) return rounded(to);
  return rounded(d_add(from, product(single(p.rate), rounded(d_add(to, negative(from))))));
}

bool is_on(uint64_t address, int dt) { return load_int64(address, uint64_t(0), dt) != int64_t(0); }

struct Range {
  uint64_t low, high;
};
bool about_zero(Range r) { return d_less(r.low, uint64_t(0)) && d_less(uint64_t(0), r.high); }

// With 0 in it. What comparisons of a NaN leave stays NaN.
Range with_zero(Range r) {
  if (p.symmetric != 0 && about_zero(r)) {
    const int half_steps = (p.quant_max - p.quant_min) / 2;
    const uint64_t below = d_from_int(-(half_steps + 1)), above = d_from_int(half_steps);
    const uint64_t a = d_abs(quotient(r.low, rounded(below))), b = d_abs(quotient(r.high, rounded(above)));
    const uint64_t wider = d_less(a, b) ? b : a;
    r = Range(product(wider, below), product(wider, above));
  }
  if (d_less(uint64_t(0), r.low)) r.low = uint64_t(0);
  if (d_less(r.high, uint64_t(0))) r.high = uint64_t(0);
  return r;
}

// The scale of r, which is widened where that is too small: below 6.1e-5, near the least normal float16.
uint64_t scale_of(inout Range r) {
  const uint64_t steps = d_from_int(p.quant_max - p.quant_min), least = single(6.1e-5);
  uint64_t scale = quotient(d_add(r.high, negative(r.low)), steps);
  // 1 / scale is no float32 at or below 2^-128.
  if (d_less_equal(scale, uint64_t(895) << 52)) scale = single(0.1);
  if (!d_less(scale, least)) return scale;
  const uint64_t range = product(least, steps), up = quotient(least, scale);
  if (d_zero(r.low)) r.high = range;
  else if (d_zero(r.high)) r.low = negative(range);
  else r = Range(product(r.low, up), product(r.high, up));
  return least;
}

uint64_t zero_point_of(Range r, uint64_t scale) {
  const uint64_t least = d_from_int(p.quant_min), most = d_from_int(p.quant_max);
  const uint64_t below = d_div(r.low, scale), above = d_div(r.high, scale);
  const bool from_low = d_less(d_add(d_abs(least), d_abs(below)), d_add(d_abs(most), d_abs(above)));
  uint64_t zero = from_low ? d_add(least, negative(below)) : d_add(most, negative(above));
  if (p.symmetric != 0 && about_zero(r)) zero = d_mul(d_from_int(p.quant_min + p.quant_max), uint64_t(1022) << 52);
  if (d_less(zero, least)) return least;
  if (d_less(most, zero)) return most;
  const uint64_t whole = uint64_t(1075) << 52 | D_QUIET;  // 1.5 * 2^52: sums with it have no bits behind the point
  return d_add(d_add(zero, whole), negative(whole));
}

void main() {
  const uint64_t i = linear_invocation();
  if (i >= uint64_t(p.n)) return;
  if (is_on(p.observed, OBSERVED_DTYPE)) {
    const Range r = Range(load_double_bits(p.low, i, RANGE_DTYPE), load_double_bits(p.high, i, RANGE_DTYPE));
    store_double_bits(p.low, i, RANGE_DTYPE, moved(r.low, load_double_bits(p.x_low, i, X_DTYPE)));
    store_double_bits(p.high, i, RANGE_DTYPE, moved(r.high, load_double_bits(p.x_high, i, X_DTYPE)));
  }
  if (!is_on(p.quantized, QUANTIZED_DTYPE)) return;
  Range r = with_zero(Range(load_double_bits(p.low, i, RANGE_DTYPE), load_double_bits(p.high, i, RANGE_DTYPE)));
  const uint64_t scale = scale_of(r);
  store_double_bits(p.scale_, i, SCALE_DTYPE, scale);
  store_double_bits(p.zero_point, i, ZERO_DTYPE, zero_point_of(r, scale));
}
