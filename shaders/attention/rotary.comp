// Rotary position embedding of x[batch, heads, tokens, size], the first 2 half elements of each token turned in pairs:
//   (a, b) -> (a cos - b sin, a sin + b cos),   cos, sin: [table_rows, half], row: the token's index or its position
// Pair j is elements j and j + half (GPT-NeoX), or 2 j and 2 j + 1 (INTERLEAVED). INVERSE turns back, which is the gradient
// too. What lies behind 2 half elements is copied. x and y may be one tensor; strides in elements, the last dimension dense.
//
// An invocation has W pairs of one token for HEADS heads, so that what it has of the tables serves them all: accesses of 16
// bytes where W is 16 bytes of elements (the host sees to the alignment), else W is 1. A position out of range is reported.
layout(local_size_x = 64) in;
layout(constant_id = 0) const int DT = 0;
layout(constant_id = 1) const int DT_TABLE = 0;
layout(constant_id = 2) const int DT_POSITION = 0;
layout(constant_id = 3) const bool POSITIONS = false;
layout(constant_id = 4) const bool INTERLEAVED = false;
layout(constant_id = 5) const bool INVERSE = false;
layout(constant_id = 6) const int W = 1;
layout(constant_id = 7) const int HEADS = 1;
#include "common/dtype.glsl"
#include "common/errors.glsl"
#include "common/half.glsl"
#include "common/indexing.glsl"

struct Params {
  uint64_t x, y, cosines, sines, positions, error;
  int64_t sx[3], sy[3];  // strides of batch, heads, tokens
  uint total, tasks, turning, tokens, heads, table_rows, position_stride, tag;  // tasks of a token; those with pairs to turn
};
#include "common/params.glsl"

layout(buffer_reference, scalar, buffer_reference_align = 16) buffer BlockRef { uvec4 v; };
const int MOST = 8;  // the largest W

void load_many(uint64_t base, uint64_t i, int dt, out float v[MOST]) {
  if (dt == AULE_DT_F32 && W >= 4) {
    [[unroll]] for (int q = 0; q < MOST / 4; ++q) {
      if (4 * q >= W) continue;
      const vec4 b = uintBitsToFloat(BlockRef(base + (i + 4 * q) * 4).v);
      [[unroll]] for (int k = 0; k < 4; ++k) v[4 * q + k] = b[k];
    }
  } else if (dt != AULE_DT_F32 && W == 8) {
    const uvec4 b = BlockRef(base + i * 2).v;
    [[unroll]] for (int k = 0; k < MOST; ++k) {
      const uint bits = (k & 1) == 0 ? b[k / 2] & 0xffffu : b[k / 2] >> 16;
      v[k] = dt == AULE_DT_F16 ? unpackHalf2x16(bits).x : bf16_to_float(bits);
    }
  } else {
    [[unroll]] for (int k = 0; k < MOST; ++k)
      if (k < W) v[k] = load_float(base, i + k, dt);
  }
}
void store_many(uint64_t base, uint64_t i, float v[MOST]) {
  if (DT == AULE_DT_F32 && W == 4) {
    BlockRef(base + i * 4).v = floatBitsToUint(vec4(v[0], v[1], v[2], v[3]));
  } else if (DT != AULE_DT_F32 && W == 8) {
    uvec4 b;
    const bool halves = DT == AULE_DT_F16 && packs_halves();
    [[unroll]] for (int k = 0; k < 4; ++k) {
      if (DT == AULE_DT_BF16) b[k] = float_to_bf16(v[2 * k]) | float_to_bf16(v[2 * k + 1]) << 16;
      else if (halves) b[k] = packHalf2x16(vec2(v[2 * k], v[2 * k + 1]));
      else b[k] = float_to_f16(v[2 * k]) | float_to_f16(v[2 * k + 1]) << 16;
    }
    BlockRef(base + i * 2).v = b;
  } else {
    [[unroll]] for (int k = 0; k < MOST; ++k)
      if (k < W) store_float(base, i + k, DT, v[k]);
  }
}

void main() {
  const uint64_t id = linear_invocation();
  if (id >= uint64_t(p.total)) return;
  uint i = uint(id);
  const uint task = i % p.tasks;
  i /= p.tasks;
  const uint token = i % p.tokens;
  i /= p.tokens;
  const uint parts = (p.heads + HEADS - 1u) / HEADS, first = (i % parts) * HEADS, batch = i / parts;

  const bool turns = task < p.turning;
  const uint half_size = p.turning * W;
  // Where the two times W elements of this task lie.
  uint at = 2u * W * task, to = at + W;
  if (turns && !INTERLEAVED) {
    at = W * task;
    to = at + half_size;
  }
  float c[MOST], s[MOST];
  if (turns) {
    int64_t row = int64_t(token);
    if (POSITIONS) {
      row = load_int64(p.positions, uint64_t(batch) * p.position_stride + token, DT_POSITION);
      if (row < int64_t(0) || row >= int64_t(p.table_rows)) {
        report_error(p.error, AULE_ERR_INDEX_OUT_OF_RANGE, p.tag, row, int64_t(p.table_rows));
        row = int64_t(0);
      }
    }
    const uint64_t from = uint64_t(row) * half_size + W * task;
    load_many(p.cosines, from, DT_TABLE, c);
    load_many(p.sines, from, DT_TABLE, s);
  }
  float a[HEADS][MOST], b[HEADS][MOST];
  [[unroll]] for (int h = 0; h < HEADS; ++h) {
    if (first + h >= p.heads) continue;
    const uint64_t x = uint64_t(int64_t(batch) * p.sx[0] + int64_t(first + h) * p.sx[1] + int64_t(token) * p.sx[2]);
    load_many(p.x, x + at, DT, a[h]);
    load_many(p.x, x + to, DT, b[h]);
  }
  [[unroll]] for (int h = 0; h < HEADS; ++h) {
    if (first + h >= p.heads) continue;
    const uint64_t y = uint64_t(int64_t(batch) * p.sy[0] + int64_t(first + h) * p.sy[1] + int64_t(token) * p.sy[2]);
    float u[MOST], v[MOST];
    [[unroll]] for (int k = 0; k < MOST; ++k) {
      if (k >= W) continue;
      if (!turns) {
        u[k] = a[h][k];
        v[k] = b[h][k];
      } else if (INTERLEAVED) {
        // Pair k is elements 2 k and 2 k + 1 of a and b one after the other.
        const float e = 2 * k < W ? a[h][2 * k % W] : b[h][2 * k % W];
        const float o = 2 * k + 1 < W ? a[h][(2 * k + 1) % W] : b[h][(2 * k + 1) % W];
        const float t = INVERSE ? -s[k] : s[k], even = e * c[k] - o * t, odd = e * t + o * c[k];
        if (2 * k < W) u[2 * k % W] = even; else v[2 * k % W] = even;
        if (2 * k + 1 < W) u[(2 * k + 1) % W] = odd; else v[(2 * k + 1) % W] = odd;
      } else {
        const float t = INVERSE ? -s[k] : s[k];
        u[k] = a[h][k] * c[k] - b[h][k] * t;
        v[k] = a[h][k] * t + b[h][k] * c[k];
      }
    }
    store_many(p.y, y + at, u);
    store_many(p.y, y + to, v);
  }
}
