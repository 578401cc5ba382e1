#pragma aule inline
// As flex_forward.glsl, on cooperative matrices of known layout: attention/parts/coopmat_forward.glsl has the products,
// and flash_attn_fwd_coopmat.comp the same loop over a band. Without score_mod, maxima are sampled from the tiles that
// mask_mod divides and from the first that it does not; if a weight may have exceeded float16, the block is computed
// again with the maxima of all tiles.
#include "inductor/flex.glsl"
#include "attention/parts/coopmat_forward.glsl"

// Uniform in this workgroup, but for row0 and staging, which are the subgroup's.
Place at;
Visits visits;
int tile, following, ahead;  // this tile of keys, the next one, and the one behind it
int bh, row0, staging, careful;
float score_scale;
Dropout dropout;
uint kept;
int kept_unit;

// score_mod, in units of log2; and -inf for the keys that mask_mod hides, or that no longer exist.
void modify(int key0) {
  [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r)
    [[unroll]] for (int c = 0; c < BLOCKS_IN_FLIGHT; ++c)
      [[unroll]] for (int e = 0; e < ELEMS; ++e)
        s[r * BLOCKS_IN_FLIGHT + c][e] = LOG2E * score_mod(s[r * BLOCKS_IN_FLIGHT + c][e] * FLEX_SCALE, at.b, at.h,
            min(FLEX_ROW(r, e), at.row_end - 1), min(FLEX_COLUMN(key0 + c * MAT_N, e), tile_last));
}
void hide(int key0, bool divided) {
  [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r)
    [[unroll]] for (int c = 0; c < BLOCKS_IN_FLIGHT; ++c)
      [[unroll]] for (int e = 0; e < ELEMS; ++e) {
        const int key = FLEX_COLUMN(key0 + c * MAT_N, e);
        const bool shown = mask_mod(at.b, at.h, min(FLEX_ROW(r, e), at.row_end - 1), min(key, tile_last));
        const bool seen = (shown || !divided) && (WHOLE_TILES || key <= tile_last);
        s[r * BLOCKS_IN_FLIGHT + c][e] = seen ? s[r * BLOCKS_IN_FLIGHT + c][e] : NEG_INF;
      }
}
void hide_end(int key0) {
  [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r)
    [[unroll]] for (int c = 0; c < BLOCKS_IN_FLIGHT; ++c)
      [[unroll]] for (int e = 0; e < ELEMS; ++e)
        s[r * BLOCKS_IN_FLIGHT + c][e] =
            FLEX_COLUMN(key0 + c * MAT_N, e) <= tile_last ? s[r * BLOCKS_IN_FLIGHT + c][e] : NEG_INF;
}

// Entries of the tables are loaded one tile before the loads that need them.
#define VISIT(i) tile_of(visits, i, FLEX_KV_BLOCK)
void pass(int from, int to, bool samples) {
  [[dont_unroll]] for (int visit = from; visit < to; ++visit) {
    const int stage = STAGES == 1 ? 0 : visit & 1;
    if (STAGES == 1) {
      put_a(0);
      put_b(0);
      barrier();  // the tile is written
    }
    ahead = VISIT(visit + 2);
    fetch_a(following);
    if (STAGES == 1 || BLOCKS == BLOCKS_IN_FLIGHT) fetch_b(following);
    [[unroll]] for (int block = 0; block < BLOCKS; block += BLOCKS_IN_FLIGHT) {
      const int key0 = tile * TILE + block * MAT_N;
      scores(stage, block);
      if (MOTION_BARRIERS > 1) MOTION_BARRIER
      if (!UNMODIFIED_SCORES) modify(key0);
      if (samples && !UNMASKED) hide(key0, visit < visits.divided);
      if ((!samples || UNMASKED) && !WHOLE_TILES) hide_end(key0);
      if (samples || !UNMODIFIED_SCORES) rescale();
      weigh(stage, block, key0);
      if (MOTION_BARRIERS > 0) MOTION_BARRIER
      if (STAGES == 2 && BLOCKS != BLOCKS_IN_FLIGHT && block + BLOCKS_IN_FLIGHT >= BLOCKS / 2 && block < BLOCKS / 2) {
        put_a(stage ^ 1);
        fetch_b(following);
      }
    }
    if (STAGES == 2 && BLOCKS == BLOCKS_IN_FLIGHT) put_a(stage ^ 1);
    if (STAGES == 2) put_b(stage ^ 1);
    tile = following;
    following = ahead;
    barrier();  // the tile has been read, and with two stages the next one is written
  }
}

void first_tiles() {
  tile = VISIT(0);
  following = VISIT(1);
  fetch_a(tile);
  fetch_b(tile);
}

#define BY_SUM(r, e) inverse[(r) * LANE_ROWS + LANE_ROW_OF(e)]
void store_result() {
  float inverse[ROW_BLOCKS * LANE_ROWS];
  [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r)
    [[unroll]] for (int t = 0; t < LANE_ROWS; ++t) {
      const int i = r * LANE_ROWS + t, row = row0 + r * MAT_M + lane_row() + NIBBLE(LANE_ROW_OFFSETS, t);
      const float sum = row_sum(l[i]);
      inverse[i] = sum == 0.0 ? 0.0 : TRUNCATION_BIAS / sum;  // a row that sees nothing is 0
      if (lane() % LANES_PER_ROW == 0 && row < at.row_end) {
        const uint64_t stat = uint64_t((int64_t(at.b) * FLEX_HEADS + at.h) * FLEX_Q_LEN + row) * 4ul;
        FLEX_STORE_STATS(stat, sum == 0.0 ? NEG_INF : m[i] + log2(sum), m[i]);
      }
    }
  STORE_ROWS(o, BY_SUM, FLEX_ROWS_OUT(at.b, at.h), uint(FLEX_STEP_OUT), at.row_end - 1, V_DIM, DV)
}

void main() {
  if (!take_place(at, FLEX_Q_LEN, FLEX_Q_BLOCK, FLEX_HEADS, FLEX_GROUPS)) return;  // whole workgroups
  const int kv_h = at.h / (FLEX_HEADS / FLEX_KV_HEADS);
  visits = visits_of(at.b, at.h, at.block, FLEX_KV_LEN, FLEX_KV_BLOCK);
  row0 = at.first + int(gl_SubgroupID) * ROW_BLOCKS * MAT_M;
  staging = int(gl_SubgroupID) * STAGING_SIZE;
  tile_last = FLEX_KV_LEN - 1;
  a_base = FLEX_ROWS_KEY(at.b, kv_h);
  b_base = FLEX_ROWS_VALUE(at.b, kv_h);
  score_scale = UNMODIFIED_SCORES ? FLEX_SCALE * LOG2E : 1.0;
  const uint64_t q_head = FLEX_ROWS_QUERY(at.b, at.h);
  FETCH_ROWS(q_rows, q_head, uint(FLEX_STEP_QUERY), at.row_end - 1, HEAD_DIM, D)
  first_tiles();
  ROWS_TO_FRAGMENTS(q_frag, q_rows, D)
  barrier();  // the fragment staging has been read

  // Each row has a key in a sampled tile: all rows see the first tile that mask_mod does not divide.
  careful = UNMASKED ? 1 : visits.divided + 1;
  overflows[0] = 0.0;
  [[dont_unroll]] for (int attempt = 0; attempt < 2; ++attempt) {
    [[unroll]] for (int i = 0; i < ROW_BLOCKS * FRAGS_V; ++i) o[i] = Acc(0.0);
    [[unroll]] for (int i = 0; i < ROW_BLOCKS * LANE_ROWS; ++i) {
      m[i] = LOWEST;
      l[i] = 0.0;  // this lane's elements only
    }
    if (STAGES == 2) {
      put_a(0);
      put_b(0);
      barrier();  // the first tile is written
    }
    if (attempt == 1) careful = visits.count;
    careful = min(careful, visits.count);
    pass(0, careful, true);
    pass(careful, visits.count, false);
    if (!UNMODIFIED_SCORES) break;
    bool over = false;
    [[unroll]] for (int i = 0; i < ROW_BLOCKS * LANE_ROWS; ++i) over = over || !(l[i] <= MOST);
    if (over) overflows[0] = 1.0;
    barrier();  // every lane has written it
    if (overflows[0] == 0.0) break;
    first_tiles();
  }

  store_result();
}
