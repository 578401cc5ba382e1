// The end of a greedy step: the index of the largest of each row of logits [batch * each, n], NaN before all else and
// of equal ones the first, is the token that is drawn; then what accept_tokens.comp does.
//
// A workgroup has CHUNK elements of a row. The last one of a sequence to arrive joins the parts of its rows; nobody
// waits. Bound by the latency of its few loads.
#extension GL_KHR_memory_scope_semantics : require
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint LOCAL = 256;  // a power of two
layout(constant_id = 1) const int DTYPE = 0;
layout(constant_id = 2) const bool WIDE = false;  // rows begin at multiples of 16 bytes
layout(constant_id = 3) const int ACTIVE_DTYPE = 0;
layout(constant_id = 4) const int LENGTH_DTYPE = 0;
#include "common/vec16b.glsl"
struct Params {
  uint64_t logits, guesses, active_, accepted, tokens, lengths;  // as in accept_tokens.comp; logits of DTYPE
  uint64_t parts;                                                // uvec2 [batch * each, splits]
  uint64_t counters;                                             // zeros [batch], which are zeros again afterwards
  uint64_t row_bytes;
  uint batch, each, accepted_row, n, chunk, splits;              // chunk: a multiple of 8
};
#include "common/params.glsl"
#include "common/indexing.glsl"
#include "common/float_bits.glsl"
layout(buffer_reference, scalar, buffer_reference_align = 8) coherent buffer PartRef { uvec2 v; };
layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer CounterRef { uint v; };

shared uvec2 candidates[LOCAL];
shared uint arrived;

// A candidate is {the number as a key, ~index}. Every key is above 0, which is that of no element.
uint ordered(float x) {
  const uint bits = is_zero(x) ? 0u : floatBitsToUint(x);  // -0 equals 0
  return is_nan(x) ? 0xffffffffu : bits >> 31 != 0u ? ~bits : bits | 0x80000000u;
}
uvec2 larger(uvec2 a, uvec2 b) { return a.x > b.x || a.x == b.x && a.y > b.y ? a : b; }
// The largest of all invocations', for invocation 0.
uvec2 largest(uvec2 own) {
  const uint t = gl_LocalInvocationID.x;
  candidates[t] = own;
  barrier();  // all are there
  for (uint width = LOCAL / 2u; width > 0u; width /= 2u) {
    if (t < width) candidates[t] = larger(candidates[t], candidates[t + width]);
    barrier();  // halves are joined
  }
  return candidates[0];
}

void main() {
  const uint group = linear_group();
  if (group >= p.batch * p.each * p.splits) return;  // the whole workgroup leaves
  const uint t = gl_LocalInvocationID.x, row = group / p.splits, split = group % p.splits, b = row / p.each;
  const uint64_t logits = p.logits + uint64_t(row) * p.row_bytes;
  const uint first = split * p.chunk, end = min(first + p.chunk, p.n);
  uvec2 best = uvec2(0u);
  uint single = first;  // of the elements that are loaded one by one
  if (WIDE) {
    single = end / E * E;
    for (uint block = first / E + t; block < end / E; block += LOCAL) {
      const uvec4 x = load_vec16b(logits, block);
      [[unroll]] for (uint i = 0u; i < E; ++i) best = larger(best, uvec2(ordered(element(x, i)), ~(block * E + i)));
    }
  }
  for (uint i = single + t; i < end; i += LOCAL) best = larger(best, uvec2(ordered(load_float(logits, i, DTYPE)), ~i));
  best = largest(best);

  const uint64_t counter = p.counters + uint64_t(b) * 4;
  if (t == 0u) {
    PartRef(p.parts + uint64_t(group) * 8).v = best;
    arrived = atomicAdd(CounterRef(counter).v, 1u, gl_ScopeDevice, gl_StorageSemanticsBuffer,
        gl_SemanticsAcquireRelease);  // which releases the part
  }
  controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, gl_StorageSemanticsBuffer | gl_StorageSemanticsShared,
      gl_SemanticsAcquireRelease);  // its number is known, and what others released is visible
  if (arrived != p.each * p.splits - 1u) return;

  const uint64_t accepted = p.accepted + uint64_t(b) * p.accepted_row * 8;
  uint right = 0u;
  int64_t last = int64_t(0);  // the token behind the right guesses
  for (uint r = 0u; r < p.each; ++r) {
    const uint64_t parts = p.parts + uint64_t((b * p.each + r) * p.splits) * 8;
    best = uvec2(0u);
    for (uint s = t; s < p.splits; s += LOCAL) best = larger(best, PartRef(parts + uint64_t(s) * 8).v);
    best = largest(best);
    if (t != 0u) continue;
    const int64_t token = int64_t(~best.y);
    I64Ref(accepted + (1u + r) * 8).v = token;
    if (r != right) continue;
    last = token;
    if (r + 1u < p.each && I64Ref(p.guesses + (uint64_t(b) * (p.each - 1u) + r) * 8).v == token) ++right;
  }
  if (t != 0u) return;
  const int kept = load_int64(p.active_, uint64_t(b), ACTIVE_DTYPE) != int64_t(0) ? int(right) + 1 : 0;
  I64Ref(accepted).v = int64_t(kept);
  I64Ref(p.tokens + uint64_t(b) * 8).v = last;
  store_int64(p.lengths, b, LENGTH_DTYPE, load_int64(p.lengths, uint64_t(b), LENGTH_DTYPE) + int64_t(kept));
  CounterRef(counter).v = 0u;  // for the next call
}
