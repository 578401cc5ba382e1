// Rotary position embedding of x[batch, heads, tokens, size]. The first 2 half elements of each token turn in pairs:
//   (a, b) -> (a cos - b sin, a sin + b cos),   cos, sin: [table_rows, half], row: the token's index or its position
// Pair j is elements j and j + half (GPT-NeoX), or 2 j and 2 j + 1 (INTERLEAVED). INVERSE turns back, which is the
// gradient too. Elements behind 2 half are copied. x and y may be one tensor. Strides are in elements, the last
// dimension is dense.
//
// An invocation has W pairs of one token and head. W is 16 bytes of elements if the host found addresses aligned, else
// 1. BY_TOKEN: a token's heads are neighbours, as they are in memory, and the tables come from the caches. A position
// out of range is reported.
// What was tried, and what it gave: docs/ladders/rotary.md
layout(local_size_x = 64) in;
layout(constant_id = 0) const int DTYPE = 0;
layout(constant_id = 1) const int TABLE_DTYPE = 0;
layout(constant_id = 2) const int POSITION_DTYPE = 0;
layout(constant_id = 3) const bool POSITIONS = false;
layout(constant_id = 4) const bool INTERLEAVED = false;
layout(constant_id = 5) const bool INVERSE = false;
layout(constant_id = 6) const int W = 1;
layout(constant_id = 7) const bool BY_TOKEN = false;
#include "common/dtype.glsl"
#include "common/errors.glsl"
#include "common/vec16b.glsl"
#include "common/indexing.glsl"

struct Params {
  uint64_t x, y, cosines, sines, positions, error;
  int64_t sx[3], sy[3];  // strides of batch, heads, tokens
  // tasks of a token; those with pairs to turn
  uint total, tasks, turning, tokens, heads, table_rows, position_stride, tag;
};
#include "common/params.glsl"

const int HELD = W == 1 ? AULE_DT_F32 : DTYPE;  // the dtype of load_raw_many()'s result
// W elements as in memory, at most 16 bytes. A single one as a float.
uvec4 load_raw_many(uint64_t base, uint64_t i) {
  if (W > 1) return Vec16bRef(base + i * (DTYPE == AULE_DT_F32 ? 4 : 2)).v;
  return uvec4(floatBitsToUint(load_float(base, i, DTYPE)), 0u, 0u, 0u);
}
void load_table(uint64_t base, uint64_t i, out float v[MAX_E]) {
  if (TABLE_DTYPE == AULE_DT_F32 && W >= 4) {
    [[unroll]] for (int q = 0; q < MAX_E / 4; ++q) {
      if (4 * q >= W) continue;
      const vec4 b = uintBitsToFloat(Vec16bRef(base + (i + 4 * q) * 4).v);
      [[unroll]] for (int k = 0; k < 4; ++k) v[4 * q + k] = b[k];
    }
  } else if (TABLE_DTYPE != AULE_DT_F32 && W == 8) {
    const uvec4 b = Vec16bRef(base + i * 2).v;
    [[unroll]] for (int k = 0; k < MAX_E; ++k) v[k] = element_of(b, uint(k), TABLE_DTYPE);
  } else {
    [[unroll]] for (int k = 0; k < MAX_E; ++k)
      if (k < W) v[k] = load_float(base, i + k, TABLE_DTYPE);
  }
}
void store_many(uint64_t base, uint64_t i, float v[MAX_E]) {
  if (W > 1) Vec16bRef(base + i * (DTYPE == AULE_DT_F32 ? 4 : 2)).v = to_vec16b(v);
  else store_float(base, i, DTYPE, v[0]);
}

void main() {
  const uint64_t id = linear_invocation();
  if (id >= uint64_t(p.total)) return;
  uint i = uint(id);
  const uint task = i % p.tasks;
  i /= p.tasks;
  const uint inner = BY_TOKEN ? p.heads : p.tokens, outer = BY_TOKEN ? p.tokens : p.heads;
  const uint near = i % inner;
  i /= inner;
  const uint far = i % outer, batch = i / outer;
  const uint token = BY_TOKEN ? far : near, head = BY_TOKEN ? near : far;

  const bool turns = task < p.turning;
  const uint half_size = p.turning * W;
  // Offsets of the two times W elements of this task.
  uint at = 2u * W * task, to = at + W;
  if (turns && !INTERLEAVED) {
    at = W * task;
    to = at + half_size;
  }
  float c[MAX_E], s[MAX_E];
  if (turns) {
    int64_t row = int64_t(token);
    if (POSITIONS) {
      row = load_int64(p.positions, uint64_t(batch) * p.position_stride + token, POSITION_DTYPE);
      if (row < int64_t(0) || row >= int64_t(p.table_rows)) {
        report_error(p.error, AULE_ERR_INDEX_OUT_OF_RANGE, p.tag, row, int64_t(p.table_rows));
        row = int64_t(0);
      }
    }
    const uint64_t from = uint64_t(row) * half_size + W * task;
    load_table(p.cosines, from, c);
    load_table(p.sines, from, s);
  }
  const uint64_t x = uint64_t(int64_t(batch) * p.sx[0] + int64_t(head) * p.sx[1] + int64_t(token) * p.sx[2]);
  const uint64_t y = uint64_t(int64_t(batch) * p.sy[0] + int64_t(head) * p.sy[1] + int64_t(token) * p.sy[2]);
  const uvec4 left = load_raw_many(p.x, x + at), right = load_raw_many(p.x, x + to);
  float a[MAX_E], b[MAX_E], u[MAX_E], v[MAX_E];
  [[unroll]] for (int k = 0; k < MAX_E; ++k) {
    if (k >= W) continue;
    a[k] = element_of(left, uint(k), HELD);
    b[k] = element_of(right, uint(k), HELD);
  }
  [[unroll]] for (int k = 0; k < MAX_E; ++k) {
    if (k >= W) continue;
    if (!turns) {
      u[k] = a[k];
      v[k] = b[k];
    } else if (INTERLEAVED) {
      // Pair k is elements 2 k and 2 k + 1 of a and b one after the other.
      const float e = 2 * k < W ? a[2 * k % W] : b[2 * k % W];
      const float o = 2 * k + 1 < W ? a[(2 * k + 1) % W] : b[(2 * k + 1) % W];
      const float t = INVERSE ? -s[k] : s[k], even = e * c[k] - o * t, odd = e * t + o * c[k];
      if (2 * k < W) u[2 * k % W] = even; else v[2 * k % W] = even;
      if (2 * k + 1 < W) u[(2 * k + 1) % W] = odd; else v[(2 * k + 1) % W] = odd;
    } else {
      const float t = INVERSE ? -s[k] : s[k];
      u[k] = a[k] * c[k] - b[k] * t;
      v[k] = a[k] * t + b[k] * c[k];
    }
  }
  store_many(p.y, y + at, u);
  store_many(p.y, y + to, v);
}
