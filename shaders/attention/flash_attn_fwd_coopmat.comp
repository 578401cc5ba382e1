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
// the maxima of all tiles: docs/use/attention.md, "Sampled maxima". With bias or soft cap, all tiles are sampled;
// ALiBi's bias is linear on each side of the diagonal, and joins the exponents of tiles that are not.
//   STAGES 1: write tile | barrier | start loads of the next tile | S, exponentials, O += P V | barrier
//   STAGES 2: start load of next K | first half | write next K, start load of next V | second half | write next V |
//             barrier; a tile of one step: start loads of next K and V | S, exponentials, O += P V | write | barrier
// Deterministic. What was tried, and what it gave: docs/ladders/flash_attn_fwd_coopmat.md
#define ATTENTION_ADDRESSES out_, logsumexp, pages
#define ATTENTION_STRIDES out_stride[3]
#define ATTENTION_PAGED
#include "attention/parts/coopmat.glsl"
#define FIRST_STORED (block_first + BLOCK == p.q_len ? (p.q_len - 1) / BLOCK * BLOCK : block_first)
#include "attention/parts/coopmat_tiles.glsl"
#include "attention/parts/coopmat_dropout.glsl"
#define SCORES_BEGIN(i)                                                                                                \
  if (LINEAR_BIAS) { [[unroll]] for (int e = 0; e < ELEMS; ++e) s[i][e] = lean * float(NIBBLE(ELEM_COLS, e)); }        \
  else s[i] = Acc(0.0);
#define EXPONENT_OF(r, c, e)                                                                                           \
  (!LINEAR_BIAS ? -m[(r) * LANE_ROWS + LANE_ROW_OF(e)]                                                                 \
   : (c) == 0   ? from_diagonal[(r) * LANE_ROWS + LANE_ROW_OF(e)]                                                      \
                : fma(side, float((c) * MAT_N), from_diagonal[(r) * LANE_ROWS + LANE_ROW_OF(e)]))
const bool LINEAR_BIAS = ALIBI && UNMODIFIED_SCORES;
float side, lean;                             // LINEAR_BIAS: by what the exponent grows with the key, the score does
float from_diagonal[ROW_BLOCKS * LANE_ROWS];  // the exponent of a row at this lane's first column, without the score
#include "attention/parts/coopmat_forward.glsl"
#extension GL_KHR_shader_subgroup_ballot : require

// Uniform in this workgroup, but for row0 and staging, which are the subgroup's.
int b, h, bh, row0, staging;
int begin, end, last_tile, begin_tile, visits;  // tiles of keys
int careful, seen_whole;        // parts of the visits: divide_visits()
int turn, upcoming;             // BLOCK_MASK without LISTED_BLOCKS: how many were visited, and the next visit
int listed_end;                 // LISTED_BLOCKS: the last tile of the blocks in the list, plus one, counted in it
int nearest_tile;               // LINEAR_BIAS: the first one around the diagonal, but for `begin`
int right_partial, right_full;  // LINEAR_BIAS: tiles from there on that some rows see in part, and that all rows see
int block_first, block_last;    // rows of this workgroup
uint64_t bias_base;
float score_scale;
Dropout dropout;
uint kept;  // of the unit of kept_unit
int kept_unit = -1;

// modify: bias and soft cap. hide: keys outside the band, beyond the last, and before `shared_end`, which a last tile
// that was moved shares with the tile before.
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
void hide(int key0, int shared_end) {
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
        if (MOVES_LAST_TILE) hidden = hidden || key < shared_end - key0 - lane_col();
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
void begin_exponents(int key0) {
  const float at = float(key0 + lane_col() - row0 - lane_row() - mask_diagonal());
  [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r)
    [[unroll]] for (int t = 0; t < LANE_ROWS; ++t)
      from_diagonal[r * LANE_ROWS + t] =
          fma(side, at - float(r * MAT_M + NIBBLE(LANE_ROW_OFFSETS, t)), -m[r * LANE_ROWS + t]);
}

// Tiles that are whole in a block of the mask, of rows that are whole in one: the kept blocks are listed once. Looking
// for the next one in the loop over tiles takes registers that it does not have.
#define LISTED_BLOCKS (LISTED > 0)
const int TILES_OF_BLOCK = LISTED_BLOCKS ? MASK_KEYS / TILE : 1;
shared uint listed[LISTED_BLOCKS ? LISTED : 4];
void list_blocks() {
  const int chunk = SUBGROUP < 32 ? SUBGROUP : 32, stop = (end + TILES_OF_BLOCK - 1) / TILES_OF_BLOCK;
  int count = 0;
  [[dont_unroll]] for (int at = begin / TILES_OF_BLOCK; at < stop; at += chunk) {
    const int block = at + lane() % chunk;
    const bool keeps = keeps_block(bias_base, bias_row_of(block_first), min(block, stop - 1)) && block < stop;
    const uint bits = subgroupBallot(keeps).x;
    if (keeps && gl_SubgroupID == 0u && lane() < chunk) listed[count + bitCount(bits & ((1u << lane()) - 1u))] =
        uint(block);
    count += bitCount(bits);
  }
  barrier();  // the list is written
  visits = 0;
  if (count > 0) {
    const int first = int(listed[0]) * TILES_OF_BLOCK, last = int(listed[count - 1]) * TILES_OF_BLOCK;
    begin = max(begin, first);
    listed_end = count * TILES_OF_BLOCK - max(last + TILES_OF_BLOCK - end, 0);
    visits = listed_end - (begin - first);
  }
}

// Visits: the first tile, then the others from the last on. With a linear bias: the first tile, those on the right that
// some rows see in part, those from the diagonal on that all rows see, and those before the diagonal, from it on.
#define LISTED_TILE(i) (int(listed[(i) / TILES_OF_BLOCK]) * TILES_OF_BLOCK + (i) % TILES_OF_BLOCK)
#define TILE_OF(visit)                                                                                                 \
  ((visit) == 0                                 ? begin                                                                \
   : LISTED_BLOCKS                              ? LISTED_TILE(listed_end - (visit))                                    \
   : !LINEAR_BIAS || (visit) <= right_partial   ? end - (visit)                                                        \
   : (visit) <= right_partial + right_full      ? nearest_tile - 1 - right_partial + (visit)                           \
                                                : nearest_tile + right_partial + right_full - (visit))
// `upcoming` := the first visit from `visit` on of a tile that a block mask keeps; `visits` if there is none.
void find_kept(int visit) {
  upcoming = visit;
  [[dont_unroll]] while (upcoming < visits && kept_tile(bias_base, block_first, block_last, TILE_OF(upcoming),
      TILE_OF(upcoming) + 1) != TILE_OF(upcoming)) ++upcoming;
}

// Visits [from, to). Of a block mask that is not listed, those that it keeps; `upcoming` is the next one, which may be
// after `to`.
void pass(int from, int to, bool sampled) {
  int next;
  [[dont_unroll]] for (int visit = from; visit < to; visit = next) {
    next = visit + 1;
    if (BLOCK_MASK && !LISTED_BLOCKS) {
      find_kept(next);
      next = upcoming;
    }
    const int tile = TILE_OF(visit), following = TILE_OF(min(next, visits - 1));
    const int stage = STAGES == 1 ? 0 : (BLOCK_MASK && !LISTED_BLOCKS ? turn++ : visit) & 1;
    if (STAGES == 1) {
      put_a(0);
      put_b(0);
      barrier();  // the tile is written
    }
    fetch_a(following);
    if (STAGES == 1 || BLOCKS == BLOCKS_IN_FLIGHT) fetch_b(following);
    if (LINEAR_BIAS) {
      side = sampled ? 0.0 : tile < nearest_tile ? head_slope * LOG2E : -head_slope * LOG2E;
      lean = side / score_scale;
    }
    [[unroll]] for (int block = 0; block < BLOCKS; block += BLOCKS_IN_FLIGHT) {
      const int key0 = FIRST_ROW(tile) + block * MAT_N;
      scores(stage, block);
      if (MOTION_BARRIERS > 1) MOTION_BARRIER
      if (!UNMODIFIED_SCORES) modify(key0);
      if (sampled && LINEAR_BIAS) bend(key0);
      if (sampled && !UNMASKED) hide(key0, tile * TILE);
      if (sampled || !UNMODIFIED_SCORES) rescale();
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
}

// The tiles to visit, the stationary fragments of Q, and the loads of the first tile.
void find_tiles() {
  visits = end - begin;
  if (LISTED_BLOCKS) list_blocks();
  begin_tile = min(begin, last_tile);
}
void load_queries() {
  const uint64_t q_head = query_rows(p.query, p.query_stride, b, h);
  if (FROM_GLOBAL) {
    find_tiles();
    fetch_a(begin_tile);
    fetch_b(begin_tile);
    LOAD_FRAGMENTS(q_frag, q_head, uint(p.query_stride[2]), D)
  } else {  // all loads are issued before the first is used
    FETCH_ROWS(q_rows, q_head, uint(p.query_stride[2]) * 2u, last_query(), p.head_dim, D)
    find_tiles();
    fetch_a(begin_tile);
    fetch_b(begin_tile);
    ROWS_TO_FRAGMENTS(q_frag, q_rows, D)
    barrier();  // the fragment staging has been read
  }
}

// Visits [0, careful) are sampled, and those from `seen_whole` on are of tiles that some row sees in part. Sampled are
// the first tile, where some models' largest scores are, and those that some row sees in part. If there is none of
// these, the last tile that all rows see, so that each row has a key in a sampled tile. With a linear bias also those
// around the diagonal, where it is least.
void divide_visits(int first, int last, int full_begin, int full_end) {
  careful = UNMASKED ? 1 : 1 + end - max(begin + 1, min(full_end, (keys_end(first) - 1) / TILE));
  int left_partial = BOUNDED_LEFT ? max(full_begin - begin - 1, 0) : 0;
  if (LINEAR_BIAS) {
    nearest_tile = clamp(max(first + mask_diagonal() + 1, 0) / TILE, begin + 1, max(min(end, full_end), begin + 1));
    const int right_end = clamp(full_end, nearest_tile, max(end, nearest_tile));
    const int diagonal_end = (max(last + mask_diagonal(), 0) + TILE - 1) / TILE;
    right_partial = max(end - right_end, 0);
    right_full = right_end - nearest_tile;
    careful = 1 + right_partial + clamp(diagonal_end - nearest_tile, 0, right_full);
    left_partial = BOUNDED_LEFT ? max(min(full_begin, nearest_tile) - begin - 1, 0) : 0;
  }
  seen_whole = visits - left_partial;
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
      if (lane() % LANES_PER_ROW == 0 && row <= last_query() && (!MOVES_LAST_BLOCK || row >= FIRST_STORED))
        F32Ref(p.logsumexp + uint64_t(stats_index(bh, row)) * 4).v = sum == 0.0 ? NEG_INF :
            (m[r * LANE_ROWS + t] + log2(sum)) * LN2;
    }
  STORE_ROWS(o, BY_SUM, query_rows(p.out_, p.out_stride, b, h), uint(p.out_stride[2]) * 2u, last_query(), p.v_dim, DV)
}

void main() {
#include "attention/parts/coopmat_query_block.glsl"
  score_scale = UNMODIFIED_SCORES ? p.scale * LOG2E : 1.0;
  staging = subgroup * STAGING_SIZE;
  load_queries();

  divide_visits(first, last, full_begin, full_end);
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
    careful = min(careful, visits);  // before the loop it takes 5 % of causal D 64
    pass(0, careful, true);
    pass(BLOCK_MASK && !LISTED_BLOCKS ? upcoming : careful, seen_whole, false);
    if (BOUNDED_LEFT) pass(max(careful, seen_whole), visits, true);
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
