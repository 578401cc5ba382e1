// The dropout mask of blocks of scores, in the lanes of their elements: see dropout_word() in attention.glsl.
//
// If a lane has rows {g, g + 8} and columns {2t, 2t + 1, 2t + 8, 2t + 9} (g = lane / 4, t = lane % 4), it has one cell
// of a unit, which is two blocks of rows by two of columns. The cell's word is one register, drawn on every second
// block of the operand that passes in tiles. With keys as rows, two shuffles make the lane's word. Lanes of other
// layouts draw the words of a unit for every block, and a shuffle fetches each element's word.
// What was tried, and what it gave: docs/ladders/coopmat_dropout.md
#ifndef AULE_ATTENTION_COOPMAT_DROPOUT_GLSL
#define AULE_ATTENTION_COOPMAT_DROPOUT_GLSL
const int LANE_WORDS = SUBGROUP < 32 ? 32 / SUBGROUP : 1;
const bool WHOLE_UNITS = BLOCKS % 2 == 0;  // tiles have whole units
// Whether a block of the operand that passes in tiles is the second of its unit.
#define SECOND_BLOCK(block, start) (WHOLE_UNITS ? (block) & 1 : (start) >> 4 & 1)

#define CELL_KEEPS(word, bit) (((word) & (1u << (bit))) != 0u)
// Element e of block (i, j) of a cell: i counts the unit's blocks of queries, j those of keys.
#define CELL_BIT(i, j, e) (16 * ((e) & 1) + 8 * (i) + 4 * (j) + ((e) >> 1))
// The same in transposed_cell(), of an accumulator with keys as rows.
#define TRANSPOSED_BIT(i, j, e) (16 * ((e) & 1) + 8 * (i) + 4 * (j) + ((e) & 2) + ((e) >> 2))

// The word of this lane's cell in the unit at (row, key). Bit 0 belongs to the subgroup's first row.
uint own_cell(Dropout d, int bh, int row, int key) {
  const uint word = dropout_word(d, bh, uint(row) / 32u, uint(key) / 32u, gl_SubgroupInvocationID);
  return ROW_BLOCKS == 1 ? word >> ((row & 16) >> 1) : word;
}
// The same with keys as rows. The lane's keys have one parity, g % 2, and its queries have both: half a word each of
// two cells.
uint transposed_cell(Dropout d, int bh, int query, int key) {
  const uint word = dropout_word(d, bh, uint(query) / 32u, uint(key) / 32u, gl_SubgroupInvocationID);
  const uint from = (gl_SubgroupInvocationID & 3u) << 3 | gl_SubgroupInvocationID >> 3;
  const uint even = subgroupShuffle(word, from), odd = subgroupShuffle(word, from + 4u);
  const uint both = (gl_SubgroupInvocationID & 4u) != 0u ? even >> 16 | (odd & 0xffff0000u) :
      (even & 0xffffu) | odd << 16;
  return ROW_BLOCKS == 1 ? both >> ((key & 16) >> 2) : both;
}
#ifdef T_float16_t
// Elements of P that are masked at once: two halves, times 2 or 0.
const int RUN = WHOLE_CELLS ? (D <= 64 ? 2 : 1) : 1;
#define PUT_PAIR(M, e, x, y, word, bit)                                                                                \
  {                                                                                                                    \
    const uint factors_ = ((bit) < 15 ? (word) << ((14 - (bit)) & 15) : (word) >> 1) & 0x40004000u;                    \
    const f16vec2 two_ = f16vec2(x, y) * unpackFloat2x16(factors_);                                                    \
    M[NIBBLE(ELEM_OF_A, e)] = two_.x;                                                                                  \
    M[NIBBLE(ELEM_OF_A, e + 1)] = two_.y;                                                                              \
  }
#else
const int RUN = 1;
#define PUT_PAIR(M, e, x, y, word, bit)
#endif
// Whether the block at `then` has another cell than the one before it, at `start`.
#define LAST_OF_UNIT(block, start, then) (WHOLE_UNITS ? ((block) & 1) == 1 : ((start) ^ (then)) >> 5 != 0)

// Other layouts: the words of the unit of the block at (row, key), cell lane + SUBGROUP * i in word i.
uint lane_word(Dropout d, int bh, int row, int key, int i) {
  return dropout_word(d, bh, uint(row) / 32u, uint(key) / 32u, uint(lane() + i * SUBGROUP) & 31u);
}
uvec4 unit_words(Dropout d, int bh, int row, int key) {
  uvec4 words = uvec4(lane_word(d, bh, row, key, 0));
  if (LANE_WORDS > 1) words.y = lane_word(d, bh, row, key, 1);
  if (LANE_WORDS > 2) words.zw = uvec2(lane_word(d, bh, row, key, 2), lane_word(d, bh, row, key, 3));
  return words;
}
bool words_keep(uvec4 words, int row, int key) {
  const uint cell = dropout_cell(row, key), from = cell % SUBGROUP, i = cell / SUBGROUP;
  uint word = subgroupShuffle(words.x, from);
  if (LANE_WORDS > 1) {
    const uint other = subgroupShuffle(words.y, from);
    word = i == 1u ? other : word;
  }
  if (LANE_WORDS > 2) {
    const uint third = subgroupShuffle(words.z, from), fourth = subgroupShuffle(words.w, from);
    word = i == 2u ? third : i == 3u ? fourth : word;
  }
  return CELL_KEEPS(word, dropout_bit(row, key));
}
#endif
