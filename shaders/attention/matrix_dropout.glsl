// The dropout mask of one block of scores in the lanes that hold it: see dropout_draw() in attention.glsl.
//
// Where a lane holds rows {g, g + 8} and columns {2t, 2t + 1, 2t + 8, 2t + 9} (g = lane / 4, t = lane % 4), its 8 elements
// belong to 4 draws, which 4 lanes share: each lane makes one of them and hands out the others' words, a draw for 8
// elements. With other layouts every element makes its own draw.
#ifndef AULE_ATTENTION_MATRIX_DROPOUT_GLSL
#define AULE_ATTENTION_MATRIX_DROPOUT_GLSL

const bool QUADS = SUBGROUP == 32 && LANE_MAP == 0x02020104 && ELEM_ROWS == 0x88880000 && ELEM_COLS == 0x98109810;

// Word i of the result is word j of lane i's argument, where i and j count the lanes that differ in bits `low` and `high`.
uvec4 handed_out(uvec4 w, uint low, uint high) {
  const bool a = (gl_SubgroupInvocationID & low) != 0u, b = (gl_SubgroupInvocationID & high) != 0u;
  const uint xy = subgroupShuffleXor(a ? w.x : w.y, low), zw = subgroupShuffleXor(a ? w.z : w.w, low);
  w = a ? uvec4(xy, w.y, zw, w.w) : uvec4(w.x, xy, w.z, zw);
  const uint xz = subgroupShuffleXor(b ? w.x : w.z, high), yw = subgroupShuffleXor(b ? w.y : w.w, high);
  return b ? uvec4(xz, yw, w.z, w.w) : uvec4(w.x, w.y, xz, yw);
}

// Bits of the block at (row0, key0), multiples of 16, whose accumulator has queries as rows: element e has half e % 2 of
// word e / 2.
uvec4 dropout_block(Philox g, int bh, int row0, int key0, int q_len) {
  const int which = lane() >> 2 & 3;
  const int row = row0 + (lane() >> 2 & 4) + 8 * (which >> 1), key = key0 + 2 * (lane() & 3) + 8 * (which & 1);
  return handed_out(dropout_draw(g, bh, row, key, q_len), 4u, 8u);
}
// The same where keys are the rows.
uvec4 dropout_block_transposed(Philox g, int bh, int row0, int key0, int q_len) {
  const int which = (lane() & 1) | (lane() >> 1 & 2);
  const int row = row0 + (lane() & 2) * 2 + 8 * (which & 1), key = key0 + (lane() >> 2 & 6) + 8 * (which >> 1);
  const uvec4 w = dropout_draw(g, bh, row, key, q_len);
  return handed_out(uvec4((w.x & 0xffffu) | w.y << 16, (w.z & 0xffffu) | w.w << 16, w.x >> 16 | (w.y & 0xffff0000u),
                          w.z >> 16 | (w.w & 0xffff0000u)), 1u, 4u);
}
bool dropout_keeps_element(uvec4 words, int e, uint threshold) {
  return ((e & 1) == 0 ? words[e >> 1] & 0xffffu : words[e >> 1] >> 16) >= threshold;
}
#endif
