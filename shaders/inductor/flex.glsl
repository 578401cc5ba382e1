// Shared by the kernels of FlexAttention. The generated head has Params, the shape of tiles (simt.glsl, simd.glsl),
// sizes and strides as FLEX_... macros, and the modifiers as functions score_mod(), mask_mod(), in the backward
// score_grad().
//
// Tables list blocks of keys for each block of queries, or the other way round: first those that mask_mod divides, then
// full ones. A workgroup's rows are of one block; the last tile of a block may stick out, and what does is hidden.
#define ATTENTION_GENERATED
#include "attention/parts/elements.glsl"
#if defined(FLEX_COOPMAT)
// No dropout, which these kernels share loops with.
struct Dropout { uint none; };
uint dropout_word(Dropout d, int bh, uint row_unit, uint key_unit, uint cell) { return ~0u; }
uint dropout_cell(int row, int key) { return 0u; }
uint dropout_bit(int row, int key) { return 0u; }
#include "attention/parts/coopmat.glsl"
#include "attention/parts/coopmat_tiles.glsl"
#include "attention/parts/coopmat_dropout.glsl"
const int SPLITS = 1, RESULT_COLUMNS = 0, BM = BLOCK;
#elif defined(FLEX_SIMD)
#include "attention/parts/simd.glsl"
const int SPLITS = 1, RESULT_COLUMNS = 0, BM = W * ROWS;

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
#include "attention/parts/simt.glsl"
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

#ifdef FLEX_COOPMAT
// Row and column of element e of an accumulator of scores.
#define FLEX_ROW(r, e) (row0 + (r) * MAT_M + lane_row() + NIBBLE(ELEM_ROWS, e))
#define FLEX_COLUMN(start, e) ((start) + lane_col() + NIBBLE(ELEM_COLS, e))
// {log-sum-exp, delta} of a row. That of one that sees nothing, or is none, makes every weight 0.
vec2 usable_stats(float lse, float delta, bool is_row) {
  return is_row && lse > NEG_INF ? vec2(lse, delta) : vec2(POS_INF, 0.0);
}
// Tiles of the entries of both tables, one after the other: those that mask_mod divides are the first `divided`. The
// sizes of blocks are multiples of TILE, or there is one block.
struct Visits { Table table, full_table; int of_block, divided, count; };
Visits visits_of(int b, int h, int block, int length, int size) {
  const Table table = table_of(false, b, h, block), full_table = table_of(true, b, h, block);
  const int of_block = (min(length, size) + TILE - 1) / TILE, divided = table_count(table) * of_block;
  return Visits(table, full_table, of_block, divided,
                FLEX_PARTS == 2 ? divided + table_count(full_table) * of_block : divided);
}
// The tile of a visit, of the last one behind it; 0 if there is none.
int tile_of(Visits v, int at, int size) {
  const int visit = max(min(at, v.count - 1), 0);
  const bool full = visit >= v.divided;
  Table table = v.table;
  if (full) table = v.full_table;
  const int i = full ? visit - v.divided : visit;
  const int tile = table_entry(table, i / v.of_block) * (size / TILE) + i % v.of_block;
  return v.count > 0 ? tile : 0;
}
#endif

uint64_t elements(uint64_t base, int64_t offset) { return base + uint64_t(offset * ELEM_BYTES); }

// The work of a workgroup: rows [first, row_end) of block `block`, and columns of the result from `column` on.
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
  at.column = group % SPLITS * RESULT_COLUMNS;
  group /= SPLITS;
  at.h = group % heads;
  at.b = group / heads;
  at.row_end = at.block == blocks - 1 ? length : (at.block + 1) * block_size;
  return int(linear_group()) < groups && at.first < at.row_end;
}
