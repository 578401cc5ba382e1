// Shared by the attention kernels on cooperative matrices: constants, the dS workspace, loads and stores, scores.
//
// A workgroup of SUBGROUPS subgroups owns SUBGROUPS * ROW_BLOCKS * MAT_M rows (queries, or keys in dK/dV). The others
// pass in tiles of TILE rows through shared memory. Rows are padded by 16 bytes there, so that matrix loads meet no
// bank conflict, and head sizes to a multiple of 16 with zeros. S and P never leave registers: an accumulator becomes
// the next product's A operand by copying elements (coopmat_lanes.glsl).
#ifndef AULE_ATTENTION_COOPMAT_GLSL
#define AULE_ATTENTION_COOPMAT_GLSL
#define ATTENTION_COOPMAT
#define ATTENTION_ONE_SLOPE
#ifndef OPAQUE
#define OPAQUE 0
#endif
#ifdef ATTENTION_GENERATED  // generated kernels (inductor/flex.glsl) bring their own Params and constants
#include "attention/parts/elements.glsl"
#else
#include "attention/parts/attention.glsl"
#define MATRIX_CONSTANTS FAMILY_CONSTANTS
#endif
#include "common/coopmat_types.glsl"
#include "attention/parts/coopmat_lanes.glsl"
#extension GL_KHR_shader_subgroup_vote : require

#ifndef ATTENTION_GENERATED
// Head sizes of query and key, and of value, padded to multiples of 16.
layout(constant_id = AFTER_MATRIX_CONSTANTS) const int D = 64;
layout(constant_id = AFTER_MATRIX_CONSTANTS + 1) const int DV = 64;
layout(constant_id = AFTER_MATRIX_CONSTANTS + 2) const int TILE = 64;
layout(constant_id = AFTER_MATRIX_CONSTANTS + 3) const int ROW_BLOCKS = 1;        // of a subgroup, MAT_M rows each
layout(constant_id = AFTER_MATRIX_CONSTANTS + 4) const int BLOCKS_IN_FLIGHT = 1;  // MAT_N columns of a tile each
layout(constant_id = AFTER_MATRIX_CONSTANTS + 5) const int STAGES = 1;            // tiles in shared memory: 1 or 2
// Bytes from row to row of the first operand that passes in tiles, and of the second.
layout(constant_id = AFTER_MATRIX_CONSTANTS + 6) const int A_ROW_BYTES = 128;
layout(constant_id = AFTER_MATRIX_CONSTANTS + 7) const int B_ROW_BYTES = 128;
// Every row starts at a multiple of 16 bytes and sizes are multiples of 8.
layout(constant_id = AFTER_MATRIX_CONSTANTS + 8) const bool ALIGNED = false;
layout(constant_id = AFTER_MATRIX_CONSTANTS + 9) const bool PADDED = false;  // D or DV is more than the head size
layout(constant_id = AFTER_MATRIX_CONSTANTS + 10) const bool BOUNDED_LEFT = false;
// Scores are scale * q k with scale > 0: no soft cap, no bias but ALiBi's, whose scale is no less than 1e-20.
layout(constant_id = AFTER_MATRIX_CONSTANTS + 11) const bool UNMODIFIED_SCORES = false;
layout(constant_id = AFTER_MATRIX_CONSTANTS + 12) const bool GRAD_BIAS = false;
// No band, and no tile reaches beyond the last row: no mask.
layout(constant_id = AFTER_MATRIX_CONSTANTS + 13) const bool UNMASKED = false;
// The rows that pass fill their last tile.
layout(constant_id = AFTER_MATRIX_CONSTANTS + 14) const bool WHOLE_TILES = false;
// An accumulator's elements are those of an A operand in the same lane.
layout(constant_id = AFTER_MATRIX_CONSTANTS + 15) const bool ACC_IS_A_OPERAND = false;
// Stationary operands are loaded from memory as matrices, not through the fragment staging. Rows must be whole, aligned
// and unpadded.
layout(constant_id = AFTER_MATRIX_CONSTANTS + 16) const bool FROM_GLOBAL = false;
// Subgroups that share rows: 2 in the backward of wide heads. The first computes S, the second dP.
layout(constant_id = AFTER_MATRIX_CONSTANTS + 17) const int ROLE_SPLIT = 1;
layout(constant_id = AFTER_MATRIX_CONSTANTS + 18) const bool SUMS_DELTA = false;  // dQ: see sums_delta()
layout(constant_id = AFTER_MATRIX_CONSTANTS + 19) const bool ONLY_DELTA = false;  // dQ: corrects delta, no dQ
layout(constant_id = AFTER_MATRIX_CONSTANTS + 20) const bool WRITES_DS = false;  // dK/dV: for dq_from_ds
// dS workspace: elements 2i and 2i + 1 of a lane are neighbours in a row, the first in an even column, so they move as
// a word.
layout(constant_id = AFTER_MATRIX_CONSTANTS + 21) const bool DS_IN_PAIRS = false;
// dS workspace: each query sees the keys up to its own, and dK/dV's block has DS_ROWS keys. Queries before it are left
// out.
layout(constant_id = AFTER_MATRIX_CONSTANTS + 22) const bool DS_TRIANGLE = false;
// Lanes have whole cells of dropout (coopmat_dropout.glsl), and blocks come in whole pairs or one at a time.
layout(constant_id = AFTER_MATRIX_CONSTANTS + 23) const bool WHOLE_CELLS = false;
// Forward: the compiler moves nothing across a branch that is never taken. If heads are wide, registers suffice for one
// block of keys at a time. 0: none, 1: after the products of a block, 2: also between them.
layout(constant_id = AFTER_MATRIX_CONSTANTS + 24) const int MOTION_BARRIERS = 0;
// Conversions to T truncate. P and dS are then 0.28 % too small on average: half of the last place, of 8 bits, over
// mantissas of logarithmic distribution. The factor of the result corrects that at no cost. The remaining error has the
// variance of rounding. Results are rounded to the nearest.
layout(constant_id = AFTER_MATRIX_CONSTANTS + 25) const bool TRUNCATES = false;
// Forward: how many blocks of a mask a workgroup can list. 0: tiles are not whole in blocks, or it lists none.
layout(constant_id = AFTER_MATRIX_CONSTANTS + 26) const int LISTED = 0;
// Forward: the rows that pass do not fill their last tile, which begins so much earlier that it is whole. The rows that
// it shares with the tile before are hidden. Every tile is then loaded as WHOLE_TILES are.
layout(constant_id = AFTER_MATRIX_CONSTANTS + 27) const bool MOVES_LAST_TILE = false;
// Forward: the same of the last block of queries, of which rows of the block before are not stored.
layout(constant_id = AFTER_MATRIX_CONSTANTS + 28) const bool MOVES_LAST_BLOCK = false;
#else
const bool MOVES_LAST_TILE = false, MOVES_LAST_BLOCK = false;
#endif
const float TRUNCATION_BIAS = TRUNCATES ? 1.00282 : 1.0;

const int SUBGROUPS = LOCAL / SUBGROUP;
const int BLOCK = SUBGROUPS / ROLE_SPLIT * ROW_BLOCKS * MAT_M;
const int VEC8S = D / 8, VEC8S_V = DV / 8;          // of 16 bytes
const int PITCH = VEC8S + 1, PITCH_V = VEC8S_V + 1;
const int FRAGS = D / MAT_N, FRAGS_V = DV / MAT_N;
const int BLOCKS = TILE / MAT_N;
// Fragment staging: MAT_M rows of each subgroup, on their way between memory and A operands. Wide heads go in pieces.
const int WIDEST = D > DV ? D : DV;
const int STAGING_MOST = ROLE_SPLIT == 1 && OPAQUE == 0 ? 128 : 64;
const int STAGING_COLS = WIDEST < STAGING_MOST ? WIDEST : STAGING_MOST;
const int STAGING_PITCH = STAGING_COLS / 8 + 1;
// Of a lane: 16 bytes each, row after row.
const int STAGING_LOADS = (MAT_M * STAGING_COLS / 8 + SUBGROUP - 1) / SUBGROUP;
const int STAGING_SIZE = MAT_M * STAGING_PITCH;
// Transpose scratch: P, dS and results of each subgroup, 16 columns, if ACC_IS_A_OPERAND is false.
const int TRANSPOSE_LOADS = (MAT_M * 2 + SUBGROUP - 1) / SUBGROUP;
const bool TRANSPOSE_WHOLE = MAT_M * 2 % SUBGROUP == 0;
const int TRANSPOSE_PITCH = 24, TRANSPOSE_SIZE = MAT_M * TRANSPOSE_PITCH;
// dS workspace: fragments in the order of their lanes, 16 bytes each, [head][block of keys][block of queries][lane]. A
// reader takes DS_ROWS queries at a time, so keys that one of them sees are written for all of them.
const int DS_ROWS = 8 * MAT_M;
const uint DS_BYTES = 16 * SUBGROUP;
// Index of a fragment in its head, and the number of a head's fragments.
uint ds_index(int key_block, int query_block, int query_blocks) {
  const int before = DS_TRIANGLE ? key_block / 8 * 8 : 0;
  return uint(before * query_blocks - before * (before - 8) / 2 + (key_block - before) * (query_blocks - before) +
      query_block - before);
}
uint ds_matrices(int key_blocks, int query_blocks) {
  return uint(DS_TRIANGLE ? query_blocks * (query_blocks + 8) / 2 : key_blocks * query_blocks);
}
int ds_blocks(int rows) { return (rows + DS_ROWS - 1) / DS_ROWS * 8; }  // MAT_M = MAT_N rows each
// After this, lanes may read what other lanes of the subgroup wrote to shared memory.
#define WAIT_FOR_SUBGROUP                                                                                              \
  subgroupMemoryBarrierShared();                                                                                       \
  subgroupBarrier();

// Rounds to the nearest if conversions truncate: half of the last place, from the exponent, is added first. Ties go
// away from zero, and NaN stays NaN. There is no branch: one around elements of accumulators sends these to memory (76
// instead of 325 TFLOPS forward on an H200).
T nearest(float x) {
  return T(TRUNCATES ? x + uintBitsToFloat(floatBitsToUint(x) & 0xff800000u) * 0.00390625 : x);
}

layout(buffer_reference, scalar, buffer_reference_align = 16) buffer ElemsRef { T v[]; };

// Columns d..d+7 of the row at `row` bytes from `base`, zeros from `dim` on. The base is uniform, and the host checks
// that offsets within a head have 32 bits: one register per address.
uvec4 load_vec8(uint64_t base, uint row, int d, int dim) {
  if (ALIGNED) {
    if (PADDED && d >= dim) return uvec4(0);
    return Vec16bRef(base + uint64_t(row + uint(d) * 2u)).v;
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
void store_vec8(uint64_t base, uint row, int d, int dim, uvec4 x) {
  if (d >= dim) return;
  if (ALIGNED) {
    Vec16bRef(base + uint64_t(row + uint(d) * 2u)).v = x;
    return;
  }
  [[unroll]] for (int i = 0; i < 4; ++i) {
    if (d + 2 * i < dim) U16Ref(base + uint64_t(row + uint(d + 2 * i) * 2u)).v = uint16_t(x[i] & 0xffffu);
    if (d + 2 * i + 1 < dim) U16Ref(base + uint64_t(row + uint(d + 2 * i + 1) * 2u)).v = uint16_t(x[i] >> 16);
  }
}

#ifndef ATTENTION_GENERATED
const float LN2 = 0.6931471805599453;
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

// One score in log2 units, with bias or soft cap.
float modified_score(float s, uint64_t bias_at, int row, int key) {
  float x = s * p.scale;
  if (SOFTCAP) x = p.softcap * capped_tanh(x / p.softcap);
  if (BIAS_DTYPE >= 0) {
    float bias = load_bias(bias_at, key - row - mask_diagonal());
    if (bias == NEG_INF) return NEG_INF;
    x += bias;
  }
  return max(x * LOG2E, LOWEST);
}
// The same below a row's log-sum-exp, the exponent of P.
float modified_exponent(float s, uint64_t bias_at, int row, int key, float hi, float lo) {
  return min(below_logsumexp(modified_score(s, bias_at, row, key), hi, lo), 0.0);
}
// hi of a row in log2 units: what modified_score() makes of a score of that size.
float logsumexp_in_log2(float hi) { return TWO_PARTS ? max(hi * LOG2E, LOWEST) : hi * LOG2E; }
// Derivative of the soft cap by its argument.
float softcap_slope(float s) {
  const float t = capped_tanh(s * p.scale / p.softcap);
  return 1.0 - t * t;
}
// The first tile from `tile` on, before `end`, with a key that some of these rows see; `end` if there is none.
int kept_tile(uint64_t head, int row, int row_last, int tile, int end) {
  const int keys = min(end * TILE, key_count()), at = next_kept_key(head, row, row_last, tile * TILE, keys);
  return at < keys ? at / TILE : end;
}
int kept_query_tile(uint64_t head, int key, int key_last, int tile, int end) {
  const int rows = min(end * TILE, query_count()), at = next_kept_query(head, key, key_last, tile * TILE, rows);
  return at < rows ? at / TILE : end;
}
uint64_t bias_head(int b, int h) {
  return p.bias + bias_bytes() * (uint64_t(uint(b)) * uint64_t(p.bias_stride[0]) +
      uint64_t(uint(h)) * uint64_t(p.bias_stride[1]));
}
uint64_t bias_at(uint64_t head, int row, int key) {
  return head + bias_bytes() * (uint64_t(uint(bias_row_of(row))) * uint64_t(p.bias_stride[2]) +
      uint64_t(uint(bias_column_of(key))) * uint64_t(p.bias_stride[3]));
}
#endif
#endif
