#pragma aule axis T float16_t bfloat16_t
#pragma aule axis OPAQUE 0 1
#pragma aule feature cooperative_matrix
#pragma aule feature subgroup_shuffle
#pragma aule feature float16
#pragma aule feature bfloat16 if T=bfloat16_t
#pragma aule params wide
#pragma aule inline
// FlashAttention-2 backward (Dao 2023) on cooperative matrices, dK and dV. OPAQUE 1: unknown layout,
// coopmat_elements.glsl.
//   S^T = K Q^T;  P^T = exp2(S^T - LSE);  dV += P^T dO;  dP^T = V dO^T;  dS^T = P^T * (dP^T - delta);  dK += dS^T Q
// Workgroup (block of BLOCK keys, b, key head). K and V fragments stay in registers, tiles of Q and dO pass through
// shared memory, for every query head of the group in turn. Transposed, so that P^T and dS^T are this subgroup's
// accumulators and become its A operands. dK and dV have one writer: no atomics, deterministic.
// Heads wider than 128 columns (ROLE_SPLIT 2): two subgroups share 16 keys. Role 0 has K, computes P and sums dV. Role
// 1 has V, computes dP, receives P through shared memory and sums dK. Both run the same instructions on other
// addresses. What was tried, and what it gave: docs/ladders/flash_attn_bwd_dkdv_coopmat.md
#define ATTENTION_ADDRESSES grad_out, stats, grad_key, grad_value, ds_workspace
#define ATTENTION_STRIDES grad_out_stride[3], grad_key_stride[3], grad_value_stride[3], first_head
#define EXCHANGE_SIZE ((SUBGROUPS / 2 * SIDES * ROW_BLOCKS * BLOCKS_IN_FLIGHT + 1) * MESSAGE_SIZE)
#include "attention/parts/coopmat.glsl"
const int SIDES = BLOCKS > BLOCKS_IN_FLIGHT ? 2 : 1;  // one is written while the other is read
const int MESSAGE_SIZE = MAT_M * MAT_N / 4;
#include "attention/parts/coopmat_tiles.glsl"
#include "attention/parts/coopmat_dropout.glsl"
#include "attention/parts/coopmat_elements.glsl"

const int STATS_LOADS = (TILE + LOCAL - 1) / LOCAL;
// {log-sum-exp in log2 units, delta} of the tile's queries; then the second parts of the log-sum-exp if TWO_PARTS.
const int STATS_OF_TILES = STAGES * TILE;
shared vec2 row_stats[TWO_PARTS ? 2 * STATS_OF_TILES : STATS_OF_TILES];

MatA k_frag[ROW_BLOCKS * FRAGS], v_frag[ROW_BLOCKS * FRAGS_V];
Elements s[ROLE_SPLIT == 1 ? ROW_BLOCKS : ROW_BLOCKS * BLOCKS_IN_FLIGHT], dp[ROW_BLOCKS];
Acc dk[ROW_BLOCKS * FRAGS], dv[ROW_BLOCKS * FRAGS_V];
vec2 next_stats[STATS_LOADS];
float next_lo[STATS_LOADS];

// Uniform in this workgroup, but for row0, role and staging, which are the subgroup's.
int b, h, bh, kv_h, row0, role, staging;
uint64_t bias_base, stats_base, ds_base;
int block_first, block_last;  // keys of this workgroup
int query_blocks;  // of the dS workspace
Dropout dropout;
uint kept;  // of this unit, drawn before the last products of the previous unit

// A query beyond the last has log-sum-exp infinity, hence P = 0, and needs no mask.
void fetch_stats(int tile) {
  [[unroll]] for (int i = 0; i < STATS_LOADS; ++i) {
    const int row = tile * TILE + int(gl_LocalInvocationIndex) + i * LOCAL;
    next_stats[i] = vec2(POS_INF, 0.0);
    next_lo[i] = 0.0;
    if (row <= tile_last) {
      const uint64_t stats = stats_base + uint64_t(uint(row)) * STATS_BYTES;
      next_stats[i] = vec2(logsumexp_in_log2(F32Ref(stats).v), F32Ref(stats + 4).v * dropout_unscale());
      if (TWO_PARTS) next_lo[i] = F32Ref(stats + 8).v * LOG2E;
    }
  }
}
void put_stats(int stage) {
  [[unroll]] for (int i = 0; i < STATS_LOADS; ++i) {
    const int e = int(gl_LocalInvocationIndex) + i * LOCAL;
    if (e < TILE) {
      row_stats[stage * TILE + e] = next_stats[i];
      if (TWO_PARTS) row_stats[STATS_OF_TILES + stage * TILE + e].x = next_lo[i];
    }
  }
}
float lo_at(int e) { return TWO_PARTS ? row_stats[STATS_OF_TILES + e].x : 0.0; }

void products(int stage, int block) {
  DECLARE_SUMS
  [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r) S_SUM[r] = Acc(0.0);
  [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r) DP_SUM[r] = Acc(0.0);
  [[unroll]] for (int d = 0; d < FRAGS; ++d) {
    MatB q;
    coopMatLoad(q, tiles, uint(stage * STAGE_SIZE + block * MAT_N * PITCH + d * MAT_N / 8), uint(PITCH), COLUMN_MAJOR);
    [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r) S_SUM[r] = coopMatMulAdd(k_frag[r * FRAGS + d], q, S_SUM[r]);
  }
  [[unroll]] for (int d = 0; d < FRAGS_V; ++d) {
    MatB g;
    coopMatLoad(g, tiles, uint(stage * STAGE_SIZE + TILE_A + block * MAT_N * PITCH_V + d * MAT_N / 8), uint(PITCH_V),
        COLUMN_MAJOR);
    [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r) DP_SUM[r] = coopMatMulAdd(v_frag[r * FRAGS_V + d], g, DP_SUM[r]);
  }
  TAKE_SUMS
}

#define DS_PAIR(M, e) pack_two(M[NIBBLE(ELEM_OF_A, e)], M[NIBBLE(ELEM_OF_A, e + 1)])
void accumulate(int stage, int block, int query0, int then, bool masked) {
  MatA weight[ROW_BLOCKS], ds[ROW_BLOCKS];
  [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r) {
    // The key sees queries in [least, most], relative to this lane's first column.
    int most[LANE_ROWS], least[LANE_ROWS];
    if (masked) {
      [[unroll]] for (int t = 0; t < LANE_ROWS; ++t) {
        const int diagonal = row0 + r * MAT_M + lane_row() + NIBBLE(LANE_ROW_OFFSETS, t) - mask_diagonal() - query0 -
            lane_col();
        least[t] = diagonal - p.right;
        most[t] = diagonal + p.left;
      }
    }
    uvec4 words;
    if (DROPOUT && !WHOLE_CELLS) words = unit_words(dropout, bh, query0, row0 + r * MAT_M);
    [[unroll]] for (int e = 0; e < ELEMS; ++e) {
      const int column = lane_col() + NIBBLE(ELEM_COLS, e);
      const vec2 stats = row_stats[stage * TILE + block * MAT_N + column];
      const int key = row0 + r * MAT_M + lane_row() + NIBBLE(ELEM_ROWS, e), query = query0 + column;
      float x, slope = 1.0;
      if (UNMODIFIED_SCORES) {
        x = fma(s[r][e], (p.scale * LOG2E), -stats.x);
      } else {
        if (SOFTCAP) slope = softcap_slope(s[r][e]);
        x = modified_exponent(s[r][e], BIAS_DTYPE >= 0 ?
            bias_at(bias_base, min(query, tile_last), min(key, last_key())) : uint64_t(0), query, key, stats.x,
            lo_at(stage * TILE + block * MAT_N + column));
      }
      if (masked) {
        bool hidden = NIBBLE(ELEM_COLS, e) < least[LANE_ROW_OF(e)];
        if (BOUNDED_LEFT) hidden = hidden || NIBBLE(ELEM_COLS, e) > most[LANE_ROW_OF(e)];
        x = hidden ? NEG_INF : x;
      }
      const float prob = exp2(x), gp = dp[r][e];
      float weighs = prob;
      if (DROPOUT) {
        const bool keeps = WHOLE_CELLS ? CELL_KEEPS(kept, TRANSPOSED_BIT(SECOND_BLOCK(block, query0), r, e)) :
            words_keep(words, query, key);
        weighs = keeps ? prob : 0.0;  // the scale follows at the end
      }
      const float d = DROPOUT ? fma(weighs, gp, -(prob * stats.y)) : prob * (gp - stats.y);
      PUT_A(weight[r], 0, e, weighs)
      PUT_A(ds[r], 1, e, SOFTCAP ? d * slope : d)
    }
    TAKE_A(weight[r], 0)
    TAKE_A(ds[r], 1)
    if (WRITES_DS) {
      const uint at = ds_index(row0 / MAT_M + r, query0 / MAT_N, query_blocks) * DS_BYTES;
      Vec16bRef(ds_base + uint64_t(at)).v = uvec4(DS_PAIR(ds[r], 0), DS_PAIR(ds[r], 2), DS_PAIR(ds[r], 4),
          DS_PAIR(ds[r], 6));
    }
  }
  if (WHOLE_CELLS && LAST_OF_UNIT(block, query0, then)) kept = transposed_cell(dropout, bh, then, row0);
  [[unroll]] for (int i = 0; i < FRAGS_V; ++i) {
    MatB g;
    coopMatLoad(g, tiles, uint(stage * STAGE_SIZE + TILE_A + block * MAT_N * PITCH_V + i * MAT_N / 8), uint(PITCH_V),
        ROW_MAJOR);
    [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r)
      dv[r * FRAGS_V + i] = coopMatMulAdd(weight[r], g, dv[r * FRAGS_V + i]);
  }
  [[unroll]] for (int i = 0; i < FRAGS; ++i) {
    MatB q;
    coopMatLoad(q, tiles, uint(stage * STAGE_SIZE + block * MAT_N * PITCH + i * MAT_N / 8), uint(PITCH), ROW_MAJOR);
    [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r) dk[r * FRAGS + i] = coopMatMulAdd(ds[r], q, dk[r * FRAGS + i]);
  }
}

#define EXCHANGE_AT(side, r, i)                                                                                        \
  ((((int(gl_SubgroupID) / 2 * SIDES + side) * ROW_BLOCKS + (r)) * BLOCKS_IN_FLIGHT + (i)) * MESSAGE_SIZE + lane())
// The second subgroup of a pair writes to a discard slot: a branch around cooperative-matrix elements is slow on
// NVIDIA.
#define EXCHANGE_DISCARD (SUBGROUPS / 2 * SIDES * ROW_BLOCKS * BLOCKS_IN_FLIGHT * MESSAGE_SIZE + lane())
// ROLE_SPLIT 2: the i-th block in flight of a pair of subgroups. This one's product becomes P or dP. P goes to the
// other.
void send(int stage, int block, int i, int side, int query0, bool masked) {
  const int operand = stage * STAGE_SIZE + role * TILE_A + block * MAT_N * PITCH;
  DECLARE_SUMS
  [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r) OWN_SUM(i, r) = Acc(0.0);
  [[unroll]] for (int d = 0; d < FRAGS; ++d) {
    MatB q;
    coopMatLoad(q, tiles, uint(operand + d * MAT_N / 8), uint(PITCH), COLUMN_MAJOR);
    [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r)
      OWN_SUM(i, r) = coopMatMulAdd(k_frag[r * FRAGS + d], q, OWN_SUM(i, r));
  }
  TAKE_OWN(i)
  if (WHOLE_CELLS && !(WHOLE_UNITS && (block & 1) == 1)) kept = transposed_cell(dropout, bh, query0, row0);
  [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r) {
    const int key0 = row0 + r * MAT_M + lane_row();
    const int diagonal = key0 - mask_diagonal() - query0 - lane_col();
    uvec4 words;
    if (DROPOUT && !WHOLE_CELLS) words = unit_words(dropout, bh, query0, row0 + r * MAT_M);
    float sent[ELEMS];
    [[unroll]] for (int e = 0; e < ELEMS; ++e) {
      const int column = lane_col() + NIBBLE(ELEM_COLS, e), key = key0 + NIBBLE(ELEM_ROWS, e), query = query0 + column;
      const float score = s[i * ROW_BLOCKS + r][e], logsumexp = row_stats[stage * TILE + block * MAT_N + column].x;
      float x, slope = 1.0;
      if (UNMODIFIED_SCORES) {
        x = fma(score, (p.scale * LOG2E), -logsumexp);
      } else {
        if (SOFTCAP) slope = softcap_slope(score);
        x = modified_exponent(score, BIAS_DTYPE >= 0 ? bias_at(bias_base, min(query, tile_last),
            min(key, last_key())) : uint64_t(0), query, key, logsumexp, lo_at(stage * TILE + block * MAT_N + column));
      }
      if (masked) {
        bool hidden = NIBBLE(ELEM_COLS, e) < diagonal + NIBBLE(LANE_ROW_OFFSETS, LANE_ROW_OF(e)) - p.right;
        if (BOUNDED_LEFT)
          hidden = hidden || NIBBLE(ELEM_COLS, e) > diagonal + NIBBLE(LANE_ROW_OFFSETS, LANE_ROW_OF(e)) + p.left;
        x = hidden ? NEG_INF : x;
      }
      const float prob = exp2(x);
      float own = BY_ROLE(prob, score);
      if (DROPOUT) {
        const bool keeps = WHOLE_CELLS ? CELL_KEEPS(kept, TRANSPOSED_BIT(SECOND_BLOCK(block, query0), r, e)) :
            words_keep(words, query, key);
        own = keeps ? own : 0.0;  // the scale follows at the end
      }
      sent[e] = SOFTCAP ? prob * slope : prob;
      s[i * ROW_BLOCKS + r][e] = own;
    }
    [[unroll]] for (int j = 0; j < ELEMS / 4; ++j) exchange[(role == 0 ? EXCHANGE_AT(side, r, i) : EXCHANGE_DISCARD) +
        j * SUBGROUP] = SENT_BITS(j);
  }
}
// dV += P^T dO, or dK += dS^T Q.
void accumulate_own(int stage, int block, int i, int side, int query0) {
  MatA weight[ROW_BLOCKS];
  [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r) {
    vec4 received[ELEMS / 4];
    [[unroll]] for (int j = 0; j < ELEMS / 4; ++j) received[j] =
        uintBitsToFloat(exchange[EXCHANGE_AT(side, r, i) + j * SUBGROUP]);
    [[unroll]] for (int e = 0; e < ELEMS; ++e) {
      const float delta = row_stats[stage * TILE + block * MAT_N + lane_col() + NIBBLE(ELEM_COLS, e)].y,
          own = s[i * ROW_BLOCKS + r][e];
      const float d = received[e / 4][e % 4] * (own - delta);
      PUT_A(weight[r], 0, e, BY_ROLE(own, d))
    }
    TAKE_A(weight[r], 0)
    if (WRITES_DS && role == 1) {
      const uint at = ds_index(row0 / MAT_M + r, query0 / MAT_N, query_blocks) * DS_BYTES;
      Vec16bRef(ds_base + uint64_t(at)).v = uvec4(DS_PAIR(weight[r], 0), DS_PAIR(weight[r], 2), DS_PAIR(weight[r], 4),
          DS_PAIR(weight[r], 6));
    }
  }
  const int operand = stage * STAGE_SIZE + (1 - role) * TILE_A + block * MAT_N * PITCH;
  [[unroll]] for (int d = 0; d < FRAGS; ++d) {
    MatB q;
    coopMatLoad(q, tiles, uint(operand + d * MAT_N / 8), uint(PITCH), ROW_MAJOR);
    [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r) dk[r * FRAGS + d] = coopMatMulAdd(weight[r], q, dk[r * FRAGS + d]);
  }
}

void pass(int from, int to, int last, bool masked) {
  int next;
  [[dont_unroll]] for (int tile = from; tile < to; tile = next) {
    next = tile + 1;
    if (BLOCK_MASK) next = kept_query_tile(bias_base, block_first, block_last, next, to);
    const int following = min(next, last), stage = STAGES == 1 ? 0 : tile & 1;
    fetch_a(following);
    fetch_b(following);
    fetch_stats(following);
    if (ROLE_SPLIT == 1) {
      [[unroll]] for (int block = 0; block < BLOCKS; ++block) {
        const int query0 = tile * TILE + block * MAT_N;
        products(stage, block);
        accumulate(stage, block, query0, block + 1 < BLOCKS ? query0 + MAT_N : following * TILE, masked);
      }
    } else {
      [[unroll]] for (int first = 0; first < BLOCKS; first += BLOCKS_IN_FLIGHT) {
        const int side = SIDES == 1 ? 0 : first / BLOCKS_IN_FLIGHT & 1;
        [[unroll]] for (int i = 0; i < BLOCKS_IN_FLIGHT; ++i)
          send(stage, first + i, i, side, tile * TILE + (first + i) * MAT_N, masked);
        barrier();  // P is written
        [[unroll]] for (int i = 0; i < BLOCKS_IN_FLIGHT; ++i) accumulate_own(stage, first + i, i, side,
            tile * TILE + (first + i) * MAT_N);
      }
    }
    if (STAGES == 1) barrier();  // the tile has been read
    put_a(STAGES == 1 ? 0 : stage ^ 1);
    put_b(STAGES == 1 ? 0 : stage ^ 1);
    put_stats(STAGES == 1 ? 0 : stage ^ 1);
    barrier();  // the next tile is written, and this one has been read
  }
}

// The stationary fragments of K and V.
void load_keys() {
  const uint64_t k_head = key_rows(p.key, p.key_stride, b, kv_h);
  const uint64_t v_head = key_rows(p.value, p.value_stride, b, kv_h);
  if (ROLE_SPLIT == 2) {
    const uint64_t head = role == 0 ? k_head : v_head;
    const uint stride = role == 0 ? p.key_stride[2] : p.value_stride[2];
    if (FROM_GLOBAL) {
      LOAD_FRAGMENTS(k_frag, head, stride, D)
    } else {
      FETCH_ROWS(rows, head, stride * 2u, last_key(), role == 0 ? p.head_dim : p.v_dim, D)
      ROWS_TO_FRAGMENTS(k_frag, rows, D)
    }
  } else if (FROM_GLOBAL) {
    LOAD_FRAGMENTS(k_frag, k_head, uint(p.key_stride[2]), D)
    LOAD_FRAGMENTS(v_frag, v_head, uint(p.value_stride[2]), DV)
  } else {
    FETCH_ROWS(k_rows, k_head, uint(p.key_stride[2]) * 2u, last_key(), p.head_dim, D)
    FETCH_ROWS(v_rows, v_head, uint(p.value_stride[2]) * 2u, last_key(), p.v_dim, DV)
    ROWS_TO_FRAGMENTS(k_frag, k_rows, D)
    ROWS_TO_FRAGMENTS(v_frag, v_rows, DV)
  }
}

#define BY_SCALE(r, e) (p.scale * TRUNCATION_BIAS * (DROPOUT ? p.dropout_scale : 1.0))
#define BY_DROPOUT(r, e) (DROPOUT ? p.dropout_scale * TRUNCATION_BIAS : TRUNCATION_BIAS)
#define BY_OWN(r, e) own_factor
void store_result() {
  const uint64_t dk_head = key_rows(p.grad_key, p.grad_key_stride, b, kv_h);
  const uint64_t dv_head = key_rows(p.grad_value, p.grad_value_stride, b, kv_h);
  if (ROLE_SPLIT == 2) {
    const uint64_t head = role == 0 ? dv_head : dk_head;
    const uint step = (role == 0 ? p.grad_value_stride[2] : p.grad_key_stride[2]) * 2u;
    const float own_factor = role == 0 ? BY_DROPOUT(0, 0) : BY_SCALE(0, 0);
    STORE_ROWS(dk, BY_OWN, head, step, last_key(), role == 0 ? p.v_dim : p.head_dim, D)
  } else {
    STORE_ROWS(dk, BY_SCALE, dk_head, uint(p.grad_key_stride[2]) * 2u, last_key(), p.head_dim, D)
    STORE_ROWS(dv, BY_DROPOUT, dv_head, uint(p.grad_value_stride[2]) * 2u, last_key(), p.v_dim, DV)
  }
}

void main() {
  const int blocks = (p.k_len + BLOCK - 1) / BLOCK, heads_of_group = p.heads / p.kv_heads;
  const uint group = linear_group();
  if (group >= p.groups) return;  // whole workgroups, so no barrier is missed
  // Causal: the first keys are seen by the most queries. A chunk's few heads take turns, so that its end is light for
  // all.
  const int chunk = int(p.groups) / blocks;
  const int first = (WRITES_DS ? int(group) / chunk : int(group % uint(blocks))) * BLOCK;
  const int in_chunk = WRITES_DS ? int(group) % chunk : int(group / uint(blocks)), subgroup = int(gl_SubgroupID);
  const int b_kv = in_chunk + int(p.first_head);
  kv_h = b_kv % p.kv_heads;
  b = b_kv / p.kv_heads;
  begin_sequence(b);
  if (RAGGED && first >= key_count()) return;
  row0 = first + subgroup / ROLE_SPLIT * ROW_BLOCKS * MAT_M;
  role = ROLE_SPLIT == 1 ? 0 : subgroup % ROLE_SPLIT;
  tile_last = last_query();
  if (DROPOUT) dropout = dropout_begin();

  staging = subgroup * STAGING_SIZE;
  load_keys();
  [[unroll]] for (int i = 0; i < ROW_BLOCKS * FRAGS; ++i) dk[i] = Acc(0.0);
  if (ROLE_SPLIT == 1) {
    [[unroll]] for (int i = 0; i < ROW_BLOCKS * FRAGS_V; ++i) dv[i] = Acc(0.0);
  }

  // Tiles [begin, end) hold queries that see some key; in [full_begin, full_end) every query sees every key of the
  // block.
  const int last = min(first + BLOCK, key_count()) - 1;
  const int unit = WRITES_DS ? DS_ROWS : TILE;
  const int begin = queries_begin(first) / unit * (unit / TILE),
      end = (max(queries_end(last), 0) + unit - 1) / unit * (unit / TILE);
  const int full_begin = BLOCK_MASK ? max(begin, end) :
      clamp((max(last - mask_diagonal() - p.right, 0) + TILE - 1) / TILE, begin, max(begin, end));
  const int full_end = BOUNDED_LEFT && !BLOCK_MASK ?
      clamp(max(first - mask_diagonal() + p.left + 1, 0) / TILE, full_begin, max(full_begin, end)) : end;
  const int last_tile = max(end, 1) - 1;
  block_first = first;
  block_last = last;

  [[dont_unroll]] for (int member = 0; member < heads_of_group; ++member) {
    h = kv_h * heads_of_group + member;
    bh = b * p.heads + h;
    a_base = query_rows(p.query, p.query_stride, b, h);
    b_base = query_rows(p.grad_out, p.grad_out_stride, b, h);
    stats_base = p.stats + uint64_t(stats_index(bh, 0)) * STATS_BYTES;
    if (BIAS_DTYPE >= 0) bias_base = bias_head(b, h);
    if (ALIBI) head_slope = F32Ref(bias_base).v;
    if (WRITES_DS) {
      query_blocks = ds_blocks(p.q_len);
      ds_base = p.ds_workspace + uint64_t(uint(in_chunk * heads_of_group + member)) *
          uint64_t(ds_matrices(blocks * (BLOCK / MAT_M), query_blocks)) * DS_BYTES +
                uint64_t(uint(lane()) * 16u);
    }
    int start = begin;
    if (BLOCK_MASK) start = kept_query_tile(bias_base, first, last, begin, max(begin, end));
    fetch_a(min(start, last_tile));
    fetch_b(min(start, last_tile));
    fetch_stats(min(start, last_tile));
    barrier();  // the fragment staging, or the last tile of the head before, have been read
    const int begin_stage = STAGES == 1 ? 0 : start & 1;
    put_a(begin_stage);
    put_b(begin_stage);
    put_stats(begin_stage);
    barrier();  // the first tile is written
    if (WHOLE_CELLS && ROLE_SPLIT == 1) kept = transposed_cell(dropout, bh, begin * TILE, row0);
    if (!UNMASKED) pass(start, full_begin, last_tile, true);
    pass(full_begin, full_end, last_tile, false);
    if (BOUNDED_LEFT) pass(full_end, end, last_tile, true);
  }

  barrier();  // the last tile has been read
  store_result();
}
