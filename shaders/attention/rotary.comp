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
#include "attention/parts/turn.glsl"
#include "common/indexing.glsl"

struct Params {
  uint64_t x, y, cosines, sines, positions, error;
  int64_t sx[3], sy[3];  // strides of batch, heads, tokens
  // tasks of a token; those with pairs to turn
  uint total, tasks, turning, tokens, heads, table_rows, position_stride, tag;
};
#include "common/params.glsl"

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
  const uvec2 both = places(task, p.turning);
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
  const uvec4 left = load_raw_many(p.x, x + both.x), right = load_raw_many(p.x, x + both.y);
  float u[MAX_E], v[MAX_E];
  turn(left, right, turns, c, s, u, v);
  store_many(p.y, y + both.x, u);
  store_many(p.y, y + both.y, v);
}
