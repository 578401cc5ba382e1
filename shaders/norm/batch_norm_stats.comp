#pragma aule axis C float double
#pragma aule feature float64 if C=double
// Statistics of each channel from those of the parts of a batch, and the running ones. An invocation has a channel.
//   FROM_VARIANCE: one part, its variance is in `spread`. Else there are rows [parts, channels], and `spread` has
//   1 / sqrt(var + eps); parts are combined as Chan does, and one without elements is passed over.
//   running += momentum (statistic - running), the variance n / (n - 1) times that of the batch
layout(constant_id = 0) const bool FROM_VARIANCE = false;
layout(constant_id = 1) const bool HAS_COUNTS = false;  // else each part has `count` elements of a channel
layout(constant_id = 2) const bool HAS_RUNNING_MEAN = false;
layout(constant_id = 3) const bool HAS_RUNNING_VAR = false;
layout(constant_id = 4) const bool WANTS_MEAN = true;
layout(constant_id = 5) const bool WANTS_INVSTD = true;
layout(constant_id = 6) const int COUNT_DTYPE = 0;
layout(constant_id = 7) const int RUNNING_MEAN_DTYPE = 0;
layout(constant_id = 8) const int RUNNING_VAR_DTYPE = 0;
layout(constant_id = 9) const int LOCAL = 8;
layout(local_size_x_id = 9) in;
const int VEC = 0;
#include "common/indexing.glsl"
#include "norm/rowwise.glsl"
#include "norm/moments.glsl"

struct Params {
  uint64_t mean, spread, counts, mean_out, invstd_out, running_mean, running_var;
  uint64_t count, eps_bits, momentum_bits;  // of the arithmetic type
  uint channels, parts;
};
#include "common/params.glsl"

#ifdef C_double
C number(uint64_t bits) { return packDouble2x32(unpackUint2x32(bits)); }
#else
C number(uint64_t bits) { return uintBitsToFloat(uint(bits)); }
#endif

C count_of(uint part) { return HAS_COUNTS ? load1(p.counts, uint64_t(part), COUNT_DTYPE) : C(p.count); }

Moments all_parts(uint c) {
  Moments t = Moments(C(0), C(0), C(0));
  for (uint i = 0; i < p.parts; ++i) {
    const uint64_t at = uint64_t(i) * p.channels + c;
    const C n = count_of(i), std_ = C(1) / load1(p.spread, at, STAT_DTYPE);
    C var = std_ * std_ - number(p.eps_bits);
    if (var < C(0)) var = C(0);  // rounding; a NaN stays
    if (n > C(0)) t = combine(t, Moments(n, load1(p.mean, at, STAT_DTYPE), var * n));
  }
  return t;
}

void main() {
  const uint c = uint(linear_invocation());
  if (c >= p.channels) return;
  C n, mean, var;
  if (FROM_VARIANCE) {
    n = count_of(0u);
    mean = load1(p.mean, uint64_t(c), STAT_DTYPE);
    var = load1(p.spread, uint64_t(c), STAT_DTYPE);
  } else {
    const Moments t = all_parts(c);
    n = t.n;
    mean = t.mean;
    var = t.m2 / t.n;
  }
  if (WANTS_MEAN) store1(p.mean_out, uint64_t(c), STAT_DTYPE, mean);
  if (WANTS_INVSTD) store1(p.invstd_out, uint64_t(c), STAT_DTYPE, C(1) / sqrt(var + number(p.eps_bits)));
  const C new_ = number(p.momentum_bits), old = C(1) - new_;
  if (HAS_RUNNING_MEAN) {
    const C x = load1(p.running_mean, uint64_t(c), RUNNING_MEAN_DTYPE);
    store1(p.running_mean, uint64_t(c), RUNNING_MEAN_DTYPE, old * x + new_ * mean);
  }
  if (HAS_RUNNING_VAR) {
    const C x = load1(p.running_var, uint64_t(c), RUNNING_VAR_DTYPE);
    store1(p.running_var, uint64_t(c), RUNNING_VAR_DTYPE, old * x + new_ * var * (n / (n - C(1))));
  }
}
