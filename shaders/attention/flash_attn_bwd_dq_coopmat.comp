#pragma aule axis T float16_t bfloat16_t
#pragma aule axis STAGED 0 1
#pragma aule feature cooperative_matrix
#pragma aule feature subgroup_shuffle
#pragma aule feature float16
#pragma aule feature bfloat16 if T=bfloat16_t
#pragma aule params wide
#pragma aule inline
// FlashAttention backward on cooperative matrices (STAGED 1: of unknown layout, see coopmat_elements.glsl), dQ (and the
// full bias gradient when asked):
//   P = exp2(S - LSE);  dP = dropout(dO V^T);  dS = P * (dP - delta);  dQ = scale * dS K
// Workgroup (block of BLOCK queries, b, h), heavy causal blocks first; Q and dO fragments stay in registers, K and V
// tiles pass through shared memory. One writer per element, one order of summation: deterministic.
// Heads wider than 128 columns: two subgroups share rows. The first one holds Q and makes P, the second one holds dO
// and makes P's gradient; they tell each other, and each sums half of dQ's columns.
// What was tried, and what it gave: docs/ladders/flash_attn_bwd_dq_coopmat.md
#define ATTENTION_ADDRESSES grad_out, stats, grad_logsumexp, grad_query, grad_bias
#define ATTENTION_STRIDES grad_out_stride[3], grad_query_stride[3]
#define ATTENTION_GRAD_LOGSUMEXP
// Of a pair of subgroups: P, in halves where a lane has 8 elements, and its gradient.
#define GIFTS (WARPS / 2 * ROWS * STEP * PAIR_GIFT)
#include "attention/coopmat.glsl"
const int D_PART = D / SPLIT, PART_FRAGS = D_PART / MAT_N;  // columns of dQ of a subgroup
const bool HALVES = ELEMS == 8;
const int PAIR_GIFT = HALVES ? 3 * SUBGROUP : MAT_M * MAT_N / 2;
#include "attention/coopmat_tiles.glsl"
#include "attention/coopmat_dropout.glsl"
#include "attention/coopmat_elements.glsl"

MatA q_frag[ROWS * FRAGS], g_frag[ROWS * FRAGS_V];
Elements s[SPLIT == 1 ? ROWS : ROWS * STEP], dp[ROWS], slope[SPLIT == 1 ? ROWS : ROWS * STEP];
Acc dq[ROWS * PART_FRAGS];
float lse[ROWS * SLOTS], delta[ROWS * SLOTS];

// Uniform facts of this workgroup.
int b, h, bh, row0, part;
uint64_t bias_base;
Dropout dropout;
uint kept;  // of this unit, drawn before the last products of the one before

void products(int stage, int block) {
  DECLARE_SUMS
  [[unroll]] for (int r = 0; r < ROWS; ++r) S_SUM[r] = Acc(0.0);
  [[unroll]] for (int r = 0; r < ROWS; ++r) DP_SUM[r] = Acc(0.0);
  [[unroll]] for (int d = 0; d < FRAGS; ++d) {
    MatB k;
    coopMatLoad(k, tiles, uint(stage * STAGE_SIZE + block * MAT_N * PITCH + d * MAT_N / 8), uint(PITCH), COLUMN_MAJOR);
    [[unroll]] for (int r = 0; r < ROWS; ++r) S_SUM[r] = coopMatMulAdd(q_frag[r * FRAGS + d], k, S_SUM[r]);
  }
  [[unroll]] for (int d = 0; d < FRAGS_V; ++d) {
    MatB v;
    coopMatLoad(v, tiles, uint(stage * STAGE_SIZE + TILE_A + block * MAT_N * PITCH_V + d * MAT_N / 8), uint(PITCH_V),
        COLUMN_MAJOR);
    [[unroll]] for (int r = 0; r < ROWS; ++r) DP_SUM[r] = coopMatMulAdd(g_frag[r * FRAGS_V + d], v, DP_SUM[r]);
  }
  TAKE_SUMS
}

// s := P, dp := the gradient of P, slope := that of the soft cap.
void weigh(int block, int key0, bool masked) {
  [[unroll]] for (int r = 0; r < ROWS; ++r) {
    int most[SLOTS], least[SLOTS];  // visible elements are in [least, most], relative to this lane's first
    if (masked) {
      [[unroll]] for (int t = 0; t < SLOTS; ++t) {
        const int diagonal = row0 + r * MAT_M + lane_row() + NIBBLE(SLOT_ROWS, t) + diagonal_shift();
        most[t] = min(tile_last, diagonal + p.right) - key0 - lane_col();
        least[t] = diagonal - p.left - key0 - lane_col();
      }
    }
    uvec4 words;
    if (DROPOUT && !CELLS) words = unit_words(dropout, bh, row0 + r * MAT_M, key0);
    [[unroll]] for (int e = 0; e < ELEMS; ++e) {
      const int t = r * SLOTS + SLOT(e);
      const int row = row0 + r * MAT_M + lane_row() + NIBBLE(ELEM_ROWS, e),
          key = key0 + lane_col() + NIBBLE(ELEM_COLS, e);
      float x;
      if (PLAIN) {
        x = fma(s[r][e], p.scale * LOG2E, -lse[t]);
      } else {
        if (SOFTCAP) slope[r][e] = softcap_slope(s[r][e]);
        x = min(modified_score(s[r][e], BIAS_DTYPE >= 0 ?
            bias_at(bias_base, min(row, last_query()), min(key, tile_last)) : uint64_t(0)) - lse[t], 0.0);
      }
      if (masked) {
        bool hidden = NIBBLE(ELEM_COLS, e) > most[SLOT(e)];
        if (BOUNDED_LEFT) hidden = hidden || NIBBLE(ELEM_COLS, e) < least[SLOT(e)];
        x = hidden ? NEG_INF : x;
      }
      s[r][e] = exp2(x);
      if (DROPOUT) {
        const bool keeps = CELLS ? CELL_KEEPS(kept, CELL_BIT(r, SECOND_BLOCK(block, key0), e)) :
            words_keep(words, row, key);
        dp[r][e] = keeps ? dp[r][e] : 0.0;  // the scale waits for the end
      }
    }
  }
}

void accumulate(int stage, int block, int key0, int then) {
  MatA ds[ROWS];
  [[unroll]] for (int r = 0; r < ROWS; ++r) {
    [[unroll]] for (int e = 0; e < ELEMS; ++e) {
      const float d = s[r][e] * (dp[r][e] - delta[r * SLOTS + SLOT(e)]);
      const int row = row0 + r * MAT_M + lane_row() + NIBBLE(ELEM_ROWS, e),
          key = key0 + lane_col() + NIBBLE(ELEM_COLS, e);
      if (GRAD_BIAS && row < p.q_len && key <= tile_last)
        F32Ref(p.grad_bias + uint64_t((int64_t(bh) * p.q_len + row) * p.k_len + key) * 4).v = DROPOUT ?
            d * p.dropout_scale : d;
      PUT_A(ds[r], 0, e, SOFTCAP ? d * slope[r][e] : d)
    }
    TAKE_A(ds[r], 0)
  }
  if (CELLS && LAST_OF_UNIT(block, key0, then)) kept = own_cell(dropout, bh, row0, then);
  [[unroll]] for (int i = 0; i < FRAGS; ++i) {
    MatB k;
    coopMatLoad(k, tiles, uint(stage * STAGE_SIZE + block * MAT_N * PITCH + i * MAT_N / 8), uint(PITCH), ROW_MAJOR);
    [[unroll]] for (int r = 0; r < ROWS; ++r) dq[r * FRAGS + i] = coopMatMulAdd(ds[r], k, dq[r * FRAGS + i]);
  }
}

#define PAIR_AT(r, i) (((int(gl_SubgroupID) / 2 * ROWS + (r)) * STEP + (i)) * PAIR_GIFT + lane())
// SPLIT: the i-th block in flight of a pair of subgroups. This one's product becomes P or the gradient of P, which both
// need. P goes over times the soft cap's slope, unless it is for a sum.
void give(int stage, int block, int i, int key0, bool masked, bool summed) {
  const int operand = stage * STAGE_SIZE + part * TILE_A + block * MAT_N * PITCH;
  DECLARE_SUMS
  [[unroll]] for (int r = 0; r < ROWS; ++r) OWN_SUM(i, r) = Acc(0.0);
  [[unroll]] for (int d = 0; d < FRAGS; ++d) {
    MatB k;
    coopMatLoad(k, tiles, uint(operand + d * MAT_N / 8), uint(PITCH), COLUMN_MAJOR);
    [[unroll]] for (int r = 0; r < ROWS; ++r) OWN_SUM(i, r) = coopMatMulAdd(q_frag[r * FRAGS + d], k, OWN_SUM(i, r));
  }
  TAKE_OWN(i)
  if (CELLS && (summed || !(WHOLE_UNITS && (block & 1) == 1))) kept = own_cell(dropout, bh, row0, key0);
  [[unroll]] for (int r = 0; r < ROWS; ++r) {
    const int diagonal = row0 + r * MAT_M + lane_row() + diagonal_shift() - key0 - lane_col();
    const int beyond = tile_last - key0 - lane_col();
    uvec4 words;
    if (DROPOUT && !CELLS) words = unit_words(dropout, bh, row0 + r * MAT_M, key0);
    float given[ELEMS];
    [[unroll]] for (int e = 0; e < ELEMS; ++e) {
      const int t = r * SLOTS + SLOT(e);
      const int row = row0 + r * MAT_M + lane_row() + NIBBLE(ELEM_ROWS, e),
          key = key0 + lane_col() + NIBBLE(ELEM_COLS, e);
      const float score = s[i * ROWS + r][e];
      float x;
      if (PLAIN) {
        x = fma(score, p.scale * LOG2E, -lse[t]);
      } else {
        if (SOFTCAP) slope[i * ROWS + r][e] = softcap_slope(score);
        x = min(modified_score(score, BIAS_DTYPE >= 0 ?
            bias_at(bias_base, min(row, last_query()), min(key, tile_last)) : uint64_t(0)) - lse[t], 0.0);
      }
      if (masked) {
        bool hidden = NIBBLE(ELEM_COLS, e) > min(beyond, diagonal + NIBBLE(SLOT_ROWS, SLOT(e)) + p.right);
        if (BOUNDED_LEFT) hidden = hidden || NIBBLE(ELEM_COLS, e) < diagonal + NIBBLE(SLOT_ROWS, SLOT(e)) - p.left;
        x = hidden ? NEG_INF : x;
      }
      const float prob = exp2(x);
      float gradient = score;
      if (DROPOUT) {
        const bool keeps = CELLS ? CELL_KEEPS(kept, CELL_BIT(r, SECOND_BLOCK(block, key0), e)) :
            words_keep(words, row, key);
        gradient = keeps ? score : 0.0;  // the scale waits for the end
      }
      const float own = BY_PART(prob, gradient);
      given[e] = SOFTCAP && !summed ? BY_PART(own * slope[i * ROWS + r][e], own) : own;
      s[i * ROWS + r][e] = own;
    }
    const int mine = PAIR_AT(r, i) + part * (HALVES ? SUBGROUP : PAIR_GIFT / 2);
    if (HALVES) {
      uvec4 halves;
      [[unroll]] for (int j = 0; j < 4; ++j) halves[j] = packHalf2x16(vec2(given[2 * j], given[2 * j + 1]));
      [[unroll]] for (int j = 0; j < 2; ++j)
        gifts[mine + j * part * SUBGROUP] = (halves & uint(part - 1)) | (GIVEN_BITS(j) & ~uint(part - 1));
    } else {
      [[unroll]] for (int j = 0; j < ELEMS / 4; ++j) gifts[mine + j * SUBGROUP] = GIVEN_BITS(j);
    }
  }
}
// What the other subgroup gave.
#define TAKE_GIFT(r, i)                                                                                                \
  float taken[ELEMS];                                                                                                  \
  const int theirs = PAIR_AT(r, i) + (1 - part) * (HALVES ? SUBGROUP : PAIR_GIFT / 2);                                 \
  if (HALVES) {                                                                                                        \
    const uvec4 low = gifts[theirs], high = gifts[theirs + (1 - part) * SUBGROUP];                                     \
    [[unroll]] for (int e = 0; e < 8; ++e)                                                                             \
      taken[e] = BY_PART(uintBitsToFloat(e < 4 ? low[e & 3] : high[e & 3]), unpackHalf2x16(low[e / 2])[e % 2]);        \
  } else {                                                                                                             \
    [[unroll]] for (int j = 0; j < ELEMS / 4; ++j)                                                                     \
      [[unroll]] for (int e = 0; e < 4; ++e) taken[4 * j + e] = uintBitsToFloat(gifts[theirs + j * SUBGROUP][e]);      \
  }
void accumulate_own(int stage, int block, int i, int key0) {
  MatA ds[ROWS];
  [[unroll]] for (int r = 0; r < ROWS; ++r) {
    TAKE_GIFT(r, i)
    [[unroll]] for (int e = 0; e < ELEMS; ++e) {
      const float own = s[i * ROWS + r][e], other = taken[e], minus = delta[r * SLOTS + SLOT(e)];
      const float d = BY_PART(own, other) * (BY_PART(other, own) - minus);
      const int row = row0 + r * MAT_M + lane_row() + NIBBLE(ELEM_ROWS, e),
          key = key0 + lane_col() + NIBBLE(ELEM_COLS, e);
      if (GRAD_BIAS && part == 0 && row < p.q_len && key <= tile_last)
        F32Ref(p.grad_bias + uint64_t((int64_t(bh) * p.q_len + row) * p.k_len + key) * 4).v = DROPOUT ?
            d * p.dropout_scale : d;
      PUT_A(ds[r], 0, e, SOFTCAP ? BY_PART(d * slope[i * ROWS + r][e], d) : d)
    }
    TAKE_A(ds[r], 0)
  }
  const int operand = stage * STAGE_SIZE + block * MAT_N * PITCH + part * D_PART / 8;
  [[unroll]] for (int d = 0; d < PART_FRAGS; ++d) {
    MatB k;
    coopMatLoad(k, tiles, uint(operand + d * MAT_N / 8), uint(PITCH), ROW_MAJOR);
    [[unroll]] for (int r = 0; r < ROWS; ++r) dq[r * PART_FRAGS + d] = coopMatMulAdd(ds[r], k, dq[r * PART_FRAGS + d]);
  }
}

// delta as the sum of P * dP, for rows that see few keys: see sums_delta.
void sum_delta(int from, int to) {
  float sum[ROWS * SLOTS];
  [[unroll]] for (int i = 0; i < ROWS * SLOTS; ++i) sum[i] = 0.0;
  [[dont_unroll]] for (int tile = from; tile < to; ++tile) {
    fetch_a(tile);
    fetch_b(tile);
    put_a(0);
    put_b(0);
    barrier();  // the tile is written
    [[dont_unroll]] for (int block = 0; block < BLOCKS; ++block) {
      const int key0 = tile * TILE + block * MAT_N;
      if (SPLIT == 1) {
        if (CELLS) kept = own_cell(dropout, bh, row0, key0);
        products(0, block);
        weigh(block, key0, true);
        [[unroll]] for (int r = 0; r < ROWS; ++r)
          [[unroll]] for (int e = 0; e < ELEMS; ++e) sum[r * SLOTS + SLOT(e)] += s[r][e] * dp[r][e];
      } else {
        give(0, block, 0, key0, true, true);
        barrier();  // what the other subgroup gave is written
        [[unroll]] for (int r = 0; r < ROWS; ++r) {
          TAKE_GIFT(r, 0)
          [[unroll]] for (int e = 0; e < ELEMS; ++e) sum[r * SLOTS + SLOT(e)] += s[r][e] * taken[e];
        }
        if (BLOCKS > 1) barrier();  // and has been read
      }
    }
    barrier();  // the tile has been read
  }
  [[unroll]] for (int r = 0; r < ROWS; ++r)
    [[unroll]] for (int t = 0; t < SLOTS; ++t) {
      const int row = row0 + r * MAT_M + lane_row() + NIBBLE(SLOT_ROWS, t);
      const int64_t index = stats_index(bh, min(row, last_query()));
      const float whole = row_sum(sum[r * SLOTS + t]) * (DROPOUT ? p.dropout_scale : 1.0) + delta_of_logsumexp(index);
      delta[r * SLOTS + t] = whole * dropout_unscale();
      if (lane() % LANE_DIV == 0 && part == 0 && row < query_count()) F32Ref(p.stats + uint64_t(index) * 8 + 4).v =
          whole;
    }
}

void pass(int from, int to, int last, bool masked) {
  [[dont_unroll]] for (int tile = from; tile < to; ++tile) {
    const int following = min(tile + 1, last), stage = STAGES == 1 ? 0 : tile & 1;
    if (STAGES == 1) {
      put_a(0);
      put_b(0);
      barrier();  // the tile is written
    }
    fetch_a(following);
    fetch_b(following);
    if (SPLIT == 1) {
      [[unroll]] for (int block = 0; block < BLOCKS; ++block) {
        const int key0 = tile * TILE + block * MAT_N;
        products(stage, block);
        weigh(block, key0, masked);
        accumulate(stage, block, key0, block + 1 < BLOCKS ? key0 + MAT_N : following * TILE);
      }
    } else {
      [[unroll]] for (int first = 0; first < BLOCKS; first += STEP) {
        if (first > 0) barrier();  // what was given has been read
        [[unroll]] for (int i = 0; i < STEP; ++i) give(stage, first + i, i, tile * TILE + (first + i) * MAT_N, masked,
            false);
        barrier();  // P and its gradient are written
        [[unroll]] for (int i = 0; i < STEP; ++i) accumulate_own(stage, first + i, i,
            tile * TILE + (first + i) * MAT_N);
      }
    }
    if (STAGES == 2) {
      put_a(stage ^ 1);
      put_b(stage ^ 1);
    }
    barrier();  // the tile has been read, and with two stages the next one is written
  }
}

void main() {
#include "attention/coopmat_query_block.glsl"
  part = SPLIT == 1 ? 0 : warp % SPLIT;
  const bool sums = SUMS_DELTA && sums_delta(keys_end(last) - keys_begin(first), BLOCK);
  if (ONLY_DELTA && !sums) return;

  const int corner = warp * PATCH_SIZE;
  const uint64_t q_head = query_rows(p.query, p.query_stride, b, h);
  const uint64_t g_head = query_rows(p.grad_out, p.grad_out_stride, b, h);
  if (SPLIT == 2) {
    const uint64_t head = part == 0 ? q_head : g_head;
    const uint stride = part == 0 ? p.query_stride[2] : p.grad_out_stride[2];
    if (DIRECT) {
      fetch_a(min(begin, last_tile));
      fetch_b(min(begin, last_tile));
      LOAD_FRAGMENTS(q_frag, head, stride, D)
    } else {
      FETCH_ROWS(rows, head, stride * 2u, last_query(), part == 0 ? p.head_dim : p.v_dim, D)
      ROWS_TO_FRAGMENTS(q_frag, rows, D)
      fetch_a(min(begin, last_tile));
      fetch_b(min(begin, last_tile));
      barrier();  // the patches have been read
    }
  } else if (DIRECT) {
    fetch_a(min(begin, last_tile));
    fetch_b(min(begin, last_tile));
    LOAD_FRAGMENTS(q_frag, q_head, uint(p.query_stride[2]), D)
    LOAD_FRAGMENTS(g_frag, g_head, uint(p.grad_out_stride[2]), DV)
  } else {
    FETCH_ROWS(q_rows, q_head, uint(p.query_stride[2]) * 2u, last_query(), p.head_dim, D)
    FETCH_ROWS(g_rows, g_head, uint(p.grad_out_stride[2]) * 2u, last_query(), p.v_dim, DV)
    fetch_a(min(begin, last_tile));
    fetch_b(min(begin, last_tile));
    ROWS_TO_FRAGMENTS(q_frag, q_rows, D)
    ROWS_TO_FRAGMENTS(g_frag, g_rows, DV)
    barrier();  // the patches have been read
  }

  [[unroll]] for (int i = 0; i < ROWS * PART_FRAGS; ++i) dq[i] = Acc(0.0);
  [[unroll]] for (int r = 0; r < ROWS; ++r)
    [[unroll]] for (int t = 0; t < SLOTS; ++t) {
      const int row = min(row0 + r * MAT_M + lane_row() + NIBBLE(SLOT_ROWS, t), last_query());
      const uint64_t stats = p.stats + uint64_t(stats_index(bh, row)) * 8;
      lse[r * SLOTS + t] = F32Ref(stats).v * LOG2E;
      delta[r * SLOTS + t] = F32Ref(stats + 4).v * dropout_unscale();
    }
  if (sums) {
    sum_delta(begin, end);
    if (ONLY_DELTA) return;
    fetch_a(min(begin, last_tile));
    fetch_b(min(begin, last_tile));
  }
  if (STAGES == 2) {
    put_a(begin & 1);
    put_b(begin & 1);
    barrier();  // the first tile is written
  }
  if (CELLS && SPLIT == 1) kept = own_cell(dropout, bh, row0, begin * TILE);
  if (BOUNDED_LEFT) pass(begin, full_begin, last_tile, true);
  pass(full_begin, full_end, last_tile, false);
  if (!EXACT) pass(full_end, end, last_tile, true);

#define BY_SCALE(r, e) (p.scale * UNCUT * (DROPOUT ? p.dropout_scale : 1.0))
  const int d0 = part * D_PART;
  const uint64_t dq_head = query_rows(p.grad_query, p.grad_query_stride, b, h) + uint64_t(d0 * 2);
  STORE_ROWS(dq, BY_SCALE, dq_head, uint(p.grad_query_stride[2]) * 2u, last_query(), p.head_dim - d0, D_PART)
}
