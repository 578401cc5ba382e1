// A complex64 matrix b as a real one of twice the rows and columns: each element z is [[re, im], [-im, re]]. Rows of
// pairs (re, im), as complex matrices are stored, times that matrix are the rows of the complex product.
//
// dst is dense. Its memory is rows of the complex matrix's `inner` dimension: n, or k if K_INNER, which is the real
// matrix transposed. An invocation writes one element's four numbers.
#include "common/dtype.glsl"
#include "common/complex.glsl"
layout(constant_id = 0) const bool K_INNER = false;
layout(local_size_x = 256) in;
#include "common/indexing.glsl"
struct Params {
  uint64_t src, dst;
  int64_t src_batch, src_outer, src_inner;  // strides in elements
  uint inner, outer, batches;
  float scale_re, scale_im;
  uint conj_src;    // the element's conjugate is meant
  uint conj_other;  // the conjugate of the other operand is meant, which is multiplied as it is stored
};
#include "common/params.glsl"
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer PairRef { vec2 v; };

void main() {
  const uint id = linear_group() * 256u + gl_LocalInvocationID.x;
  if (id >= p.inner * p.outer * p.batches) return;
  const uint row = id / p.inner, i = id % p.inner, batch = row / p.outer, o = row % p.outer;
  vec2 z = load_complex64(p.src, uint64_t(int64_t(batch) * p.src_batch + int64_t(o) * p.src_outer +
      int64_t(i) * p.src_inner), AULE_DT_C64);
  if (p.conj_src != 0u) z.y = -z.y;
  const vec2 scale = vec2(p.scale_re, p.scale_im);
  z = scale.y == 0.0 ? scale.x * z : c_mul(scale, z);
  // Factors of the real and the imaginary parts of the other operand.
  const vec2 of_re = z, of_im = p.conj_other != 0u ? vec2(z.y, -z.x) : vec2(-z.y, z.x);
  const uint64_t at = p.dst + (uint64_t(row) * p.inner * 4 + uint64_t(i) * 2) * 4, next = at + uint64_t(p.inner) * 8;
  PairRef(at).v = K_INNER ? vec2(of_re.x, of_im.x) : of_re;
  PairRef(next).v = K_INNER ? vec2(of_re.y, of_im.y) : of_im;
}
