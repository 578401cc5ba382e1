#pragma aule axis C float double
#pragma aule feature float64 if C=double
// Margin losses of rows x[c] of C classes, divided by C. One invocation per class of a row; sums are gathered, so there
// are no atomics.
//   multi_margin:  sum over c != t of weight[t] * max(0, margin - x[t] + x[c])^p, p = 1 or 2
//   MULTILABEL:    sum over targets t and classes c that are none of max(0, 1 - x[t] + x[c]); -1 ends the targets
// Forward writes the terms of class c, and MULTILABEL whether it is a target; BACKWARD writes the gradient. A class out
// of range is reported and ends the row's targets.
layout(local_size_x = 64) in;
#include "common/dtype.glsl"
#include "common/errors.glsl"
#include "common/indexing.glsl"
#include "common/real.glsl"

layout(constant_id = 0) const int DTYPE = AULE_DT_F32;
layout(constant_id = 1) const bool MULTILABEL = false;
layout(constant_id = 2) const bool BACKWARD = false;
layout(constant_id = 3) const bool SQUARE = false;    // p = 2
layout(constant_id = 4) const bool WEIGHTED = false;

struct Params {
  uint64_t x, target;           // int64 targets
  uint64_t weight;
  uint64_t is_target;           // MULTILABEL: written forward, read backward
  uint64_t out_;                // terms, of the arithmetic type; BACKWARD: the gradient
  uint64_t grad;                // BACKWARD
  uint64_t error;
  uint64_t n;
  uint64_t margin_bits;         // of a double
  uint64_t scale_bits;          // of a double; BACKWARD: of the gradient
  uint classes, grad_stride, tag;
  float margin, scale;
};
#include "common/params.glsl"

#ifdef C_double
#define MARGIN packDouble2x32(unpackUint2x32(p.margin_bits))
#define SCALE packDouble2x32(unpackUint2x32(p.scale_bits))
#else
#define MARGIN p.margin
#define SCALE p.scale
#endif

// Target k of a row, or -1 where there is none.
int target_at(uint64_t row, uint k) {
  const int64_t t = I64Ref(p.target + (MULTILABEL ? row * uint64_t(p.classes) + uint64_t(k) : row) * 8).v;
  if (t >= int64_t(0) && t < int64_t(p.classes)) return int(t);
  if (!MULTILABEL || t != int64_t(-1))
    report_error(p.error, AULE_ERR_CLASS_OUT_OF_RANGE, p.tag, t, int64_t(p.classes));
  return -1;
}
REAL input_at(uint64_t row, uint c) { return LOAD(p.x, row * uint64_t(p.classes) + uint64_t(c), DTYPE); }
bool is_target(uint64_t row, uint c) {
  return LOAD(p.is_target, row * uint64_t(p.classes) + uint64_t(c), DTYPE) != REAL(0);
}

REAL loss_of(REAL z) { return z > REAL(0) ? (SQUARE ? z * z : z) : REAL(0); }
REAL slope_of(REAL z) { return z > REAL(0) ? (SQUARE ? REAL(2) * z : REAL(1)) : REAL(0); }

REAL multi_margin(uint64_t row, uint c) {
  const int t = target_at(row, 0u);
  if (t < 0) return REAL(0);
  const REAL weight = WEIGHTED ? LOAD(p.weight, uint64_t(t), DTYPE) : REAL(1), base = MARGIN - input_at(row, uint(t));
  if (c != uint(t)) {
    const REAL z = base + input_at(row, c);
    return weight * (BACKWARD ? slope_of(z) : loss_of(z));
  }
  REAL sum = REAL(0);
  if (BACKWARD) {
    for (uint d = 0u; d < p.classes; ++d)
      if (d != c) sum += slope_of(base + input_at(row, d));
  }
  return -weight * sum;
}

REAL multilabel_margin(uint64_t row, uint c) {
  const REAL x = input_at(row, c);
  REAL sum = REAL(0);
  int hits = 0;
  for (uint k = 0u; k < p.classes; ++k) {
    const int t = target_at(row, k);
    if (t < 0) break;
    hits += t == int(c) ? 1 : 0;
    const REAL z = REAL(1) - input_at(row, uint(t)) + x;
    sum += BACKWARD ? slope_of(z) : loss_of(z);
  }
  if (!BACKWARD) STORE(p.is_target, row * uint64_t(p.classes) + uint64_t(c), DTYPE, REAL(hits > 0 ? 1 : 0));
  if (hits == 0) return sum;
  sum = REAL(0);
  if (BACKWARD) {
    for (uint d = 0u; d < p.classes; ++d)
      if (!is_target(row, d)) sum += slope_of(REAL(1) - x + input_at(row, d));
  }
  return -REAL(hits) * sum;
}

void main() {
  const uint64_t id = linear_invocation();
  if (id >= p.n) return;
  const uint64_t row = id / uint64_t(p.classes);
  const uint c = uint(id - row * uint64_t(p.classes));
  const REAL y = (MULTILABEL ? multilabel_margin(row, c) : multi_margin(row, c)) / REAL(p.classes);
  if (BACKWARD) STORE(p.out_, id, DTYPE, y * SCALE * LOAD(p.grad, row * uint64_t(p.grad_stride), DTYPE));
  else STORE(p.out_, id, REAL_DTYPE, y);
}
