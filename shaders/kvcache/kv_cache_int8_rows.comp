#pragma aule params ring
// rows[b, i, head] = numbers of the row times the scales of its blocks, for rows in use of each sequence of a cache in
// 8 bits (attention/parts/vec8.glsl), in the dtype of the queries. Other rows are left as they are: no kernel of
// attention looks at them.
//
// An invocation has 16 columns of a row and head.
layout(local_size_x = 64) in;
layout(constant_id = 0) const int DTYPE = 0;
layout(constant_id = 1) const bool PAGED = false;
#include "common/dtype.glsl"
#include "common/half.glsl"
#include "common/indexing.glsl"
const bool ALIGNED = true;
#include "attention/parts/elements.glsl"

struct Params {
  uint64_t cache, scale, rows;
  uint64_t cu_seq_q, cu_seq_k, seqused_k, pages;  // 0: not given
  uint total, heads, size, page_rows;
  int total_q, total_k;  // rows that a sequence has room for
  int page_step, page_count;
};
#include "common/params.glsl"
#include "attention/parts/vec8.glsl"

uint two(vec2 x) {
  if (DTYPE == AULE_DT_F16) return float_to_f16(x.x) | float_to_f16(x.y) << 16;
  return float_to_bf16(x.x) | float_to_bf16(x.y) << 16;
}

void main() {
  const uint64_t id = linear_invocation();
  if (id >= uint64_t(p.total)) return;
  const uint parts = p.size / 16u, column = uint(id) % parts * 16u, head = uint(id) / parts % p.heads;
  const uint at = uint(id) / parts / p.heads, row = at % uint(p.total_k), b = at / uint(p.total_k);
  const bool counted = p.seqused_k != uint64_t(0);
  const int count = I32Ref(readable(p.seqused_k) + (counted ? uint64_t(b) * 4 : uint64_t(0))).v;
  const int used = counted ? count : p.total_k;
  if (int(row) >= used) return;
  uint64_t from = uint64_t(b) * uint64_t(uint(p.total_k)) + uint64_t(row);
  if (PAGED) {
    const int page = I32Ref(p.pages + (uint64_t(b) * uint64_t(uint(p.page_step)) + uint64_t(row / p.page_rows)) * 4).v;
    from = uint64_t(uint(clamp(page, 0, p.page_count - 1))) * p.page_rows + row % p.page_rows;
  }
  const RawVec8 x = load_int8(p.cache + (from * p.heads + head) * p.size, p.cache, p.scale, int(column));
  const float f = scale_of(x);
  const Vec8 left = vec8_of_int8(x.a.xy), right = vec8_of_int8(x.a.zw);
  const uint64_t to = p.rows + (uint64_t(at) * p.heads + head) * p.size * ELEM_BYTES + column * ELEM_BYTES;
  const vec4 y[4] = {f * left.low, f * left.high, f * right.low, f * right.high};
  if (DTYPE == AULE_DT_F32) {
    [[unroll]] for (int i = 0; i < 4; ++i) Vec16bRef(to + 16 * i).v = floatBitsToUint(y[i]);
  } else {
    Vec16bRef(to).v = uvec4(two(y[0].xy), two(y[0].zw), two(y[1].xy), two(y[1].zw));
    Vec16bRef(to + 16).v = uvec4(two(y[2].xy), two(y[2].zw), two(y[3].xy), two(y[3].zw));
  }
}
