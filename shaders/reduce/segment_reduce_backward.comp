#pragma aule axis C float double
#pragma aule feature float64 if C=double
// The gradient of segment_reduce.comp by its data: one invocation per element, which searches its segment. Elements of
// no segment get 0. A maximum's gradient is divided among the elements that equal it. A product's is grad out / x, or
// grad times the product of the other elements where x is 0 or NaN.
layout(local_size_x = 64) in;
#include "common/dtype.glsl"
#include "common/float_bits.glsl"
#include "common/indexing.glsl"
#include "common/real.glsl"
layout(constant_id = 0) const int DTYPE = 0;
layout(constant_id = 1) const int OP = 0;
struct Params {
  uint64_t data, grad, out_;
  uint64_t offsets;  // int64, [outer, segments + 1]
  uint64_t counts;  // REAL, of OP 5
  uint64_t dst;
  uint64_t n;  // elements of data
  uint64_t initial;  // bits of REAL, the factor of a product
  uint64_t inner, segments;
  int64_t size;
};
#include "common/params.glsl"
#include "reduce/segments.glsl"

REAL gradient(uint64_t i, uint64_t outer, int64_t j, uint64_t inner) {
  const uint64_t row = outer * (p.segments + 1);
  uint64_t low = 0, high = p.segments + 1;  // offsets before `low` are at most j, those from `high` on above it
  while (low < high) {
    const uint64_t middle = (low + high) / 2;
    if (offset_of(row + middle) <= j) low = middle + 1;
    else high = middle;
  }
  if (low == 0 || low > p.segments) return REAL(0);
  const uint64_t output_at = (outer * p.segments + low - 1) * p.inner + inner;
  const int64_t begin = offset_of(row + low - 1), end = offset_of(row + low);
  const REAL g = LOAD(p.grad, output_at, DTYPE);
  if (OP == SEGMENT_sum) return g;
  if (OP == SEGMENT_mean) return g / REAL(end - begin);
  const REAL x = LOAD(p.data, i, DTYPE), y = LOAD(p.out_, output_at, DTYPE);
  if (OP != SEGMENT_prod) return isnan(x) || x == y ? g / LOAD(p.counts, output_at, REAL_DTYPE) : REAL(0);
  if (x != REAL(0) && !isnan(x)) return g * y / x;
  REAL others = initial_value();
  for (int64_t k = begin; k < end; ++k)
    if (k != j) others *= LOAD(p.data, (outer * uint64_t(p.size) + uint64_t(k)) * p.inner + inner, DTYPE);
  return g * others;
}

void main() {
  const uint64_t i = linear_invocation();
  if (i >= p.n) return;
  const uint64_t row = i / p.inner, outer = row / uint64_t(p.size);
  STORE(p.dst, i, DTYPE, gradient(i, outer, int64_t(row - outer * uint64_t(p.size)), i - row * p.inner));
}
