// Reports weights that are negative, infinite or NaN, and rows with a sum of 0. Contiguous float32 (rows, classes).
layout(local_size_x = 128) in;
#include "common/dtype.glsl"
#include "common/errors.glsl"
#include "common/indexing.glsl"

struct Params {
  uint64_t weights;
  uint64_t sums;  // float32, one per row
  uint64_t error;
  uint64_t n;
  uint classes, tag;
};
#include "common/params.glsl"

void main() {
  uint64_t i = linear_invocation();
  if (i >= p.n) return;
  float w = F32Ref(p.weights + i * 4).v;
  bool bad = !(w >= 0.0 && w <= 3.4028235e38);
  uint64_t row = i / p.classes;
  if (i == row * p.classes) bad = bad || !(F32Ref(p.sums + row * 4).v > 0.0);
  if (bad) report_error(p.error, AULE_ERR_INVALID_PROBABILITY, p.tag, int64_t(i), int64_t(p.n));
}
