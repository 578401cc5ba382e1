#pragma aule inline
// The panel of columns [first, first + width) of a = L L^T, float32, in registers: the diagonal block and rows below.
// Invocation (tx, ty) of 16 x 16 has rows 16 i + ty and columns 16 k + tx. A step publishes a column in shared memory,
// with one barrier; columns are divided by the roots of their pivots at the end.
// BELOW > 0: a workgroup has 16 BELOW rows below the block. Each factorizes the block, which is shorter than a launch
// that would do it for all. The block goes to `diagonals`, [batches, panels, 16 TILES, 16 TILES] by columns, as others
// may still read it where it is. BELOW 0: the block is the whole matrix, stays, and gets zeros above its diagonal.
// `info` gets the 1-based column whose pivot is not positive. Nothing more is done then.
// What was tried, and what it gave: docs/ladders/cholesky.md
layout(constant_id = 0) const int TILES = 8;
layout(constant_id = 1) const int BELOW = 4;
layout(local_size_x = 256) in;
#include "common/dtype.glsl"
#include "common/indexing.glsl"

struct Params {
  uint64_t a, info, diagonals;
  int64_t batch_stride, row, col;
  uint n, batches, first, width;
};
#include "common/params.glsl"

const uint SIDE = 16 * TILES, STRIP = 16 * BELOW, COLUMN = SIDE + STRIP;
shared float column[2 * COLUMN];  // the next step's is written while this one's is read
shared float pivots[SIDE];

float block[TILES * TILES];
float low[BELOW > 0 ? BELOW * TILES : 1];
uint lane, tx, ty, batch, strip, strips, done, now;
uint64_t corner;  // the address of the block's first element

#define ROW(i) (uint(i) * 16 + ty)
#define COL(k) (uint(k) * 16 + tx)
#define STRIP_ROW(r) (p.width + strip * STRIP + ROW(r))
#define HAS_STRIP_ROW(r) (p.first + STRIP_ROW(r) < p.n)
#define AT(i, j) F32Ref(corner + uint64_t((int64_t(i) * p.row + int64_t(j) * p.col) * 4)).v

// A branch around a load would keep the next one waiting: what is not wanted is loaded too, from a place that exists.
void load_panel() {
  const uint end = p.width - 1, last = p.n - p.first - 1;
  [[unroll]] for (int i = 0; i < TILES; ++i)
    [[unroll]] for (int k = 0; k <= i; ++k) block[i * TILES + k] = AT(min(ROW(i), end), min(COL(k), end));
  [[unroll]] for (int r = 0; r < BELOW; ++r)
    [[unroll]] for (int k = 0; k < TILES; ++k) low[r * TILES + k] = AT(min(STRIP_ROW(r), last), min(COL(k), end));
  [[unroll]] for (int i = 0; i < TILES; ++i)
    [[unroll]] for (int k = 0; k <= i; ++k)
      if (ROW(i) >= p.width || COL(k) > ROW(i)) block[i * TILES + k] = 0.0;
}

// Column `at`, of the 16 that begin at 16 b.
void eliminate(int b) {
  const uint j = at % 16, from = now * COLUMN;
  if (tx == j) {
    [[unroll]] for (int i = b; i < TILES; ++i) column[from + ROW(i)] = block[i * TILES + b];
    [[unroll]] for (int r = 0; r < BELOW; ++r) column[from + SIDE + ROW(r)] = low[r * TILES + b];
  }
  now ^= 1;
  barrier();  // the column is written, the last but one is read
  const float pivot = column[from + at];
  if (pivot > 0.0) {
    if (lane == 0) pivots[at] = pivot;
    const float inverse = 1.0 / pivot;
    float y[TILES];
    [[unroll]] for (int k = b; k < TILES; ++k) y[k] = column[from + COL(k)] * inverse;
    if (tx <= j) y[b] = 0.0;  // of columns that are complete
    [[unroll]] for (int i = b; i < TILES; ++i) {
      const float x = i > b || ty >= j ? column[from + ROW(i)] : 0.0;
      [[unroll]] for (int k = b; k <= i; ++k) block[i * TILES + k] -= x * y[k];
    }
    [[unroll]] for (int r = 0; r < BELOW; ++r) {
      const float x = column[from + SIDE + ROW(r)];
      [[unroll]] for (int k = b; k < TILES; ++k) low[r * TILES + k] -= x * y[k];
    }
  } else {
    done = at;
  }
}

// Written out: a compiler that left this loop alone would index `block` and `low` by a variable, in memory.
#define ELIMINATE(b)                                                                          \
  if (b < TILES) {                                                                            \
    [[dont_unroll]] for (uint at = b * 16; at < min(done, b * 16u + 16); ++at) { eliminate(b) } \
  }

void divide_by_roots() {
  [[unroll]] for (int k = 0; k < TILES; ++k) {
    const float root = COL(k) < done ? sqrt(pivots[COL(k)]) : 1.0;
    [[unroll]] for (int i = k; i < TILES; ++i) block[i * TILES + k] /= root;
    [[unroll]] for (int r = 0; r < BELOW; ++r) low[r * TILES + k] /= root;
  }
}

void store_whole() {
  [[unroll]] for (int i = 0; i < TILES; ++i)
    [[unroll]] for (int k = 0; k < TILES; ++k)
      if (ROW(i) < p.width && COL(k) < p.width)
        AT(ROW(i), COL(k)) = k <= i && COL(k) <= ROW(i) ? block[i * TILES + min(k, i)] : 0.0;
}

void store_panel() {
  const uint panels = (p.n + SIDE - 1) / SIDE;
  const uint64_t diagonal = p.diagonals + uint64_t(batch * panels + p.first / SIDE) * (SIDE * SIDE * 4);
  if (strip == 0) {
    [[unroll]] for (int i = 0; i < TILES; ++i)
      [[unroll]] for (int k = 0; k <= i; ++k) F32Ref(diagonal + (COL(k) * SIDE + ROW(i)) * 4).v = block[i * TILES + k];
  }
  [[unroll]] for (int r = 0; r < BELOW; ++r)
    [[unroll]] for (int k = 0; k < TILES; ++k)
      if (HAS_STRIP_ROW(r) && COL(k) < p.width) AT(STRIP_ROW(r), COL(k)) = low[r * TILES + k];
}

void main() {
  lane = gl_LocalInvocationID.x;
  strips = BELOW > 0 ? max((p.n - p.first - p.width + STRIP - 1) / max(STRIP, 1), 1) : 1;
  batch = linear_group() / strips;
  strip = linear_group() % strips;
  if (batch >= p.batches) return;  // the whole workgroup leaves
  const uint failed = uint(I32Ref(p.info + batch * 4).v);
  if (failed != 0 && failed <= p.first) return;  // alike: what this launch writes is past `first`
  const bool is_by_rows = p.row <= p.col;  // neighbours load along the smaller stride
  ty = is_by_rows ? lane % 16 : lane / 16;
  tx = is_by_rows ? lane / 16 : lane % 16;
  corner = p.a + uint64_t((int64_t(batch) * p.batch_stride + int64_t(p.first) * (p.row + p.col)) * 4);
  load_panel()
  done = p.width;
  now = 0;
  ELIMINATE(0)
  ELIMINATE(1)
  ELIMINATE(2)
  ELIMINATE(3)
  ELIMINATE(4)
  ELIMINATE(5)
  ELIMINATE(6)
  ELIMINATE(7)
  barrier();  // the pivots are written
  divide_by_roots()
  if (BELOW == 0) {
    store_whole()
  } else {
    store_panel()
  }
  if (strip == 0 && lane == 0 && done < p.width) I32Ref(p.info + batch * 4).v = int(p.first + done + 1);
}
