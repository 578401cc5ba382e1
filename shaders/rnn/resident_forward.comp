// `count` steps of a recurrent layer (cells: recurrent.glsl; the matrix: resident.glsl) in one dispatch: nothing waits
// for other workgroups, since sequences of a batch do not meet. A workgroup has ROWS sequences of a direction, an
// invocation one element of their state, and four columns of the product in turn. All sequences have `times` steps.
//   h, c = cell(gates, h @ weights + bias, h, c)
// KEEPS and its tensors: recurrent_forward.comp.
#include "common/dtype.glsl"
layout(constant_id = 0) const int DTYPE = 0;
layout(constant_id = 1) const int CELL = 0;
layout(constant_id = 2) const uint ROWS = 1;
layout(constant_id = 3) const uint HIDDEN = 4;  // a multiple of 4; ROWS * HIDDEN <= LOCAL, GATES * HIDDEN <= 4 * LOCAL
layout(constant_id = 4) const bool HAS_BIAS = true;
layout(constant_id = 5) const bool KEEPS = false;
layout(local_size_x = 512) in;
#include "common/indexing.glsl"
struct Params {
  uint64_t gates, bias, weights;  // [directions][rows][GATES * HIDDEN], ...; weights: [directions][HIDDEN][...]
  uint64_t h, c;                  // [directions][batch][HIDDEN], c in float32
  uint64_t out_, inner, before;
  int64_t out_row, out_direction;
  uint64_t rows;
  uint times, first, count, directions, batch;
};
#include "common/params.glsl"
#include "rnn/recurrent.glsl"
const uint LOCAL = 512, K = HIDDEN, N = GATES * HIDDEN;
#include "rnn/resident.glsl"

void main() {
  const uint t = gl_LocalInvocationID.x, blocks = (p.batch + ROWS - 1) / ROWS;
  const uint d = linear_group() / blocks, r = t / HIDDEN, u = t % HIDDEN;
  if (d >= p.directions) return;  // the whole workgroup leaves
  const uint b = linear_group() % blocks * ROWS + r;
  const bool owns = r < ROWS && b < p.batch;
  begin(p.weights + uint64_t(d) * (K * N) * (DTYPE == AULE_DT_F32 ? 4 : 2));
  const uint64_t own = (uint64_t(d) * p.batch + b) * HIDDEN + u;
  float h = 0.0, c = 0.0, bias[4];
  [[unroll]] for (uint g = 0; g < GATES; ++g)
    bias[g] = HAS_BIAS && owns ? load_float(p.bias, uint64_t(d) * N + g * HIDDEN + u, DTYPE) : 0.0;
  if (owns) {
    h = load_float(p.h, own, DTYPE);
    if (CELL == CELL_lstm) c = F32Ref(p.c + own * 4).v;
    vectors[r * K_PADDED + u] = h;
  }
  barrier();  // the states are written
  [[dont_unroll]] for (uint step = p.first; step < p.first + p.count; ++step) {
    const uint at = (d == 0 ? step : p.times - 1 - step) * p.batch + b;
    const uint64_t row = uint64_t(d) * p.rows + at;
    float x[4], s[4];
    if (owns) {
      [[unroll]] for (uint g = 0; g < GATES; ++g) x[g] = load_float(p.gates, row * N + g * HIDDEN + u, DTYPE);
    }
    multiply();
    barrier();  // the partial sums are written, the states read
    if (owns) {
      [[unroll]] for (uint g = 0; g < GATES; ++g) s[g] = product(r, g * HIDDEN + u) + bias[g];
      const float inner = kept_inner(s, c), before = h;
      h = cell_forward(x, s, before, c);
      vectors[r * K_PADDED + u] = h;
      store_float(p.out_, uint64_t(int64_t(at) * p.out_row + int64_t(d) * p.out_direction + int64_t(u)), DTYPE, h);
      if (KEEPS) {
        [[unroll]] for (uint g = 0; g < GATES; ++g) store_float(p.gates, row * N + g * HIDDEN + u, DTYPE, x[g]);
        if (CELL == CELL_lstm || CELL == CELL_gru) F32Ref(p.inner + (row * HIDDEN + u) * 4).v = inner;
        store_float(p.before, row * HIDDEN + u, DTYPE, before);
      }
    }
    barrier();  // the states are written, the partial sums read
  }
  if (owns) {
    store_float(p.h, own, DTYPE, h);
    if (CELL == CELL_lstm) F32Ref(p.c + own * 4).v = c;
  }
}
