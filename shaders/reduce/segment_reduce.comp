#pragma aule axis C float double
#pragma aule feature float64 if C=double
// out[o, s, i] = reduction of data[o, j, i] over offsets[o, s] <= j < offsets[o, s + 1]. An invocation owns an output,
// or, BY_GROUP, a workgroup, whose invocations take every 64th element. OP 5 counts the elements that are NaN or equal
// to the output of a maximum or minimum: they share its gradient. Deterministic.
layout(local_size_x = 64) in;
#include "common/dtype.glsl"
#include "common/float_bits.glsl"
#include "common/indexing.glsl"
#include "common/real.glsl"
layout(constant_id = 0) const int DTYPE = 0;
layout(constant_id = 1) const int OUT_DTYPE = 0;
layout(constant_id = 2) const int OP = 0;
layout(constant_id = 3) const bool BY_GROUP = false;
layout(constant_id = 4) const bool HAS_INITIAL = false;
struct Params {
  uint64_t data;
  uint64_t offsets;  // int64, [outer, segments + 1]
  uint64_t extremes;  // outputs that OP 5 compares with
  uint64_t dst;
  uint64_t n;  // outputs
  uint64_t initial;  // bits of REAL
  uint64_t inner, segments;
  int64_t size;  // of the dimension
};
#include "common/params.glsl"
#include "reduce/segments.glsl"

shared REAL partial[64];

void main() {
  const uint64_t id = BY_GROUP ? uint64_t(linear_group()) : linear_invocation();
  if (id >= p.n) return;
  const uint64_t segment = id / p.inner, outer = segment / p.segments, inner = id - segment * p.inner;
  const uint64_t first_offset = outer * (p.segments + 1) + (segment - outer * p.segments);
  const int64_t begin = offset_of(first_offset), end = offset_of(first_offset + 1);
  const uint lane = BY_GROUP ? gl_LocalInvocationID.x : 0u;
  const REAL extreme = OP == SEGMENT_count ? LOAD(p.extremes, id, DTYPE) : REAL(0);
  REAL sum = lane == 0u && HAS_INITIAL ? initial_value() : identity();
  for (int64_t j = begin + int64_t(lane); j < end; j += int64_t(BY_GROUP ? 64 : 1)) {
    const REAL x = LOAD(p.data, (outer * uint64_t(p.size) + uint64_t(j)) * p.inner + inner, DTYPE);
    sum = combined(sum, OP == SEGMENT_count ? REAL(isnan(x) || x == extreme) : x);
  }
  if (BY_GROUP) {
    partial[lane] = sum;
    for (uint half_of = 32u; half_of > 0u; half_of >>= 1) {
      barrier();  // partial is complete to 2 half_of
      if (lane < half_of) partial[lane] = combined(partial[lane], partial[lane + half_of]);
    }
    if (lane != 0u) return;
    sum = partial[0];
  }
  if (OP == SEGMENT_mean && (end > begin || !HAS_INITIAL)) sum /= REAL(end > begin ? end - begin : int64_t(0));
  STORE(p.dst, id, OUT_DTYPE, sum);
}
