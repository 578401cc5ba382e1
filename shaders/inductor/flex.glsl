// What the kernels of FlexAttention share. The generated head has Params, the shape of tiles (simt.glsl), sizes and
// strides as FLEX_... macros, and the modifiers as functions score_mod(), mask_mod(), in the backward score_grad().
//
// Tables list blocks of keys for each block of queries, or the other way round: first those that mask_mod divides, then
// full ones. A workgroup's rows are of one block; the last tile of a block may stick out, and what does is hidden.
#define ATTENTION_GENERATED
#include "attention/elements.glsl"
#include "attention/simt.glsl"

// The number of entries of a block's row of a table, and entry i.
struct Table { uint64_t counts, entries; };
int table_count(Table t) { return I32Ref(t.counts).v; }
int table_entry(Table t, int i) { return I32Ref(t.entries + uint64_t(uint(i)) * 4ul).v; }

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
