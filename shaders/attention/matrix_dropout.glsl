// The dropout mask of one block of scores in the lanes that hold it: see dropout_draw() in attention.glsl.
//
// Where a lane holds rows {g, g + 8} and columns {2t, 2t + 1, 2t + 8, 2t + 9} (g = lane / 4, t = lane % 4), its 8 elements
// belong to 4 draws, which 4 lanes share: each lane makes one of them and hands out the others' words, a draw for 8
// elements. With other layouts every element makes its own draw.
//
// Ladder (NVIDIA H200, driver 580.159, float16, N 4096, p 0.1, heads * N * D = 2^26, TFLOPS forward / backward at D 64 and
// D 128; without dropout 330 / 284 and 331 / 249; CUDA's FlashAttention-2 in the same run 226 / 235 and 281 / 278, without
// dropout 303 / 273 and 356 / 289):
//   this, in an earlier run                                                       193 / 188    253 / 212
//   8 bits of an element instead of 16: a lane's 32 elements of 32 x 32 scores are one word, made of the 8 words of two
//   draws by AND and OR, which compares all 32 with the threshold at once; transposed it takes 2 shuffles
//     drawn before S                                                              254 / 116    277 / 211
//     drawn after S                                                               248 / 226    278 / 213
//     before, and P masked as pairs of halves, multiplied by 0 or 2; with AND     257; 186     281; 274
//     before, constant bits for the draws; 4 rounds; 2 rounds   D 128: 318 / 247; 292 / 222; 296 / 229
//   The 8 bits were timed only: no GPU has checked their mask, and lavapipe has another layout. The D 64 rows were taken on
//   a GPU that grew hot (285 / 270 without dropout at their end); drawn before S, D 64 has 96 bytes of local memory.
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
