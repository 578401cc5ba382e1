#pragma aule axis T float16_t bfloat16_t
#pragma aule axis OPAQUE 0 1
#pragma aule feature cooperative_matrix
#pragma aule feature subgroup_shuffle
#pragma aule feature float16
#pragma aule feature bfloat16 if T=bfloat16_t
#pragma aule params wide
#pragma aule inline
// FlashAttention-2 backward (Dao 2023) on cooperative matrices, dQ, and the full bias gradient if GRAD_BIAS. OPAQUE 1:
// unknown layout, coopmat_elements.glsl.
//   P = exp2(S - LSE);  dP = dropout(dO V^T);  dS = P * (dP - delta);  dQ = scale * dS K
// Workgroup (block of BLOCK queries, b, h), heavy causal blocks first. Q and dO fragments stay in registers, K and V
// tiles pass through shared memory. One writer per element, one order of summation: deterministic.
// Heads wider than 128 columns (ROLE_SPLIT 2): two subgroups share rows. Role 0 has Q and computes P, role 1 has dO and
// computes dP. They exchange both, and each sums half of dQ's columns.
// What was tried, and what it gave: docs/ladders/flash_attn_bwd_dq_coopmat.md
#define ATTENTION_ADDRESSES grad_out, stats, grad_logsumexp, grad_query, grad_bias
#define ATTENTION_STRIDES grad_out_stride[3], grad_query_stride[3]
#define ATTENTION_GRAD_LOGSUMEXP
// Of a pair of subgroups: P, as float16 if a lane has 8 elements, and dP.
#define EXCHANGE_SIZE (SUBGROUPS / 2 * ROW_BLOCKS * BLOCKS_IN_FLIGHT * PAIR_SIZE)
#include "attention/parts/coopmat.glsl"
const int ROLE_D = D / ROLE_SPLIT, ROLE_FRAGS = ROLE_D / MAT_N;  // columns of dQ of a subgroup
const bool HALVES = ELEMS == 8;
const int PAIR_SIZE = HALVES ? 3 * SUBGROUP : MAT_M * MAT_N / 2;
#include "attention/parts/coopmat_tiles.glsl"
#include "attention/parts/coopmat_dropout.glsl"
#include "attention/parts/coopmat_elements.glsl"

MatA q_frag[ROW_BLOCKS * FRAGS], g_frag[ROW_BLOCKS * FRAGS_V];
Elements s[ROLE_SPLIT == 1 ? ROW_BLOCKS : ROW_BLOCKS * BLOCKS_IN_FLIGHT], dp[ROW_BLOCKS];
Elements slope[ROLE_SPLIT == 1 ? ROW_BLOCKS : ROW_BLOCKS * BLOCKS_IN_FLIGHT];
Acc dq[ROW_BLOCKS * ROLE_FRAGS];
float lse[ROW_BLOCKS * LANE_ROWS], lo[ROW_BLOCKS * LANE_ROWS], delta[ROW_BLOCKS * LANE_ROWS];

// Uniform in this workgroup, but for row0, role and staging, which are the subgroup's.
int b, h, bh, row0, role, staging;
int begin, end, last_tile;  // tiles of keys
int block_first, block_last;  // rows of this workgroup
uint64_t bias_base;
Dropout dropout;
uint kept;  // of this unit, drawn before the last products of the previous unit

void products(int stage, int block) {
  DECLARE_SUMS
  [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r) S_SUM[r] = Acc(0.0);
  [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r) DP_SUM[r] = Acc(0.0);
  [[unroll]] for (int d = 0; d < FRAGS; ++d) {
    MatB k;
    coopMatLoad(k, tiles, uint(stage * STAGE_SIZE + block * MAT_N * PITCH + d * MAT_N / 8), uint(PITCH), COLUMN_MAJOR);
    [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r) S_SUM[r] = coopMatMulAdd(q_frag[r * FRAGS + d], k, S_SUM[r]);
  }
  [[unroll]] for (int d = 0; d < FRAGS_V; ++d) {
    MatB v;
    coopMatLoad(v, tiles, uint(stage * STAGE_SIZE + TILE_A + block * MAT_N * PITCH_V + d * MAT_N / 8), uint(PITCH_V),
        COLUMN_MAJOR);
    [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r) DP_SUM[r] = coopMatMulAdd(g_frag[r * FRAGS_V + d], v, DP_SUM[r]);
  }
  TAKE_SUMS
}

// s := P, dp := the gradient of P, slope := the derivative of the soft cap.
void weigh(int block, int key0, bool masked) {
  [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r) {
    int most[LANE_ROWS], least[LANE_ROWS];  // visible elements are in [least, most], relative to this lane's first
    if (masked) {
      [[unroll]] for (int t = 0; t < LANE_ROWS; ++t) {
        const int diagonal = row0 + r * MAT_M + lane_row() + NIBBLE(LANE_ROW_OFFSETS, t) + mask_diagonal();
        most[t] = min(tile_last, diagonal + p.right) - key0 - lane_col();
        least[t] = diagonal - p.left - key0 - lane_col();
      }
    }
    uvec4 words;
    if (DROPOUT && !WHOLE_CELLS) words = unit_words(dropout, bh, row0 + r * MAT_M, key0);
    [[unroll]] for (int e = 0; e < ELEMS; ++e) {
      const int t = r * LANE_ROWS + LANE_ROW_OF(e);
      const int row = row0 + r * MAT_M + lane_row() + NIBBLE(ELEM_ROWS, e),
          key = key0 + lane_col() + NIBBLE(ELEM_COLS, e);
      float x;
      if (UNMODIFIED_SCORES) {
        x = fma(s[r][e], p.scale * LOG2E, -lse[t]);
      } else {
        if (SOFTCAP) slope[r][e] = softcap_slope(s[r][e]);
        x = modified_exponent(s[r][e], BIAS_DTYPE >= 0 ?
            bias_at(bias_base, min(row, last_query()), min(key, tile_last)) : uint64_t(0), row, key, lse[t], lo[t]);
      }
      if (masked) {
        bool hidden = NIBBLE(ELEM_COLS, e) > most[LANE_ROW_OF(e)];
        if (BOUNDED_LEFT) hidden = hidden || NIBBLE(ELEM_COLS, e) < least[LANE_ROW_OF(e)];
        x = hidden ? NEG_INF : x;
      }
      s[r][e] = exp2(x);
      if (DROPOUT) {
        const bool keeps = WHOLE_CELLS ? CELL_KEEPS(kept, CELL_BIT(r, SECOND_BLOCK(block, key0), e)) :
            words_keep(words, row, key);
        dp[r][e] = keeps ? dp[r][e] : 0.0;  // the scale follows at the end
      }
    }
  }
}

void accumulate(int stage, int block, int key0, int then) {
  MatA ds[ROW_BLOCKS];
  [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r) {
    [[unroll]] for (int e = 0; e < ELEMS; ++e) {
      const float d = s[r][e] * (dp[r][e] - delta[r * LANE_ROWS + LANE_ROW_OF(e)]);
      const int row = row0 + r * MAT_M + lane_row() + NIBBLE(ELEM_ROWS, e),
          key = key0 + lane_col() + NIBBLE(ELEM_COLS, e);
      if (GRAD_BIAS && row < p.q_len && key <= tile_last)
        F32Ref(p.grad_bias + uint64_t((int64_t(bh) * p.q_len + row) * p.k_len + key) * 4).v = DROPOUT ?
            d * p.dropout_scale : d;
      PUT_A(ds[r], 0, e, SOFTCAP ? d * slope[r][e] : d)
    }
    TAKE_A(ds[r], 0)
  }
  if (WHOLE_CELLS && LAST_OF_UNIT(block, key0, then)) kept = own_cell(dropout, bh, row0, then);
  [[unroll]] for (int i = 0; i < FRAGS; ++i) {
    MatB k;
    coopMatLoad(k, tiles, uint(stage * STAGE_SIZE + block * MAT_N * PITCH + i * MAT_N / 8), uint(PITCH), ROW_MAJOR);
    [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r) dq[r * FRAGS + i] = coopMatMulAdd(ds[r], k, dq[r * FRAGS + i]);
  }
}

#define EXCHANGE_AT(r, i) (((int(gl_SubgroupID) / 2 * ROW_BLOCKS + (r)) * BLOCKS_IN_FLIGHT + (i)) * PAIR_SIZE + lane())
// ROLE_SPLIT 2: the i-th block in flight of a pair of subgroups. This one's product becomes P or the gradient of P.
// Both subgroups need both. P is sent times the soft cap's slope, unless it is for a sum.
void send(int stage, int block, int i, int key0, bool masked, bool summed) {
  const int operand = stage * STAGE_SIZE + role * TILE_A + block * MAT_N * PITCH;
  DECLARE_SUMS
  [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r) OWN_SUM(i, r) = Acc(0.0);
  [[unroll]] for (int d = 0; d < FRAGS; ++d) {
    MatB k;
    coopMatLoad(k, tiles, uint(operand + d * MAT_N / 8), uint(PITCH), COLUMN_MAJOR);
    [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r)
      OWN_SUM(i, r) = coopMatMulAdd(q_frag[r * FRAGS + d], k, OWN_SUM(i, r));
  }
  TAKE_OWN(i)
  if (WHOLE_CELLS && (summed || !(WHOLE_UNITS && (block & 1) == 1))) kept = own_cell(dropout, bh, row0, key0);
  [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r) {
    const int diagonal = row0 + r * MAT_M + lane_row() + mask_diagonal() - key0 - lane_col();
    const int beyond = tile_last - key0 - lane_col();
    uvec4 words;
    if (DROPOUT && !WHOLE_CELLS) words = unit_words(dropout, bh, row0 + r * MAT_M, key0);
    float sent[ELEMS];
    [[unroll]] for (int e = 0; e < ELEMS; ++e) {
      const int t = r * LANE_ROWS + LANE_ROW_OF(e);
      const int row = row0 + r * MAT_M + lane_row() + NIBBLE(ELEM_ROWS, e),
          key = key0 + lane_col() + NIBBLE(ELEM_COLS, e);
      const float score = s[i * ROW_BLOCKS + r][e];
      float x;
      if (UNMODIFIED_SCORES) {
        x = fma(score, p.scale * LOG2E, -lse[t]);
      } else {
        if (SOFTCAP) slope[i * ROW_BLOCKS + r][e] = softcap_slope(score);
        x = modified_exponent(score, BIAS_DTYPE >= 0 ?
            bias_at(bias_base, min(row, last_query()), min(key, tile_last)) : uint64_t(0), row, key, lse[t], lo[t]);
      }
      if (masked) {
        bool hidden = NIBBLE(ELEM_COLS, e) > min(beyond, diagonal + NIBBLE(LANE_ROW_OFFSETS, LANE_ROW_OF(e)) + p.right);
        if (BOUNDED_LEFT)
          hidden = hidden || NIBBLE(ELEM_COLS, e) < diagonal + NIBBLE(LANE_ROW_OFFSETS, LANE_ROW_OF(e)) - p.left;
        x = hidden ? NEG_INF : x;
      }
      const float prob = exp2(x);
      float gradient = score;
      if (DROPOUT) {
        const bool keeps = WHOLE_CELLS ? CELL_KEEPS(kept, CELL_BIT(r, SECOND_BLOCK(block, key0), e)) :
            words_keep(words, row, key);
        gradient = keeps ? score : 0.0;  // the scale follows at the end
      }
      const float own = BY_ROLE(prob, gradient);
      sent[e] = SOFTCAP && !summed ? BY_ROLE(own * slope[i * ROW_BLOCKS + r][e], own) : own;
      s[i * ROW_BLOCKS + r][e] = own;
    }
    const int mine = EXCHANGE_AT(r, i) + role * (HALVES ? SUBGROUP : PAIR_SIZE / 2);
    if (HALVES) {
      uvec4 halves;
      [[unroll]] for (int j = 0; j < 4; ++j) halves[j] = packHalf2x16(vec2(sent[2 * j], sent[2 * j + 1]));
      [[unroll]] for (int j = 0; j < 2; ++j)
        exchange[mine + j * role * SUBGROUP] = (halves & uint(role - 1)) | (SENT_BITS(j) & ~uint(role - 1));
    } else {
      [[unroll]] for (int j = 0; j < ELEMS / 4; ++j) exchange[mine + j * SUBGROUP] = SENT_BITS(j);
    }
  }
}
// received[]: the other subgroup's elements.
#define RECEIVE(r, i)                                                                                                  \
  float received[ELEMS];                                                                                               \
  const int theirs = EXCHANGE_AT(r, i) + (1 - role) * (HALVES ? SUBGROUP : PAIR_SIZE / 2);                             \
  if (HALVES) {                                                                                                        \
    const uvec4 low = exchange[theirs], high = exchange[theirs + (1 - role) * SUBGROUP];                               \
    [[unroll]] for (int e = 0; e < 8; ++e)                                                                             \
      received[e] = BY_ROLE(uintBitsToFloat(e < 4 ? low[e & 3] : high[e & 3]), unpackHalf2x16(low[e / 2])[e % 2]);     \
  } else {                                                                                                             \
    [[unroll]] for (int j = 0; j < ELEMS / 4; ++j)                                                                     \
      [[unroll]] for (int e = 0; e < 4; ++e)                                                                           \
        received[4 * j + e] = uintBitsToFloat(exchange[theirs + j * SUBGROUP][e]);                                     \
  }
void accumulate_own(int stage, int block, int i, int key0) {
  MatA ds[ROW_BLOCKS];
  [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r) {
    RECEIVE(r, i)
    [[unroll]] for (int e = 0; e < ELEMS; ++e) {
      const float own = s[i * ROW_BLOCKS + r][e], other = received[e], minus = delta[r * LANE_ROWS + LANE_ROW_OF(e)];
      const float d = BY_ROLE(own, other) * (BY_ROLE(other, own) - minus);
      const int row = row0 + r * MAT_M + lane_row() + NIBBLE(ELEM_ROWS, e),
          key = key0 + lane_col() + NIBBLE(ELEM_COLS, e);
      if (GRAD_BIAS && role == 0 && row < p.q_len && key <= tile_last)
        F32Ref(p.grad_bias + uint64_t((int64_t(bh) * p.q_len + row) * p.k_len + key) * 4).v = DROPOUT ?
            d * p.dropout_scale : d;
      PUT_A(ds[r], 0, e, SOFTCAP ? BY_ROLE(d * slope[i * ROW_BLOCKS + r][e], d) : d)
    }
    TAKE_A(ds[r], 0)
  }
  const int operand = stage * STAGE_SIZE + block * MAT_N * PITCH + role * ROLE_D / 8;
  [[unroll]] for (int d = 0; d < ROLE_FRAGS; ++d) {
    MatB k;
    coopMatLoad(k, tiles, uint(operand + d * MAT_N / 8), uint(PITCH), ROW_MAJOR);
    [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r)
      dq[r * ROLE_FRAGS + d] = coopMatMulAdd(ds[r], k, dq[r * ROLE_FRAGS + d]);
  }
}

// delta as the sum of P * dP, for rows that see few keys: see sums_delta() in attention.glsl.
void sum_delta(int from, int to) {
  float sum[ROW_BLOCKS * LANE_ROWS];
  [[unroll]] for (int i = 0; i < ROW_BLOCKS * LANE_ROWS; ++i) sum[i] = 0.0;
  int next;
  [[dont_unroll]] for (int tile = from; tile < to; tile = next) {
    next = tile + 1;
    if (BLOCK_MASK) next = kept_tile(bias_base, block_first, block_last, next, to);
    fetch_a(tile);
    fetch_b(tile);
    put_a(0);
    put_b(0);
    barrier();  // the tile is written
    [[dont_unroll]] for (int block = 0; block < BLOCKS; ++block) {
      const int key0 = tile * TILE + block * MAT_N;
      if (ROLE_SPLIT == 1) {
        if (WHOLE_CELLS) kept = own_cell(dropout, bh, row0, key0);
        products(0, block);
        weigh(block, key0, true);
        [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r)
          [[unroll]] for (int e = 0; e < ELEMS; ++e) sum[r * LANE_ROWS + LANE_ROW_OF(e)] += s[r][e] * dp[r][e];
      } else {
        send(0, block, 0, key0, true, true);
        barrier();  // the other subgroup's elements are written
        [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r) {
          RECEIVE(r, 0)
          [[unroll]] for (int e = 0; e < ELEMS; ++e) sum[r * LANE_ROWS + LANE_ROW_OF(e)] += s[r][e] * received[e];
        }
        if (BLOCKS > 1) barrier();  // and has been read
      }
    }
    barrier();  // the tile has been read
  }
  [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r)
    [[unroll]] for (int t = 0; t < LANE_ROWS; ++t) {
      const int row = row0 + r * MAT_M + lane_row() + NIBBLE(LANE_ROW_OFFSETS, t);
      const int64_t index = stats_index(bh, min(row, last_query()));
      const float whole = row_sum(sum[r * LANE_ROWS + t]) * (DROPOUT ? p.dropout_scale : 1.0) +
          delta_of_logsumexp(index);
      delta[r * LANE_ROWS + t] = whole * dropout_unscale();
      if (lane() % LANES_PER_ROW == 0 && role == 0 && row < query_count())
        F32Ref(p.stats + uint64_t(index) * STATS_BYTES + 4).v = whole;
    }
}

void pass(int from, int to, int last, bool masked) {
  int next;
  [[dont_unroll]] for (int tile = from; tile < to; tile = next) {
    next = tile + 1;
    if (BLOCK_MASK) next = kept_tile(bias_base, block_first, block_last, next, to);
    const int following = min(next, last), stage = STAGES == 1 ? 0 : tile & 1;
    if (STAGES == 1) {
      put_a(0);
      put_b(0);
      barrier();  // the tile is written
    }
    fetch_a(following);
    fetch_b(following);
    if (ROLE_SPLIT == 1) {
      [[unroll]] for (int block = 0; block < BLOCKS; ++block) {
        const int key0 = tile * TILE + block * MAT_N;
        products(stage, block);
        weigh(block, key0, masked);
        accumulate(stage, block, key0, block + 1 < BLOCKS ? key0 + MAT_N : following * TILE);
      }
    } else {
      [[unroll]] for (int first = 0; first < BLOCKS; first += BLOCKS_IN_FLIGHT) {
        if (first > 0) barrier();  // what was sent has been read
        [[unroll]] for (int i = 0; i < BLOCKS_IN_FLIGHT; ++i)
          send(stage, first + i, i, tile * TILE + (first + i) * MAT_N, masked, false);
        barrier();  // P and its gradient are written
        [[unroll]] for (int i = 0; i < BLOCKS_IN_FLIGHT; ++i) accumulate_own(stage, first + i, i,
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

// The stationary fragments of Q and dO, and the loads of the first tile.
void load_queries() {
  const uint64_t q_head = query_rows(p.query, p.query_stride, b, h);
  const uint64_t g_head = query_rows(p.grad_out, p.grad_out_stride, b, h);
  if (ROLE_SPLIT == 2) {
    const uint64_t head = role == 0 ? q_head : g_head;
    const uint stride = role == 0 ? p.query_stride[2] : p.grad_out_stride[2];
    if (FROM_GLOBAL) {
      fetch_a(min(begin, last_tile));
      fetch_b(min(begin, last_tile));
      LOAD_FRAGMENTS(q_frag, head, stride, D)
    } else {
      FETCH_ROWS(rows, head, stride * 2u, last_query(), role == 0 ? p.head_dim : p.v_dim, D)
      ROWS_TO_FRAGMENTS(q_frag, rows, D)
      fetch_a(min(begin, last_tile));
      fetch_b(min(begin, last_tile));
      barrier();  // the fragment staging has been read
    }
  } else if (FROM_GLOBAL) {
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
    barrier();  // the fragment staging has been read
  }
}

void main() {
#include "attention/parts/coopmat_query_block.glsl"
  role = ROLE_SPLIT == 1 ? 0 : subgroup % ROLE_SPLIT;
  const bool sums = SUMS_DELTA && sums_delta(keys_end(last) - keys_begin(first), BLOCK);
  if (ONLY_DELTA && !sums) return;

  staging = subgroup * STAGING_SIZE;
  load_queries();
  [[unroll]] for (int i = 0; i < ROW_BLOCKS * ROLE_FRAGS; ++i) dq[i] = Acc(0.0);
  [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r)
    [[unroll]] for (int t = 0; t < LANE_ROWS; ++t) {
      const int row = min(row0 + r * MAT_M + lane_row() + NIBBLE(LANE_ROW_OFFSETS, t), last_query());
      const uint64_t stats = p.stats + uint64_t(stats_index(bh, row)) * STATS_BYTES;
      lse[r * LANE_ROWS + t] = logsumexp_in_log2(F32Ref(stats).v);
      lo[r * LANE_ROWS + t] = TWO_PARTS ? F32Ref(stats + 8).v * LOG2E : 0.0;
      delta[r * LANE_ROWS + t] = F32Ref(stats + 4).v * dropout_unscale();
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
  if (WHOLE_CELLS && ROLE_SPLIT == 1) kept = own_cell(dropout, bh, row0, begin * TILE);
  if (BOUNDED_LEFT) pass(begin, full_begin, last_tile, true);
  pass(full_begin, full_end, last_tile, false);
  if (!UNMASKED) pass(full_end, end, last_tile, true);

#define BY_SCALE(r, e) (p.scale * TRUNCATION_BIAS * (DROPOUT ? p.dropout_scale : 1.0))
  const int d0 = role * ROLE_D;
  const uint64_t dq_head = query_rows(p.grad_query, p.grad_query_stride, b, h) + uint64_t(d0 * 2);
  STORE_ROWS(dq, BY_SCALE, dq_head, uint(p.grad_query_stride[2]) * 2u, last_query(), p.head_dim - d0, ROLE_D)
}
