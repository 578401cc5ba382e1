#pragma aule inline
// As flex_dq.glsl, on cooperative matrices of known layout: flash_attn_bwd_dq_coopmat.comp has the same loop over a
// band. Q and dO fragments stay in registers, tiles of K and V pass.
#include "inductor/flex.glsl"
#include "inductor/flex_backward_coopmat.glsl"

Acc dq[ROW_BLOCKS * FRAGS];
vec2 stats[ROW_BLOCKS * LANE_ROWS];  // {log-sum-exp in log2 units, delta}

// Uniform in this workgroup, but for row0 and staging, which are the subgroup's.
Place at;
Visits visits;
int tile, following, ahead;  // this tile of keys, the next one, and the one behind it
int row0, staging;

// dQ += dS K.
void accumulate(int stage, int block, int key0, bool divided) {
  MatA ds[ROW_BLOCKS];
  [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r) {
    [[unroll]] for (int e = 0; e < ELEMS; ++e) {
      const vec2 own = stats[r * LANE_ROWS + LANE_ROW_OF(e)];
      const int row = FLEX_ROW(r, e), key = FLEX_COLUMN(key0, e);
      const int m = min(row, at.row_end - 1), n = min(key, tile_last);
      const float score = s[r][e] * FLEX_SCALE;
      float x = fma(s[r][e], FLEX_SCALE * LOG2E, -own.x);
      if (!UNMODIFIED_SCORES) x = score_mod(score, at.b, at.h, m, n) * LOG2E - own.x;
      bool seen = WHOLE_TILES || key <= tile_last;
      if (divided) {
        const bool shown = mask_mod(at.b, at.h, m, n);
        seen = seen && shown;
      }
      if (divided || !WHOLE_TILES) x = seen ? x : NEG_INF;
      const float prob = exp2(x);
      float d = prob * (dp[r][e] - own.y);
      if (!UNMODIFIED_SCORES) {
        const float modified = score_grad(score, at.b, at.h, m, n, d, seen && row < at.row_end);
        d = prob == 0.0 ? 0.0 : modified;
      }
      PUT_A(ds[r], 0, e, d)
    }
    TAKE_A(ds[r], 0)
  }
  [[unroll]] for (int i = 0; i < FRAGS; ++i) {
    MatB k;
    coopMatLoad(k, tiles, uint(stage * STAGE_SIZE + block * MAT_N * PITCH + i * MAT_N / 8), uint(PITCH), ROW_MAJOR);
    [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r) dq[r * FRAGS + i] = coopMatMulAdd(ds[r], k, dq[r * FRAGS + i]);
  }
}

// Entries of the tables are loaded one tile before the loads that need them.
#define VISIT(i) tile_of(visits, i, FLEX_KV_BLOCK)
void pass(int from, int to, bool divided) {
  [[dont_unroll]] for (int visit = from; visit < to; ++visit) {
    const int stage = STAGES == 1 ? 0 : visit & 1;
    if (STAGES == 1) {
      put_a(0);
      put_b(0);
      barrier();  // the tile is written
    }
    ahead = VISIT(visit + 2);
    fetch_a(following);
    fetch_b(following);
    [[unroll]] for (int block = 0; block < BLOCKS; ++block) {
      products(stage, block);
      accumulate(stage, block, tile * TILE + block * MAT_N, divided);
    }
    if (STAGES == 2) {
      put_a(stage ^ 1);
      put_b(stage ^ 1);
    }
    tile = following;
    following = ahead;
    barrier();  // the tile has been read, and with two stages the next one is written
  }
}

#define BY_SCALE(r, e) (FLEX_SCALE * TRUNCATION_BIAS)
void main() {
  if (!take_place(at, FLEX_Q_LEN, FLEX_Q_BLOCK, FLEX_HEADS, FLEX_GROUPS)) return;  // whole workgroups
  const int kv_h = at.h / (FLEX_HEADS / FLEX_KV_HEADS);
  visits = visits_of(at.b, at.h, at.block, FLEX_KV_LEN, FLEX_KV_BLOCK);
  row0 = at.first + int(gl_SubgroupID) * ROW_BLOCKS * MAT_M;
  staging = int(gl_SubgroupID) * STAGING_SIZE;
  tile_last = FLEX_KV_LEN - 1;
  a_base = FLEX_ROWS_KEY(at.b, kv_h);
  b_base = FLEX_ROWS_VALUE(at.b, kv_h);
  const uint64_t q_head = FLEX_ROWS_QUERY(at.b, at.h), g_head = FLEX_ROWS_GRAD_OUT(at.b, at.h);
  FETCH_ROWS(q_rows, q_head, uint(FLEX_STEP_QUERY), at.row_end - 1, HEAD_DIM, D)
  FETCH_ROWS(g_rows, g_head, uint(FLEX_STEP_GRAD_OUT), at.row_end - 1, V_DIM, DV)
  tile = VISIT(0);
  following = VISIT(1);
  fetch_a(tile);
  fetch_b(tile);
  ROWS_TO_FRAGMENTS(own_frag, q_rows, D)
  ROWS_TO_FRAGMENTS(own_frag_v, g_rows, DV)
  barrier();  // the fragment staging has been read
  [[unroll]] for (int i = 0; i < ROW_BLOCKS * FRAGS; ++i) dq[i] = Acc(0.0);
  [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r)
    [[unroll]] for (int t = 0; t < LANE_ROWS; ++t) {
      const int row = min(row0 + r * MAT_M + lane_row() + NIBBLE(LANE_ROW_OFFSETS, t), at.row_end - 1);
      const uint64_t offset = uint64_t((int64_t(at.b) * FLEX_HEADS + at.h) * FLEX_Q_LEN + row) * 4ul;
      stats[r * LANE_ROWS + t] = usable_stats(F32Ref(FLEX_LSE + offset).v, F32Ref(FLEX_DELTA + offset).v, true);
    }
  if (STAGES == 2) {
    put_a(0);
    put_b(0);
    barrier();  // the first tile is written
  }
  const int masked = UNMASKED ? 0 : visits.divided;
  if (!UNMASKED) pass(0, masked, true);
  pass(masked, visits.count, false);

  STORE_ROWS(dq, BY_SCALE, FLEX_ROWS_GRAD_QUERY(at.b, at.h), uint(FLEX_STEP_GRAD_QUERY), at.row_end - 1, HEAD_DIM, D)
}
