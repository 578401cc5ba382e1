// out[t] = (sum |x|^ORD)^(1/ORD), or max |x| for ORD 0, of many dense tensors at once (torch._foreach_norm), by chunks.
// GROUP 0: an invocation per chunk, without barriers: for software devices. GROUP 1: a workgroup per chunk, neighbours
// along the tensor, then a tree in shared memory.
// PASS 0: each tensor is one chunk. 1: chunks to partial values, in the table's order. 2: a tensor's partial values to
// its norm. Deterministic.
#pragma aule axis C float double
#pragma aule axis GROUP 0 1
#pragma aule feature float64 if C=double
#pragma aule params ring
#include "common/dtype.glsl"
#include "common/float_bits.glsl"
layout(constant_id = 0) const int IN_DTYPE = 0;
layout(constant_id = 1) const int OUT_DTYPE = 0;
layout(constant_id = 2) const int ORD = 2;
layout(constant_id = 3) const int PASS = 0;
layout(constant_id = 4) const uint LOCAL = 8;
layout(local_size_x_id = 4) in;
#define OWN_GROUPS
#include "common/multi_tensor.glsl"

struct Params {
  uint64_t x[TENSORS];
  uint64_t out_[TENSORS];
  uint64_t partials;
  uint elems[TENSORS];
  uint first_group[TENSORS];  // first chunk
  uint tensors;
  uint chunks;  // of all of them
  uint chunk;   // elements
};
#include "common/params.glsl"

#ifdef C_double
#define load_C load_double
#define store_C store_double
#define C_BYTES 8
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer PartialRef { C v; };
#else
#define load_C load_float
#define store_C store_float
#define C_BYTES 4
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer PartialRef { C v; };
#endif

C combine(C a, C b) {
  if (ORD != 0) return a + b;
  return is_nan(a) ? a : is_nan(b) || b > a ? b : a;
}
C power(C x) { return ORD == 2 ? x * x : abs(x); }
void store_norm(uint t, C x) { store_C(p.out_[t], uint64_t(0), OUT_DTYPE, ORD == 2 ? sqrt(x) : x); }

// Elements begin, begin + step, ... below end; four accumulators.
C of_elements(uint64_t x, uint begin, uint end, uint step) {
  C s0 = C(0), s1 = C(0), s2 = C(0), s3 = C(0);
  uint k = begin;
  for (; k + 3u * step < end; k += 4u * step) {
    s0 = combine(s0, power(load_C(x, uint64_t(k), IN_DTYPE)));
    s1 = combine(s1, power(load_C(x, uint64_t(k + step), IN_DTYPE)));
    s2 = combine(s2, power(load_C(x, uint64_t(k + 2u * step), IN_DTYPE)));
    s3 = combine(s3, power(load_C(x, uint64_t(k + 3u * step), IN_DTYPE)));
  }
  for (; k < end; k += step) s0 = combine(s0, power(load_C(x, uint64_t(k), IN_DTYPE)));
  return combine(combine(s0, s1), combine(s2, s3));
}
C of_partials(uint begin, uint end, uint step) {
  C s = C(0);
  for (uint k = begin; k < end; k += step) s = combine(s, PartialRef(p.partials + uint64_t(k) * C_BYTES).v);
  return s;
}

#if GROUP
shared C tree[LOCAL];
#endif

void main() {
#if GROUP
  const uint work = linear_group(), lane = gl_LocalInvocationID.x, step = LOCAL;
#else
  const uint work = uint(linear_invocation()), lane = 0u, step = 1u;
  if (work >= (PASS == 2 ? p.tensors : p.chunks)) return;
#endif
  C s;
  uint entry = work;
  if (PASS == 2) {
    const uint last = work + 1u < p.tensors ? p.first_group[min(work + 1u, p.tensors - 1u)] : p.chunks;
    s = of_partials(p.first_group[work] + lane, last, step);
  } else {
    AULE_FIND_ENTRY(work)
    entry = t;
    const uint begin = (work - p.first_group[t]) * p.chunk;
    s = of_elements(p.x[t], begin + lane, begin + min(p.chunk, p.elems[t] - begin), step);
  }
#if GROUP
  tree[lane] = s;
  barrier();  // all of tree written
  for (uint half_ = LOCAL / 2u; half_ > 0u; half_ /= 2u) {
    if (lane < half_) tree[lane] = combine(tree[lane], tree[lane + half_]);
    barrier();  // upper half read before the next step writes below it
  }
  if (lane != 0u) return;
  s = tree[0];
#endif
  if (PASS == 1) PartialRef(p.partials + uint64_t(work) * C_BYTES).v = s;
  else store_norm(entry, s);
}
