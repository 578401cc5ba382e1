#pragma aule inline
// As flex_dkdv.glsl, on cooperative matrices of known layout: flash_attn_bwd_dkdv_coopmat.comp has the same loop over a
// band. K and V fragments stay in registers, tiles of Q and dO pass, for every head of the key head in turn.
#include "inductor/flex.glsl"
#include "inductor/flex_backward_coopmat.glsl"

const int STATS_LOADS = (TILE + LOCAL - 1) / LOCAL;
shared vec2 row_stats[STAGES * TILE];  // {log-sum-exp in log2 units, delta} of the tile's queries

Acc dk[ROW_BLOCKS * FRAGS], dv[ROW_BLOCKS * FRAGS_V];
vec2 next_stats[STATS_LOADS];

// Uniform in this workgroup, but for row0 and staging, which are the subgroup's.
Place at;
Visits visits;
int tile, following, ahead;  // this tile of queries, the next one, and the one behind it
int h, row0, staging;
uint64_t stats_row;

void fetch_stats(int tile) {
  [[unroll]] for (int i = 0; i < STATS_LOADS; ++i) {
    const int row = tile * TILE + int(gl_LocalInvocationIndex) + i * LOCAL;
    const uint64_t offset = stats_row + uint64_t(uint(min(row, tile_last))) * 4ul;
    next_stats[i] = usable_stats(F32Ref(FLEX_LSE + offset).v, F32Ref(FLEX_DELTA + offset).v, row <= tile_last);
  }
}
void put_stats(int stage) {
  [[unroll]] for (int i = 0; i < STATS_LOADS; ++i) {
    const int e = int(gl_LocalInvocationIndex) + i * LOCAL;
    if (TILE % LOCAL == 0 || e < TILE) row_stats[stage * TILE + e] = next_stats[i];
  }
}

// dV += P^T dO, dK += dS^T Q.
void accumulate(int stage, int block, int query0, bool divided) {
  MatA weight[ROW_BLOCKS], ds[ROW_BLOCKS];
  [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r) {
    [[unroll]] for (int e = 0; e < ELEMS; ++e) {
      const vec2 stats = row_stats[stage * TILE + block * MAT_N + lane_col() + NIBBLE(ELEM_COLS, e)];
      const int n = min(FLEX_ROW(r, e), at.row_end - 1), m = min(FLEX_COLUMN(query0, e), tile_last);
      const float score = s[r][e] * FLEX_SCALE;
      float x = fma(s[r][e], FLEX_SCALE * LOG2E, -stats.x);
      if (!UNMODIFIED_SCORES) x = score_mod(score, at.b, h, m, n) * LOG2E - stats.x;
      if (divided) {
        const bool shown = mask_mod(at.b, h, m, n);
        x = shown ? x : NEG_INF;
      }
      const float prob = exp2(x);
      float d = prob * (dp[r][e] - stats.y);
      if (!UNMODIFIED_SCORES) {
        const float modified = score_grad(score, at.b, h, m, n, d, false);
        d = prob == 0.0 ? 0.0 : modified;
      }
      PUT_A(weight[r], 0, e, prob)
      PUT_A(ds[r], 1, e, d)
    }
    TAKE_A(weight[r], 0)
    TAKE_A(ds[r], 1)
  }
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

// Entries of the tables are loaded one tile before the loads that need them.
#define VISIT(i) tile_of(visits, i, FLEX_Q_BLOCK)
void pass(int from, int to, bool divided) {
  [[dont_unroll]] for (int visit = from; visit < to; ++visit) {
    const int stage = STAGES == 1 ? 0 : visit & 1;
    ahead = VISIT(visit + 2);
    fetch_a(following);
    fetch_b(following);
    fetch_stats(following);
    [[unroll]] for (int block = 0; block < BLOCKS; ++block) {
      products(stage, block);
      accumulate(stage, block, tile * TILE + block * MAT_N, divided);
    }
    tile = following;
    following = ahead;
    if (STAGES == 1) barrier();  // the tile has been read
    put_a(STAGES == 1 ? 0 : stage ^ 1);
    put_b(STAGES == 1 ? 0 : stage ^ 1);
    put_stats(STAGES == 1 ? 0 : stage ^ 1);
    barrier();  // the next tile is written, and this one has been read
  }
}

#define BY_SCALE(r, e) (FLEX_SCALE * TRUNCATION_BIAS)
#define BY_ONE(r, e) TRUNCATION_BIAS
void main() {
  if (!take_place(at, FLEX_KV_LEN, FLEX_KV_BLOCK, FLEX_KV_HEADS, FLEX_GROUPS)) return;  // whole workgroups
  row0 = at.first + int(gl_SubgroupID) * ROW_BLOCKS * MAT_M;
  staging = int(gl_SubgroupID) * STAGING_SIZE;
  tile_last = FLEX_Q_LEN - 1;
  const uint64_t k_head = FLEX_ROWS_KEY(at.b, at.h), v_head = FLEX_ROWS_VALUE(at.b, at.h);
  FETCH_ROWS(k_rows, k_head, uint(FLEX_STEP_KEY), at.row_end - 1, HEAD_DIM, D)
  FETCH_ROWS(v_rows, v_head, uint(FLEX_STEP_VALUE), at.row_end - 1, V_DIM, DV)
  ROWS_TO_FRAGMENTS(own_frag, k_rows, D)
  ROWS_TO_FRAGMENTS(own_frag_v, v_rows, DV)
  [[unroll]] for (int i = 0; i < ROW_BLOCKS * FRAGS; ++i) dk[i] = Acc(0.0);
  [[unroll]] for (int i = 0; i < ROW_BLOCKS * FRAGS_V; ++i) dv[i] = Acc(0.0);

  [[dont_unroll]] for (int member = 0; member < FLEX_HEADS / FLEX_KV_HEADS; ++member) {
    h = at.h * (FLEX_HEADS / FLEX_KV_HEADS) + member;
    visits = visits_of(at.b, h, at.block, FLEX_Q_LEN, FLEX_Q_BLOCK);
    a_base = FLEX_ROWS_QUERY(at.b, h);
    b_base = FLEX_ROWS_GRAD_OUT(at.b, h);
    stats_row = uint64_t((int64_t(at.b) * FLEX_HEADS + h) * FLEX_Q_LEN) * 4ul;
    tile = VISIT(0);
    following = VISIT(1);
    fetch_a(tile);
    fetch_b(tile);
    fetch_stats(tile);
    barrier();  // the fragment staging, or the last tile of the head before, have been read
    put_a(0);
    put_b(0);
    put_stats(0);
    barrier();  // the first tile is written
    const int masked = UNMASKED ? 0 : visits.divided;
    if (!UNMASKED) pass(0, masked, true);
    pass(masked, visits.count, false);
  }

  barrier();  // the last tile has been read
  STORE_ROWS(dk, BY_SCALE, FLEX_ROWS_GRAD_KEY(at.b, at.h), uint(FLEX_STEP_GRAD_KEY), at.row_end - 1, HEAD_DIM, D)
  STORE_ROWS(dv, BY_ONE, FLEX_ROWS_GRAD_VALUE(at.b, at.h), uint(FLEX_STEP_GRAD_VALUE), at.row_end - 1, V_DIM, DV)
}
