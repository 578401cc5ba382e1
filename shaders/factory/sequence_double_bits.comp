// KIND 0, 1 and 3 of sequence.comp in float64 by integer code, for devices without float64. dst is contiguous, and of
// float64 or integers, which truncate.
#define VEC_ELEMS 4
layout(local_size_x = 128) in;
#include "common/dtype.glsl"
#include "common/vec8.glsl"
#include "common/double_bits.glsl"
#include "common/indexing.glsl"

layout(constant_id = 0) const int DTYPE = AULE_DT_F64;
layout(constant_id = 1) const int KIND = 0;
#define SEQUENCE_KIND(code, name) const int KIND_##name = code;
#include "factory/sequence_kinds.def"

struct Params {
  uint64_t dst;
  uint64_t n;
  int64_t integer_start, integer_step;
  uint64_t start, step, end;  // bits of doubles
};
#include "common/params.glsl"

uint64_t line(uint64_t from, uint64_t i, uint64_t step) { return d_add(from, d_mul(d_from_int64(int64_t(i)), step)); }

void main() {
  uint64_t i = linear_invocation();
  if (i >= p.n) return;
  uint64_t x;
  if (KIND == KIND_integer) x = d_from_int64(p.integer_start + int64_t(i) * p.integer_step);
  else if (KIND != KIND_linear || i < p.n / 2) x = line(p.start, i, p.step);
  else x = line(p.end, p.n - 1 - i, p.step ^ D_SIGN);
  store_double_bits(p.dst, i, DTYPE, x);
}
