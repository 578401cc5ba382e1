// What the attention kernels for matrix units share: constants, staging of 16-bit rows, patches of A operands.
//
// A workgroup of WARPS subgroups owns WARPS * ROWS * MAT_M rows (queries, or keys in dK/dV); the others pass in tiles
// of TILE rows through shared memory, rows padded by 16 bytes so that matrix loads meet no bank conflict. Head sizes
// are padded to a multiple of 16 with zeros on the way in. S and P never leave registers: an accumulator becomes the
// next product's A operand by copying elements (coopmat_lanes.glsl).
#ifndef AULE_ATTENTION_MATRIX_GLSL
#define AULE_ATTENTION_MATRIX_GLSL
#define ATTENTION_MATRIX
#ifndef STAGED
#define STAGED 0
#endif
#include "attention/attention.glsl"
#define MATRIX_CONSTANTS FAMILY_CONSTANTS
#include "common/coopmat_types.glsl"
#include "attention/coopmat_lanes.glsl"
#extension GL_KHR_shader_subgroup_vote : require

// Head sizes of query and key, and of value, padded to multiples of 16.
layout(constant_id = AFTER_MATRIX_CONSTANTS) const int D = 64;
layout(constant_id = AFTER_MATRIX_CONSTANTS + 1) const int DV = 64;
layout(constant_id = AFTER_MATRIX_CONSTANTS + 2) const int TILE = 64;
layout(constant_id = AFTER_MATRIX_CONSTANTS + 3) const int ROWS = 1;      // MAT_M blocks of rows of a subgroup
layout(constant_id = AFTER_MATRIX_CONSTANTS + 4) const int STEP = 1;      // MAT_N blocks of a tile in flight
layout(constant_id = AFTER_MATRIX_CONSTANTS + 5) const int STAGES = 1;    // tiles in shared memory: 1 or 2
// Bytes from row to row of the first operand that passes in tiles, and of the second.
layout(constant_id = AFTER_MATRIX_CONSTANTS + 6) const int A_STEP = 128;
layout(constant_id = AFTER_MATRIX_CONSTANTS + 7) const int B_STEP = 128;
// Every row starts at a multiple of 16 bytes and sizes are multiples of 8.
layout(constant_id = AFTER_MATRIX_CONSTANTS + 8) const bool ALIGNED = false;
layout(constant_id = AFTER_MATRIX_CONSTANTS + 9) const bool PADDED = false;  // D or DV is more than the head size
layout(constant_id = AFTER_MATRIX_CONSTANTS + 10) const bool BOUNDED_LEFT = false;
// Scores are scale * q k with scale > 0: no bias, no soft cap.
layout(constant_id = AFTER_MATRIX_CONSTANTS + 11) const bool PLAIN = false;
layout(constant_id = AFTER_MATRIX_CONSTANTS + 12) const bool GRAD_BIAS = false;
// No band, and the tiles hold nothing beyond the last row: no mask.
layout(constant_id = AFTER_MATRIX_CONSTANTS + 13) const bool EXACT = false;
layout(constant_id = AFTER_MATRIX_CONSTANTS + 14) const bool WHOLE = false;  // the rows that pass fill their last tile
// An accumulator's elements are those of an A operand in the same lane.
layout(constant_id = AFTER_MATRIX_CONSTANTS + 15) const bool HAND_OVER = false;
// Stationary operands come from memory as matrices, which needs whole, aligned, unpadded rows; else through patches.
layout(constant_id = AFTER_MATRIX_CONSTANTS + 16) const bool DIRECT = false;
// Subgroups that share rows: 2 in the backward of wide heads. One multiplies S, the other one dP.
layout(constant_id = AFTER_MATRIX_CONSTANTS + 17) const int SPLIT = 1;
layout(constant_id = AFTER_MATRIX_CONSTANTS + 18) const bool SUMS_DELTA = false;  // dQ: some rows may see few keys
layout(constant_id = AFTER_MATRIX_CONSTANTS + 19) const bool ONLY_DELTA = false;  // dQ: nothing else
layout(constant_id = AFTER_MATRIX_CONSTANTS + 20) const bool STORES_DS = false;  // dK/dV: for dq_from_ds
// Stored dS: elements 2i and 2i + 1 of a lane are neighbours in a row, the first at an even column: they move as a
// word.
layout(constant_id = AFTER_MATRIX_CONSTANTS + 21) const bool PAIRS = false;
// Stored dS: each query sees the keys up to its own, and dK/dV's block has DS_ROWS keys: queries before it are left
// out.
layout(constant_id = AFTER_MATRIX_CONSTANTS + 22) const bool TRIANGLE = false;
// Lanes hold whole cells of dropout (coopmat_dropout.glsl), and blocks come in whole pairs or one at a time.
layout(constant_id = AFTER_MATRIX_CONSTANTS + 23) const bool CELLS = false;
// Forward: branches that are never taken, behind which the compiler moves nothing: it has registers for one block of
// keys at a time where heads are wide. 1 after a block's products, 2 also between its products.
layout(constant_id = AFTER_MATRIX_CONSTANTS + 24) const int FENCES = 0;
// Conversions to T truncate. P and dS are then 0.28 % too small on average (half of the last place, of 8 bits, over
// mantissas of logarithmic distribution), which the factor of the result makes good at no cost: what remains has the
// variance of rounding. Results are rounded to the nearest.
layout(constant_id = AFTER_MATRIX_CONSTANTS + 25) const bool CUTS = false;
const float UNCUT = CUTS ? 1.00282 : 1.0;

const int WARPS = LOCAL / SUBGROUP;
const int BLOCK = WARPS / SPLIT * ROWS * MAT_M;
const int CHUNKS = D / 8, CHUNKS_V = DV / 8;          // of 16 bytes
const int PITCH = CHUNKS + 1, PITCH_V = CHUNKS_V + 1;
const int FRAGS = D / MAT_N, FRAGS_V = DV / MAT_N;
const int BLOCKS = TILE / MAT_N;
// A patch is MAT_M rows of one subgroup's own, on their way between memory and A operands; wide heads go in pieces.
const int WIDEST = D > DV ? D : DV;
const int PATCH_MOST = SPLIT == 1 && STAGED == 0 ? 128 : 64;
const int PATCH_COLS = WIDEST < PATCH_MOST ? WIDEST : PATCH_MOST;
const int PATCH_PITCH = PATCH_COLS / 8 + 1;
const int PATCH_LOADS = (MAT_M * PATCH_COLS / 8 + SUBGROUP - 1) / SUBGROUP;  // of a lane: 16 bytes each, row after row
// The same for 16 columns.
const int STRIP_LOADS = (MAT_M * 2 + SUBGROUP - 1) / SUBGROUP;
const bool STRIP_WHOLE = MAT_M * 2 % SUBGROUP == 0;
const int PATCH_SIZE = MAT_M * PATCH_PITCH;
// Where they are not, P, dS and results pass through a strip of shared memory of the subgroup's own, element by
// element.
const int STRIP_PITCH = 24, STRIP = MAT_M * STRIP_PITCH;
// Stored dS: matrices in the order of their lanes, 16 bytes each, [head][block of keys][block of queries][lane]. What
// the band lets a reader of DS_ROWS queries see is written for all of these.
const int DS_ROWS = 8 * MAT_M;
const uint DS_BYTES = 16 * SUBGROUP;
// Number of the matrix of these blocks in its head, and of all of a head's.
uint ds_index(int key_block, int query_block, int query_blocks) {
  const int before = TRIANGLE ? key_block / 8 * 8 : 0;
  return uint(before * query_blocks - before * (before - 8) / 2 + (key_block - before) * (query_blocks - before) +
      query_block - before);
}
uint ds_matrices(int key_blocks, int query_blocks) {
  return uint(TRIANGLE ? query_blocks * (query_blocks + 8) / 2 : key_blocks * query_blocks);
}
int ds_blocks(int rows) { return (rows + DS_ROWS - 1) / DS_ROWS * 8; }  // MAT_M = MAT_N rows each
// What lanes of a subgroup wrote to shared memory, its other lanes may read.
#define WAIT_FOR_SUBGROUP                                                                                              \
  subgroupMemoryBarrierShared();                                                                                       \
  subgroupBarrier();
const float LN2 = 0.6931471805599453;

// Half of the last place on top, from the exponent, and then the conversion cuts: ties go away from zero, a NaN stays
// one. No branch: one around elements of accumulators sends these to memory (76 instead of 325 TFLOPS forward on an
// H200).
T nearest(float x) {
  return T(CUTS ? x + uintBitsToFloat(floatBitsToUint(x) & 0xff800000u) * 0.00390625 : x);
}

layout(buffer_reference, scalar, buffer_reference_align = 16) buffer ElemsRef { T v[]; };

// Columns d..d+7 of the row at `row` bytes from `base`; zero from `dim` on. The base is uniform and offsets within a
// head have 32 bits (the host sees to it): one register per address.
uvec4 load_chunk(uint64_t base, uint row, int d, int dim) {
  if (ALIGNED) {
    if (PADDED && d >= dim) return uvec4(0);
    return ChunkRef(base + uint64_t(row + uint(d) * 2u)).v;
  }
  uint w[4];
  [[unroll]] for (int i = 0; i < 4; ++i) {
    uint low = 0u, high = 0u;
    if (d + 2 * i < dim) low = uint(U16Ref(base + uint64_t(row + uint(d + 2 * i) * 2u)).v);
    if (d + 2 * i + 1 < dim) high = uint(U16Ref(base + uint64_t(row + uint(d + 2 * i + 1) * 2u)).v);
    w[i] = low | high << 16;
  }
  return uvec4(w[0], w[1], w[2], w[3]);
}
void store_chunk(uint64_t base, uint row, int d, int dim, uvec4 x) {
  if (d >= dim) return;
  if (ALIGNED) {
    ChunkRef(base + uint64_t(row + uint(d) * 2u)).v = x;
    return;
  }
  [[unroll]] for (int i = 0; i < 4; ++i) {
    if (d + 2 * i < dim) U16Ref(base + uint64_t(row + uint(d + 2 * i) * 2u)).v = uint16_t(x[i] & 0xffffu);
    if (d + 2 * i + 1 < dim) U16Ref(base + uint64_t(row + uint(d + 2 * i + 1) * 2u)).v = uint16_t(x[i] >> 16);
  }
}

uint64_t head_at(uint64_t base, uint stride[3], int b, int h) {
  return base + (uint64_t(uint(b)) * uint64_t(stride[0]) + uint64_t(uint(h)) * uint64_t(stride[1])) * 2;
}
// Row 0 of a head's queries or keys.
uint64_t query_rows(uint64_t base, uint stride[3], int b, int h) {
  return head_at(base, stride, b, h) + (RAGGED ? uint64_t(uint(sequence.x)) * uint64_t(stride[2]) * 2 : uint64_t(0));
}
uint64_t key_rows(uint64_t base, uint stride[3], int b, int h) {
  return head_at(base, stride, PAGED ? 0 : b, h) + (RAGGED ? uint64_t(uint(sequence.z)) * uint64_t(stride[2]) * 2 :
      uint64_t(0));
}

// One score in log2 units when it is not PLAIN.
float modified_score(float s, uint64_t bias_at) {
  float x = s * p.scale;
  if (SOFTCAP) x = p.softcap * capped_tanh(x / p.softcap);
  if (BIAS_DTYPE >= 0) {
    float bias = load_bias(bias_at);
    if (bias == NEG_INF) return NEG_INF;
    x += bias;
  }
  return max(x * LOG2E, LOWEST);
}
// The factor that the soft cap puts into the gradient of a raw score.
float softcap_slope(float s) {
  const float t = capped_tanh(s * p.scale / p.softcap);
  return 1.0 - t * t;
}
uint64_t bias_head(int b, int h) {
  return p.bias + bias_bytes() * (uint64_t(uint(b)) * uint64_t(p.bias_stride[0]) +
      uint64_t(uint(h)) * uint64_t(p.bias_stride[1]));
}
uint64_t bias_at(uint64_t head, int row, int key) {
  return head + bias_bytes() * (uint64_t(uint(row)) * uint64_t(p.bias_stride[2]) +
      uint64_t(uint(key)) * uint64_t(p.bias_stride[3]));
}
#endif
