// What the kernels of FlexAttention share. The generated head has Params, the shape of tiles (simt.glsl, simd.glsl),
// sizes and strides as FLEX_... macros, and the modifiers as functions score_mod(), mask_mod(), in the backward
// score_grad().
//
// Tables list blocks of keys for each block of queries, or the other way round: first those that mask_mod divides, then
// full ones. A workgroup's rows are of one block; the last tile of a block may stick out, and what does is hidden.
#define ATTENTION_GENERATED
#include "attention/elements.glsl"
#ifdef FLEX_SIMD
#include "attention/simd.glsl"
const int SPLITS = 1, COLUMNS = 0, BM = W * R;

// Rows of this lane, and products with a row that all lanes read together; `dim` elements of it exist.
struct HeadRow { float v[DP]; };
struct ValueRow { float v[DVP]; };
#define FLEX_ROW_FUNCTIONS(ROW, SIZE) \
  ROW load_row(ROW unused, uint64_t row, int dim) { \
    ROW x; \
    [[unroll]] for (int d = 0; d < SIZE; d += 2) { \
      const vec2 two = load_row_pair(row, d, dim); \
      x.v[d] = two.x; \
      x.v[d + 1] = two.y; \
    } \
    return x; \
  } \
  void store_row(ROW x, float factor, uint64_t row, int dim) { \
    [[unroll]] for (int d = 0; d < SIZE; d += 2) \
      store_row_pair(row, d, dim, vec2(x.v[d], x.v[d + 1]) * factor); \
  } \
  float product(ROW x, uint64_t other, int dim) { \
    float sum = 0.0; \
    [[unroll]] for (int c = 0; c < SIZE; c += COLS_AT_ONCE) { \
      const vec2 two = load_lane_pair(other, c, dim); \
      [[unroll]] for (int e = 0; e < COLS_AT_ONCE; ++e) \
        sum += x.v[c + e] * subgroupShuffle((e & 1) == 0 ? two.x : two.y, e >> 1); \
    } \
    return sum; \
  } \
  void add(inout ROW x, float keep, float weight, uint64_t other, int dim) { \
    [[unroll]] for (int c = 0; c < SIZE; c += COLS_AT_ONCE) { \
      const vec2 two = load_lane_pair(other, c, dim); \
      [[unroll]] for (int e = 0; e < COLS_AT_ONCE; ++e) \
        x.v[c + e] = x.v[c + e] * keep + weight * subgroupShuffle((e & 1) == 0 ? two.x : two.y, e >> 1); \
    } \
  } \
  void clear(out ROW x) { \
    [[unroll]] for (int d = 0; d < SIZE; ++d) x.v[d] = 0.0; \
  }
FLEX_ROW_FUNCTIONS(HeadRow, DP)
FLEX_ROW_FUNCTIONS(ValueRow, DVP)
#else
#include "attention/simt.glsl"
#endif

// The number of entries of a block's row of a table, and entry i.
struct Table { uint64_t counts, entries; };
int table_count(Table t) { return I32Ref(t.counts).v; }
int table_entry(Table t, int i) { return I32Ref(t.entries + uint64_t(uint(i)) * 4ul).v; }

// The table of a block's divided blocks, or of its full ones.
Table table_of(bool full, int b, int h, int block) {
  Table table = FLEX_TABLE(b, h, block);
  if (full) table = FLEX_FULL_TABLE(b, h, block);
  return table;
}
// Rows [begin, end) of entry i, in blocks of `size` rows of `length`.
struct Span { int begin, end; };
Span entry_span(Table t, int i, int size, int length) {
  const int begin = table_entry(t, i) * size;
  return Span(begin, length - begin < size ? length : begin + size);
}

uint64_t elements(uint64_t base, int64_t offset) { return base + uint64_t(offset * ELEM_BYTES); }

// Where a workgroup works: rows [first, row_end) of block `block`, and columns of the result from `column` on.
struct Place { int block, first, row_end, column, b, h; };
// Blocks of `block_size` rows of `length`, in tiles of BM rows, `heads` heads. False past the end of a block or of all.
bool take_place(out Place at, int length, int block_size, int heads, int groups) {
  const int tiles = (min(length, block_size) + BM - 1) / BM, blocks = (length - 1) / block_size + 1;
  int group = int(linear_group());
  if (group >= groups) group = 0;
  // Later blocks see more keys under causal masks: they begin first.
  at.block = blocks - 1 - group % blocks;
  group /= blocks;
  at.first = at.block * block_size + group % tiles * BM;
  group /= tiles;
  at.column = group % SPLITS * COLUMNS;
  group /= SPLITS;
  at.h = group % heads;
  at.b = group / heads;
  at.row_end = at.block == blocks - 1 ? length : (at.block + 1) * block_size;
  return int(linear_group()) < groups && at.first < at.row_end;
}
