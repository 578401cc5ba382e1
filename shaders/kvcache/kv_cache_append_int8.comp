#pragma aule params ring
// kv_cache_append into a cache in 8 bits (attention/parts/vec8.glsl), which is dense. Of each block of 32 numbers
//   scale = largest / 127 as bfloat16, rounded up;  n = number / scale, rounded to the nearest of -127 to 127
// so a number is off by half a scale, that is by largest / 254 * (1 + 2^-7), and nothing is cut off. A block without a
// number of at least 2^-113 is zeros. One with a number that is not finite is NaN, all of it: its scale is.
//
// An invocation has eight elements of one token and head, turned first; q's heads come before k's and v's, and go to
// q_out as they are. Four invocations share a block. WIDE: loads of 16 bytes.
layout(local_size_x = 64) in;
layout(constant_id = 0) const int DTYPE = 0;
layout(constant_id = 1) const int TABLE_DTYPE = 0;
layout(constant_id = 2) const int LENGTH_DTYPE = 0;
layout(constant_id = 3) const bool BLOCK_TABLE = false;
layout(constant_id = 4) const bool ROTARY = false;
layout(constant_id = 5) const bool INTERLEAVED = false;
layout(constant_id = 6) const bool WIDE = false;
#include "common/vec16b.glsl"
#include "common/errors.glsl"
#include "common/indexing.glsl"

struct Params {
  uint64_t q, k, v, q_out, key_cache, value_cache, key_scale, value_scale;
  uint64_t lengths, lengths_after, block_table, cosines, sines, error;
  int64_t pages;
  int64_t q_stride[3], k_stride[3], v_stride[3];           // batch, token, head
  uint total, tokens, q_heads, kv_heads, half_;            // half_: angles of a row
  uint size, v_size, page_rows, columns, table_rows, tag;  // columns: pages of a sequence
};
#include "common/params.glsl"
#include "kvcache/row_of_token.glsl"

const uint LEAST = 0x07000000u;  // the bits of 2^-113: its scale's inverse is finite
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Int8sRef { uvec2 v; };
shared uint tops[64];

void load_eight(uint64_t base, uint64_t i, int dt, bool wide, out float v[8]) {
  if (wide && dt == AULE_DT_F32) {
    [[unroll]] for (int q = 0; q < 2; ++q) {
      const vec4 four = uintBitsToFloat(Vec16bRef(base + (i + 4 * q) * 4).v);
      [[unroll]] for (int k = 0; k < 4; ++k) v[4 * q + k] = four[k];
    }
  } else if (wide) {
    const uvec4 w = Vec16bRef(base + i * 2).v;
    [[unroll]] for (uint k = 0u; k < 8u; ++k) v[k] = element_of(w, k, dt);
  } else {
    [[unroll]] for (int k = 0; k < 8; ++k) v[k] = load_float(base, i + k, dt);
  }
}

// Elements [at, at + 8) of the head at `base`, turned by the angles at `angles` of both tables.
void turned(uint64_t base, uint64_t head, uint at, uint64_t angles, inout float x[8]) {
  const uint turning = 2u * p.half_;
  float other[8], c[8], s[8];
  if (WIDE && !INTERLEAVED) {  // half_ is a multiple of eight
    const bool is_first = at < p.half_;
    const uint angle = is_first ? at : at - p.half_;
    load_eight(base, head + (is_first ? at + p.half_ : angle), DTYPE, true, other);
    load_eight(p.cosines, angles + angle, TABLE_DTYPE, true, c);
    load_eight(p.sines, angles + angle, TABLE_DTYPE, true, s);
    [[unroll]] for (int k = 0; k < 8; ++k)
      x[k] = is_first ? x[k] * c[k] - other[k] * s[k] : other[k] * s[k] + x[k] * c[k];
    return;
  }
  float y[8];
  [[unroll]] for (uint k = 0u; k < 8u; ++k) {
    const uint e = at + k;
    const bool turns = e < turning, is_first = INTERLEAVED ? (k & 1u) == 0u : e < p.half_;
    const uint angle = !turns ? 0u : INTERLEAVED ? e / 2u : is_first ? e : e - p.half_;
    const uint from = !turns ? e : is_first ? e + p.half_ : angle;
    const float b = INTERLEAVED ? x[k ^ 1u] : load_float(base, head + from, DTYPE);
    const float cosine = load_float(p.cosines, angles + angle, TABLE_DTYPE);
    const float sine = load_float(p.sines, angles + angle, TABLE_DTYPE);
    y[k] = !turns ? x[k] : is_first ? x[k] * cosine - b * sine : b * sine + x[k] * cosine;
  }
  x = y;
}

void main() {
  const uint64_t id = linear_invocation();
  const bool is_task = id < uint64_t(p.total);
  const uint task = is_task ? uint(id) : 0u;  // a barrier follows
  const uint of_q = p.q_heads * p.size / 8u, of_k = p.kv_heads * p.size / 8u;
  const uint of_token = of_q + of_k + p.kv_heads * p.v_size / 8u, place = task % of_token;
  const uint token = task / of_token % p.tokens, batch = task / of_token / p.tokens;
  const bool is_q = place < of_q, is_v = place >= of_q + of_k;
  const uint eight = is_q ? place : is_v ? place - of_q - of_k : place - of_q, size = is_v ? p.v_size : p.size;
  const uint head = eight * 8u / size, at = eight * 8u % size;
  const CacheRow there = row_of_token(batch, token, is_task && place == 0u);

  const uint64_t base = is_q ? p.q : is_v ? p.v : p.k;
  int64_t from;
  if (is_q) from = int64_t(batch) * p.q_stride[0] + int64_t(token) * p.q_stride[1] + int64_t(head) * p.q_stride[2];
  else if (is_v) from = int64_t(batch) * p.v_stride[0] + int64_t(token) * p.v_stride[1] + int64_t(head) * p.v_stride[2];
  else from = int64_t(batch) * p.k_stride[0] + int64_t(token) * p.k_stride[1] + int64_t(head) * p.k_stride[2];
  float x[8];
  load_eight(base, uint64_t(from) + at, DTYPE, WIDE, x);
  if (ROTARY && !is_v && at < 2u * p.half_) {
    const bool has_angles = there.row < p.table_rows;
    if (!has_angles && is_task && place == 0u)
      report_error(p.error, AULE_ERR_INDEX_OUT_OF_RANGE, p.tag, int64_t(there.row), int64_t(p.table_rows));
    turned(base, uint64_t(from), at, uint64_t(has_angles ? there.row : 0u) * p.half_, x);
  }

  uint top = 0u;  // bits of numbers that are not negative are in their order, and NaN's come last
  [[unroll]] for (int k = 0; k < 8; ++k) top = max(top, floatBitsToUint(x[k]) & 0x7fffffffu);
  const uint lane = gl_LocalInvocationID.x, first = lane & ~3u;
  tops[lane] = top;
  barrier();  // the largest of each eight is there
  [[unroll]] for (uint i = 0u; i < 4u; ++i) top = max(top, tops[first + i]);
  if (!is_task) return;
  if (is_q) {
    const uint64_t to = ((uint64_t(batch) * p.tokens + token) * p.q_heads + head) * p.size + at;
    [[unroll]] for (int k = 0; k < 8; ++k) store_float(p.q_out, to + k, DTYPE, x[k]);
    return;
  }
  if (!there.is_there) return;
  const bool is_finite = top < 0x7f800000u, is_zero = top < LEAST;
  const uint up = floatBitsToUint(uintBitsToFloat(top) / 127.0) + 0xffffu >> 16;
  const float inverse = is_finite && !is_zero ? 1.0 / bf16_to_float(up) : 0.0;
  uvec2 words = uvec2(0u);
  [[unroll]] for (int k = 0; k < 8; ++k) {
    const float n = clamp(is_finite ? x[k] * inverse : 0.0, -127.0, 127.0);
    words[k / 4] |= (uint(int(roundEven(n))) & 0xffu) << 8 * (k % 4);
  }
  const uint64_t row = uint64_t(there.page) * p.page_rows + there.row % p.page_rows;
  const uint64_t to = (row * p.kv_heads + head) * size + at;
  Int8sRef((is_v ? p.value_cache : p.key_cache) + to).v = words;
  if (at % 32u == 0u)
    U16Ref((is_v ? p.value_scale : p.key_scale) + to / 16).v = uint16_t(!is_finite ? 0x7fc0u : is_zero ? 0u : up);
}
