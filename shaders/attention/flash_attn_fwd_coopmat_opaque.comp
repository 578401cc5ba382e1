#pragma aule axis T float16_t bfloat16_t
#pragma aule feature cooperative_matrix
#pragma aule feature subgroup_shuffle
#pragma aule feature float16
#pragma aule feature bfloat16 if T=bfloat16_t
#pragma aule params wide
#pragma aule inline
// O = softmax(scale * Q K^T + bias) V, FlashAttention-2 forward (Dao 2023) on cooperative matrices of unknown layout.
//
// As flash_attn_fwd_coopmat, with scores through shared memory: each subgroup stores those of its MAT_M queries, and
// lanes read them back row by row (LANES lanes of a row, PER columns each). P becomes an A operand through the same
// memory. The factors of a rescale are a matrix with equal columns. A subgroup has one block of rows, and there is one
// stage. Softmax is in log2 units. The reference maximum moves if a score exceeds it by 8. Deterministic.
//   write tile | barrier | start loads of the next tile | S | softmax | O += P V | barrier
#define OPAQUE 1
#define ATTENTION_ADDRESSES out_, logsumexp
#define ATTENTION_STRIDES out_stride[3]
#include "attention/parts/coopmat.glsl"
#include "attention/parts/coopmat_tiles.glsl"

const int LANES = SUBGROUP / MAT_M;  // of a row: the planner takes shapes in which it divides TILE
const int PER = TILE / LANES;
const bool ROW_WORD = 32 % PER == 0;  // a lane's columns are in one unit of dropout
const int WIDTH = TILE > 16 ? TILE : 16;
const int SCORE_PITCH = WIDTH + 4, WEIGHT_PITCH = WIDTH + 8;
shared float scores_of[SUBGROUPS * MAT_M * SCORE_PITCH];
shared T weights_of[SUBGROUPS * MAT_M * WEIGHT_PITCH];

MatA q_frag[FRAGS];
Acc o[FRAGS_V];
float x[PER];

// Uniform in this workgroup.
int b, h, bh, row0;
int begin, end, last_tile;  // tiles of keys
int block_first, block_last;  // rows of this workgroup
uint64_t bias_base;
float score_scale;
Dropout dropout;
// Of this lane: its query, its index among the LANES lanes of the row, and addresses in shared memory.
int row, part;
uint own_scores, own_weights, at_scores, at_weights;
float m, l;

// Multiplies each row of O by its lane's factor: lanes put it, and after a wait the subgroup applies it. No wait may be
// in a branch that only some subgroups take, because llvmpipe stops the whole workgroup at a wait.
void put_factor(float factor) {
  [[unroll]] for (int i = 0; i < MAT_N / LANES; ++i) scores_of[at_scores + uint(part * (MAT_N / LANES) + i)] = factor;
}
void apply_factors() {
  Acc factors;
  coopMatLoad(factors, scores_of, own_scores, uint(SCORE_PITCH), ROW_MAJOR);
  [[unroll]] for (int i = 0; i < FRAGS_V; ++i) o[i] = o[i] * factors;
}

void visit(int tile, bool masked) {
  [[unroll]] for (int c = 0; c < BLOCKS; ++c) {
    Acc s = Acc(0.0);
    [[unroll]] for (int d = 0; d < FRAGS; ++d) {
      MatB k;
      coopMatLoad(k, tiles, uint(c * MAT_N * PITCH + d * MAT_N / 8), uint(PITCH), COLUMN_MAJOR);
      s = coopMatMulAdd(q_frag[d], k, s);
    }
    coopMatStore(s, scores_of, own_scores + uint(c * MAT_N), uint(SCORE_PITCH), ROW_MAJOR);
  }
  WAIT_FOR_SUBGROUP

  const int key0 = tile * TILE + part * PER;
  const int most = min(tile_last, row + mask_diagonal() + p.right) - key0,
      least = row + mask_diagonal() - p.left - key0;
  float top = NEG_INF;
  [[unroll]] for (int i = 0; i < PER; ++i) {
    x[i] = scores_of[at_scores + uint(part * PER + i)];
    if (!UNMODIFIED_SCORES) x[i] = modified_score(x[i], BIAS_DTYPE >= 0 ? bias_at(bias_base, min(row, last_query()),
        min(key0 + i, tile_last)) : uint64_t(0), row, key0 + i);
    if (masked) x[i] = i > most || (BOUNDED_LEFT && i < least) ? NEG_INF : x[i];
    top = max(top, x[i]);
  }
  WAIT_FOR_SUBGROUP  // the scores have been read
  [[unroll]] for (int step = 1; step < LANES; step *= 2) top = max(top, subgroupShuffleXor(top, step));
  top *= score_scale;
  const bool moves = subgroupAny(top > m + 8.0);
  if (moves) {
    const float reference = max(m, top), factor = exp2(m - reference);
    m = reference;
    l *= factor;
    put_factor(factor);
  }

  uint kept;
  if (DROPOUT && ROW_WORD) kept = dropout_row(dropout, bh, row, uint(key0) / 32u);
  [[unroll]] for (int i = 0; i < PER; ++i) {
    float weight = exp2(fma(x[i], score_scale, -m));
    l += weight;
    if (DROPOUT) {  // the scale follows at the end
      const bool keeps = ROW_WORD ? (kept >> ((key0 & 31) + i) & 1u) != 0u : dropout_keeps(dropout, bh, row, key0 + i);
      weight = keeps ? weight : 0.0;
    }
    weights_of[at_weights + uint(part * PER + i)] = T(weight);
  }
  WAIT_FOR_SUBGROUP
  if (moves) apply_factors();
  [[unroll]] for (int c = 0; c < BLOCKS; ++c) {
    MatA weight;
    coopMatLoad(weight, weights_of, own_weights + uint(c * MAT_N), uint(WEIGHT_PITCH), ROW_MAJOR);
    [[unroll]] for (int i = 0; i < FRAGS_V; ++i) {
      MatB v;
      coopMatLoad(v, tiles, uint(TILE_A + c * MAT_N * PITCH_V + i * MAT_N / 8), uint(PITCH_V), ROW_MAJOR);
      o[i] = coopMatMulAdd(weight, v, o[i]);
    }
  }
}

void pass(int from, int to, int last, bool masked) {
  int next;
  [[dont_unroll]] for (int tile = from; tile < to; tile = next) {
    next = tile + 1;
    if (BLOCK_MASK) next = kept_tile(bias_base, block_first, block_last, next, to);
    put_a(0);
    put_b(0);
    barrier();  // the tile is written
    fetch_a(min(next, last));
    fetch_b(min(next, last));
    visit(tile, masked);
    barrier();  // the tile has been read
  }
}

void main() {
#include "attention/parts/coopmat_query_block.glsl"
  score_scale = UNMODIFIED_SCORES ? p.scale * LOG2E : 1.0;
  row = row0 + lane() / LANES;
  part = lane() % LANES;
  own_scores = uint(subgroup * MAT_M * SCORE_PITCH);
  own_weights = uint(subgroup * MAT_M * WEIGHT_PITCH);
  at_scores = own_scores + uint(lane() / LANES * SCORE_PITCH);
  at_weights = own_weights + uint(lane() / LANES * WEIGHT_PITCH);

  const int staging = subgroup * STAGING_SIZE;
  FETCH_ROWS(q_rows, query_rows(p.query, p.query_stride, b, h), uint(p.query_stride[2]) * 2u, last_query(), p.head_dim,
      D)
  fetch_a(min(begin, last_tile));
  fetch_b(min(begin, last_tile));
  ROWS_TO_FRAGMENTS(q_frag, q_rows, D)
  barrier();  // the fragment staging has been read

  [[unroll]] for (int i = 0; i < FRAGS_V; ++i) o[i] = Acc(0.0);
  m = LOWEST;
  l = 0.0;  // this lane's columns only
  if (BOUNDED_LEFT) pass(begin, full_begin, last_tile, true);
  pass(full_begin, full_end, last_tile, false);
  if (!UNMASKED) pass(full_end, end, last_tile, true);

  float sum = l;
  [[unroll]] for (int step = 1; step < LANES; step *= 2) sum += subgroupShuffleXor(sum, step);
  if (part == 0 && row <= last_query())
    F32Ref(p.logsumexp + uint64_t(stats_index(bh, row)) * 4).v = sum == 0.0 ? NEG_INF : (m + log2(sum)) * LN2;
  // A row that sees nothing is 0.
  put_factor(sum == 0.0 ? 0.0 : (DROPOUT ? p.dropout_scale : 1.0) * TRUNCATION_BIAS / sum);
  WAIT_FOR_SUBGROUP
  apply_factors();
  WAIT_FOR_SUBGROUP

  // Results pass through the scores' memory.
  STORE_ROWS_OF_FLOATS(scores_of, own_scores, SCORE_PITCH, o, 1.0, query_rows(p.out_, p.out_stride, b, h),
      uint(p.out_stride[2]) * 2u, last_query(), p.v_dim, DV)
}
