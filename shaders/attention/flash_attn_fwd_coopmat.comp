#pragma aule axis T float16_t bfloat16_t
#pragma aule feature cooperative_matrix
#pragma aule feature subgroup_shuffle
#pragma aule feature subgroup_ballot
#pragma aule feature float16
#pragma aule feature bfloat16 if T=bfloat16_t
#pragma aule params wide
#pragma aule inline
// O = softmax(scale * Q K^T + bias) V, FlashAttention-2 forward (Dao 2023) on cooperative matrices of known layout.
//
// Workgroup (block of BLOCK queries, b, h), heavy causal blocks first. Q fragments stay in registers, K and V tiles
// pass through registers into shared memory. Scores are in log2 units. O and l are sums of P = 2^(s - m), with m the
// row's reference maximum, sampled from few tiles. If a P may have exceeded float16, the block is computed again with
// the maxima of all tiles: docs/attention.md, "Sampled maxima". With bias or soft cap, all tiles are sampled; ALiBi's
// bias is linear on each side of the diagonal, and joins the exponents of tiles that are not.
//   STAGES 1: write tile | barrier | start loads of the next tile | S, exponentials, O += P V | barrier
//   STAGES 2: start load of next K | first half | write next K, start load of next V | second half | write next V |
//             barrier; a tile of one step: start loads of next K and V | S, exponentials, O += P V | write | barrier
// Deterministic. What was tried, and what it gave: docs/ladders/flash_attn_fwd_coopmat.md
#define ATTENTION_ADDRESSES out_, logsumexp, pages
#define ATTENTION_STRIDES out_stride[3]
#define ATTENTION_PAGED
#include "attention/coopmat.glsl"
#include "attention/coopmat_tiles.glsl"
#include "attention/coopmat_dropout.glsl"
#define SCORES_BEGIN(i) if (LINEAR_BIAS) s[i] = columns; else s[i] = Acc(0.0);
#define EXPONENT_OF(r, c, e)                                                                                           \
  (!LINEAR_BIAS ? -m[(r) * LANE_ROWS + LANE_ROW_OF(e)]                                                                 \
   : (c) == 0   ? from_diagonal[(r) * LANE_ROWS + LANE_ROW_OF(e)]                                                      \
                : fma(side, float((c) * MAT_N), from_diagonal[(r) * LANE_ROWS + LANE_ROW_OF(e)]))
const bool LINEAR_BIAS = ALIBI && UNMODIFIED_SCORES;
float side;                                   // LINEAR_BIAS: by what the exponent grows with the key
Acc columns;                                  // that of a block's columns, from this lane's first on, in units of scores
float from_diagonal[ROW_BLOCKS * LANE_ROWS];  // the exponent of a row at this lane's first column, without the score
#include "attention/coopmat_forward.glsl"
#extension GL_KHR_shader_subgroup_ballot : require

// Uniform in this workgroup, but for row0 and staging, which are the subgroup's.
int b, h, bh, row0, staging;
int begin, end, last_tile, begin_tile, visits;  // tiles of keys
int turn, upcoming;                             // if BLOCK_MASK: how many were visited, and the next visit
int block_end;                                  // WHOLE_BLOCKS: the visit after the last one of that block
int nearest_tile;                               // LINEAR_BIAS: the first one around the diagonal, but for `begin`
int mask_chunk = -1;                            // WHOLE_BLOCKS: whose bits `mask_bits` has
uint mask_bits;
int block_first, block_last;                    // rows of this workgroup
uint64_t bias_base;
float score_scale;
Dropout dropout;
uint kept;  // of the unit of kept_unit
int kept_unit = -1;

// modify: bias and soft cap. hide: keys outside the band and beyond the last.
void modify(int key0) {
  [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r)
    [[unroll]] for (int c = 0; c < BLOCKS_IN_FLIGHT; ++c)
      [[unroll]] for (int e = 0; e < ELEMS; ++e) {
        const int row = min(row0 + r * MAT_M + lane_row() + NIBBLE(ELEM_ROWS, e), last_query());
        const int key = min(key0 + c * MAT_N + lane_col() + NIBBLE(ELEM_COLS, e), tile_last);
        s[r * BLOCKS_IN_FLIGHT + c][e] =
            modified_score(s[r * BLOCKS_IN_FLIGHT + c][e], BIAS_DTYPE >= 0 ? bias_at(bias_base, row, key) :
            uint64_t(0), row, key);
      }
}
void hide(int key0) {
  [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r) {
    int most[LANE_ROWS], least[LANE_ROWS];  // visible elements are in [least, most], both relative to this lane's first
    [[unroll]] for (int t = 0; t < LANE_ROWS; ++t) {
      const int diagonal = row0 + r * MAT_M + lane_row() + NIBBLE(LANE_ROW_OFFSETS, t) + mask_diagonal();
      most[t] = min(tile_last, diagonal + p.right) - key0 - lane_col();
      least[t] = diagonal - p.left - key0 - lane_col();
    }
    [[unroll]] for (int c = 0; c < BLOCKS_IN_FLIGHT; ++c)
      [[unroll]] for (int e = 0; e < ELEMS; ++e) {
        const int key = c * MAT_N + NIBBLE(ELEM_COLS, e);
        bool hidden = key > most[LANE_ROW_OF(e)];
        if (BOUNDED_LEFT) hidden = hidden || key < least[LANE_ROW_OF(e)];
        s[r * BLOCKS_IN_FLIGHT + c][e] = hidden ? NEG_INF : s[r * BLOCKS_IN_FLIGHT + c][e];
      }
  }
}

// LINEAR_BIAS, of tiles of which the bias has its maximum: the bias, in units of scores.
void bend(int key0) {
  const float slope = -head_slope / p.scale;
  const float at = float(key0 + lane_col() - row0 - lane_row() - mask_diagonal());
  [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r)
    [[unroll]] for (int c = 0; c < BLOCKS_IN_FLIGHT; ++c)
      [[unroll]] for (int e = 0; e < ELEMS; ++e) {
        const float step = float(c * MAT_N + NIBBLE(ELEM_COLS, e) - r * MAT_M - NIBBLE(ELEM_ROWS, e));
        s[r * BLOCKS_IN_FLIGHT + c][e] = fma(slope, abs(at + step), s[r * BLOCKS_IN_FLIGHT + c][e]);
      }
}
void lean(float by) {
  side = by;
  [[unroll]] for (int e = 0; e < ELEMS; ++e) columns[e] = by / score_scale * float(NIBBLE(ELEM_COLS, e));
}
void begin_exponents(int key0) {
  const float at = float(key0 + lane_col() - row0 - lane_row() - mask_diagonal());
  [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r)
    [[unroll]] for (int t = 0; t < LANE_ROWS; ++t)
      from_diagonal[r * LANE_ROWS + t] =
          fma(side, at - float(r * MAT_M + NIBBLE(LANE_ROW_OFFSETS, t)), -m[r * LANE_ROWS + t]);
}

// Tiles that are whole in a block of the mask, of rows that are whole in one: bits of MASK_CHUNK blocks say which ones.
const bool WHOLE_BLOCKS = BLOCK_MASK && UNMODIFIED_SCORES;
const int MASK_CHUNK = SUBGROUP < 32 ? SUBGROUP : 32;
void load_mask_bits(int chunk) {
  const int block = chunk * MASK_CHUNK + lane() % MASK_CHUNK, last = bias_column_of(last_key());
  mask_chunk = chunk;
  mask_bits = subgroupBallot(keeps_block(bias_base, bias_row_of(block_first), min(block, last)) && block <= last).x;
}

// Visits are those of the tiles [begin, end): the first tile, then the others from the last on; with a linear bias from
// the diagonal on, and after the last one from the first on.
#define FROM_DIAGONAL(visit) (nearest_tile - 1 + (visit))
#define TILE_OF(visit)                                                                                                 \
  ((visit) == 0     ? begin                                                                                            \
   : !LINEAR_BIAS ? end - (visit)                                                                                      \
                  : FROM_DIAGONAL(visit) - (FROM_DIAGONAL(visit) < end ? 0 : end - begin - 1))
// `upcoming` := the first visit from `visit` on of a tile that a block mask keeps; `visits` if there is none.
void find_kept(int visit) {
  upcoming = visit;
  bool looks = WHOLE_BLOCKS;
  [[dont_unroll]] while (looks && upcoming < visits) {
    const int block = bias_column_of((end - upcoming) * TILE), chunk = block / MASK_CHUNK;
    if (chunk != mask_chunk) load_mask_bits(chunk);
    const uint before = mask_bits & 0xffffffffu >> (31 - block % MASK_CHUNK);  // and the block itself
    const int nearest = before == 0u ? chunk * MASK_CHUNK - 1 : chunk * MASK_CHUNK + findMSB(before);
    looks = before == 0u;
    if (nearest != block) upcoming = min(end + 1 - (nearest + 1) * MASK_KEYS / TILE, visits);  // its last tile
    block_end = end + 1 - nearest * MASK_KEYS / TILE;
  }
  [[dont_unroll]] while (!WHOLE_BLOCKS && upcoming < visits && kept_tile(bias_base, block_first, block_last,
      TILE_OF(upcoming), TILE_OF(upcoming) + 1) != TILE_OF(upcoming)) ++upcoming;
  if (!WHOLE_BLOCKS) block_end = upcoming + 1;
}

// Visits [from, to) that a block mask keeps; `upcoming` is the next one, which may be after `to`. They are made in runs
// that the mask does not divide: looking for the next tile in the loop over tiles took a quarter of it.
void pass(int from, int to, bool careful) {
  int run = from;
  [[dont_unroll]] do {
    int run_end = to;
    if (BLOCK_MASK) {
      if (run < to) {
        run_end = min(to, block_end);
        find_kept(run_end);
      }
    }
    [[dont_unroll]] for (int visit = run; visit < run_end; ++visit) {
      const int next = BLOCK_MASK && visit + 1 == run_end ? upcoming : visit + 1;
      const int tile = TILE_OF(visit), following = TILE_OF(min(next, visits - 1));
      const int stage = STAGES == 1 ? 0 : (BLOCK_MASK ? turn++ : visit) & 1;
      if (STAGES == 1) {
        put_a(0);
        put_b(0);
        barrier();  // the tile is written
      }
      fetch_a(following);
      if (STAGES == 1 || BLOCKS == BLOCKS_IN_FLIGHT) fetch_b(following);
      [[unroll]] for (int block = 0; block < BLOCKS; block += BLOCKS_IN_FLIGHT) {
        const int key0 = tile * TILE + block * MAT_N;
        scores(stage, block);
        if (MOTION_BARRIERS > 1) MOTION_BARRIER
        if (!UNMODIFIED_SCORES) modify(key0);
        if (careful && LINEAR_BIAS) bend(key0);
        if (careful && !UNMASKED) hide(key0);
        if (careful || !UNMODIFIED_SCORES) rescale();
        if (LINEAR_BIAS) begin_exponents(key0);
        weigh(stage, block, key0);
        if (MOTION_BARRIERS > 0) MOTION_BARRIER
        if (STAGES == 2 && BLOCKS != BLOCKS_IN_FLIGHT && block + BLOCKS_IN_FLIGHT >= BLOCKS / 2 && block < BLOCKS / 2) {
          put_a(stage ^ 1);
          fetch_b(following);
        }
      }
      if (STAGES == 2 && BLOCKS == BLOCKS_IN_FLIGHT) put_a(stage ^ 1);
      if (STAGES == 2) put_b(stage ^ 1);
      barrier();  // the tile has been read, and with two stages the next one is written
    }
    run = upcoming;
  } while (BLOCK_MASK && run < to);
}

// The stationary fragments of Q, and the loads of the first tile.
void load_queries() {
  const uint64_t q_head = query_rows(p.query, p.query_stride, b, h);
  if (FROM_GLOBAL) {
    fetch_a(begin_tile);
    fetch_b(begin_tile);
    LOAD_FRAGMENTS(q_frag, q_head, uint(p.query_stride[2]), D)
  } else {  // all loads are issued before the first is used
    FETCH_ROWS(q_rows, q_head, uint(p.query_stride[2]) * 2u, last_query(), p.head_dim, D)
    fetch_a(begin_tile);
    fetch_b(begin_tile);
    ROWS_TO_FRAGMENTS(q_frag, q_rows, D)
    barrier();  // the fragment staging has been read
  }
}

// With a linear bias: all tiles around the diagonal are sampled, since each row has its least bias there, then tiles on
// its right that all rows see, those that some row sees in part, and tiles on its left.
void visit_from_diagonal(int last, int full_begin, int full_end, bool all) {
  const int most = max(end, nearest_tile);
  const int diagonal_end = clamp((max(last + mask_diagonal(), 0) + TILE - 1) / TILE, nearest_tile, most);
  const int right_end = clamp(full_end, diagonal_end, most);
  const int left_begin = BOUNDED_LEFT ? clamp(full_begin, begin + 1, nearest_tile) : begin + 1;
  const int sampled = all ? visits : min(1 + diagonal_end - nearest_tile, visits);
  const int right = all ? visits : min(1 + right_end - nearest_tile, visits);
  const int partial = all ? visits : min(1 + end - nearest_tile + left_begin - (begin + 1), visits);
  [[dont_unroll]] for (int part = 0; part < 2; ++part) {
    lean(0.0);
    pass(part == 0 ? 0 : right, part == 0 ? sampled : partial, true);
    lean(part == 0 ? -head_slope * LOG2E : head_slope * LOG2E);
    pass(part == 0 ? sampled : partial, part == 0 ? right : visits, false);
  }
}

#define BY_SUM(r, e) inverse[(r) * LANE_ROWS + LANE_ROW_OF(e)]
void store_result() {
  const float factor = (DROPOUT ? p.dropout_scale / float(RUN) : 1.0) * TRUNCATION_BIAS;
  float inverse[ROW_BLOCKS * LANE_ROWS];
  [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r)
    [[unroll]] for (int t = 0; t < LANE_ROWS; ++t) {
      const float sum = row_sum(l[r * LANE_ROWS + t]);
      const int row = row0 + r * MAT_M + lane_row() + NIBBLE(LANE_ROW_OFFSETS, t);
      inverse[r * LANE_ROWS + t] = sum == 0.0 ? 0.0 : factor / sum;  // a row that sees nothing is 0
      if (lane() % LANES_PER_ROW == 0 && row <= last_query())
        F32Ref(p.logsumexp + uint64_t(stats_index(bh, row)) * 4).v = sum == 0.0 ? NEG_INF :
            (m[r * LANE_ROWS + t] + log2(sum)) * LN2;
    }
  STORE_ROWS(o, BY_SUM, query_rows(p.out_, p.out_stride, b, h), uint(p.out_stride[2]) * 2u, last_query(), p.v_dim, DV)
}

void main() {
#include "attention/coopmat_query_block.glsl"
  score_scale = UNMODIFIED_SCORES ? p.scale * LOG2E : 1.0;
  begin_tile = min(begin, last_tile);
  visits = end - begin;
  staging = subgroup * STAGING_SIZE;
  if (LINEAR_BIAS) nearest_tile =
      clamp(max(block_first + mask_diagonal() + 1, 0) / TILE, begin + 1, max(min(end, full_end), begin + 1));
  load_queries();

  // Sampled tiles: the first, where some models' largest scores are, and those that some row sees in part. If there is
  // none of these, the last tile that all rows see, so that each row has a key in a sampled tile.
  int careful = UNMASKED ? 1 : 1 + end - max(begin + 1, min(full_end, (keys_end(first) - 1) / TILE));
  const int seen_whole = BOUNDED_LEFT ? min(visits, end - full_begin + 1) : visits;
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
    if (BLOCK_MASK && !UNMASKED || attempt == 1) careful = visits;
    turn = upcoming = 0;
    block_end = 1;  // the first tile is not where the others begin
    careful = min(careful, visits);  // before the loop it takes 5 % of causal D 64
    if (LINEAR_BIAS) {
      visit_from_diagonal(block_last, full_begin, full_end, attempt == 1);
    } else {
      pass(0, careful, true);
      pass(BLOCK_MASK ? upcoming : careful, seen_whole, false);
      if (BOUNDED_LEFT) pass(max(careful, seen_whole), visits, true);
    }
    if (!UNMODIFIED_SCORES) break;
    bool over = false;
    [[unroll]] for (int i = 0; i < ROW_BLOCKS * LANE_ROWS; ++i) over = over || !(l[i] <= MOST);
    if (over) overflows[0] = 1.0;
    barrier();  // every lane has written it
    if (overflows[0] == 0.0) break;
    fetch_a(begin_tile);
    fetch_b(begin_tile);
  }

  store_result();
}
