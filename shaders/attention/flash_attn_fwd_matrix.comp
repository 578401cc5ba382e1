#pragma aule axis T float16_t bfloat16_t
#pragma aule feature cooperative_matrix
#pragma aule feature subgroup_shuffle
#pragma aule feature float16 if T=float16_t
#pragma aule feature bfloat16 if T=bfloat16_t
#pragma aule params wide
#pragma aule inline
// FlashAttention forward on matrix units whose accumulators' layout is known (FlashAttention-2, Dao 2023).
//
// Workgroup (block of BLOCK queries, b, h), heavy causal blocks first. Q fragments stay in registers, K and V tiles
// pass through registers into shared memory. Scores are in log2 units, O and l sums of P = 2^(s - m), m the reference
// maximum of a row. Any m gives the same O / l as long as no P overflows, so maxima are looked for in few tiles: the
// first, and those that some row sees in part (causal: around the diagonal). The others take m as it is, with no
// maximum and no vote between product and exponentials. That no P was more than float16 holds is known afterwards, for
// the sum of a lane's P is at least the largest of them. Where it may have been more (a score 16 above those looked at,
// a factor of e^11 in P), the block is done again with all tiles looked at. With bias or soft cap all tiles are: m
// moves when some row exceeds it by more than 8.
//   STAGES 1: write tile | barrier | start loads of the next tile | S, exponentials, O += P V | barrier
//   STAGES 2: start load of next K | first half | write next K, start load of next V | second half | write next V | barrier
//             a tile of one step: start loads of next K and V | S, exponentials, O += P V | write both | barrier
//
// Ladder (NVIDIA H200, driver 580.159, float16, heads * N * D = 2^26, TFLOPS at N 2048 / 8192). All tiles looked at
// with a vote that moves m when a score exceeds it by 8; CUDA's FlashAttention-2 in the same run: D 64 304 / 304,
// causal 264 / 290; D 128 351 / 335, causal 284 / 317:
//   D 64   functions with matrices at file scope (memory instead of registers)               38 / 39    causal 34 / 38
//          the same code as macros and locals, parameters from the ring, rows clamped        285 / 321
//          unmasked loop alone where nothing needs a mask (EXACT)                             301 / 334
//          parameters as push constants, 32-bit row offsets, first maximum from an element    325 / 336  causal 259 / 301
//          row steps as constants, no clamp where the tiles are whole                         326 / 340  causal 268 / 316
//          the same with 64-bit pointers and immediate offsets                                317 / 328  causal 251 / 297
//          8 subgroups                                                                        220 / 233
//   D 128  8 subgroups, tile 32, 2 stages                                                     304 / 329  causal 235 / 294
//          8 subgroups, tile 16: K loaded, written in the middle, then V                      222 / 268  causal 175 / 223
//          one 16-row block per subgroup: tile 64, one stage                                  288 / 304  causal 247 / 288
//   Rested between samples, CUDA 305 / 313, causal 272 / 302 (D 64), 354 / 362 and 305 / 339 (D 128), with the rows of Q and
//   O in whole lines (matrix_tiles.glsl; before, loading Q took 5,900 clocks, straight from memory 10,300, storing O 4,200,
//   of some 190,000 at N 2048), and OPAQUE_ZERO there:
//          D 64 331 / 342, Q straight from memory 328 / 347, causal 280 / 321; D 128 329 / 349, causal, tile 16, 256 / 311
//          the same without OPAQUE_ZERO: D 64 316 / 327; D 128 316 / 333, causal 224 / 280
//          half of the subgroups half a step behind the others, by waiting: slower by just the wait
//          scores block by block, exponentials of the next block before this one's products: the same within 0.2 %
//          a quarter of the exponentials as three cheap instructions (wrong, for timing): D 128 340 / 364, D 64 325 / 334
//          the divisions of the group's number as shifts (890 clocks at the beginning): the same
// The sum instead of the maxima, in the same run as CUDA's 305 / 312, 273 / 303, 352 / 360, 305 / 339:
//   D 64   the sum checked behind each step, before the products: loop that tries twice 251 / 267, with the products in it
//          336 / 352, both cases written out 328 / 344; causal 254 / 283, 269 / 306, 278 / 316
//          checked at the end, tile 64, 4 blocks at a time 359 / 379, Q straight from memory 366 / 401; 2 blocks 360 / 382
//          and 370 / 406; 1 block 361 / 395 and 350 / 385; 8 subgroups 340 / 372
//          causal, 2 blocks, 308 / 378, straight from memory 295 / 365; 4 blocks 297 / 353
//   D 128  8 subgroups, tile 32, 2 stages 234 / 246 (spilled registers), one stage - / 332
//          4 subgroups, tile 32, one stage 333 / 355, causal 280 / 339
//          8 subgroups, tile 32, one stage, FENCES 1 366 / 388, causal 261 / 339; a barrier of the subgroup there - / 367;
//          FENCES 1 with a branch that clears one accumulator only 298 / 341, before the exponentials 340 / 362, both 340 / 363
//          with the load of V behind the first block 315 / 361; 4 subgroups with that 332 / 352, causal 285 / 341
//   At N 4096, before / after (CUDA): D 32 276 / 314, causal 245 / 275 (222, 206); D 80 275 / 326, 247 / 288 (274, 256);
//          D 96 347 / 377, 297 / 320 (349, 321); D 192 286 / 305, 269 / 278, FENCES 1 305, causal 289 (320, 294);
//          D 256 307 / 164 (spilled), FENCES 1 302, 2 324, causal FENCES 1 288 (326, 303)
//   A branch around blocks of keys that no row of the subgroup sees, in the masked loop: causal 243 / 286 (D 64), 167 / 202
//   (D 128, tile 16), and where a tile has several steps the unmasked loop lost a tenth as well.
#define ATTENTION_ADDRESSES out_, logsumexp, pages
#define ATTENTION_STRIDES out_stride[3]
#define ATTENTION_PAGED
#include "attention/matrix.glsl"
#include "attention/matrix_tiles.glsl"
#include "attention/matrix_dropout.glsl"

// The lane's sums that float16 weights bear: no weight is more than the sum of all.
#ifdef T_bfloat16_t
const float MOST = 1e30;
#else
const float MOST = DROPOUT ? 32752.0 : 65504.0;  // pairs of masked weights are doubled
#endif
// Whether some lane's sum is more: the first element (shared arrays are multiples of 16 bytes, see matrix_tiles.glsl).
shared float overflows[4];

MatA q_frag[ROWS * FRAGS];
Acc s[ROWS * STEP];
Acc o[ROWS * FRAGS_V];
float m[ROWS * SLOTS], l[ROWS * SLOTS];

// Uniform facts of this workgroup.
int b, h, bh, row0;
uint64_t bias_base;
float score_scale;
Dropout dropout;
uint kept;  // of the unit of kept_unit
int kept_unit = -1;

// s = Q K^T of the blocks [block, block + STEP) of the tile.
void scores(int stage, int block) {
  [[unroll]] for (int i = 0; i < ROWS * STEP; ++i) s[i] = Acc(0.0);
  [[unroll]] for (int d = 0; d < FRAGS; ++d)
    [[unroll]] for (int c = 0; c < STEP; ++c) {
      MatB k;
      coopMatLoad(k, tiles, uint(stage * STAGE_SIZE + (block + c) * MAT_N * PITCH + d * MAT_N / 8), uint(PITCH),
          COLUMN_MAJOR);
      [[unroll]] for (int r = 0; r < ROWS; ++r) s[r * STEP + c] =
          coopMatMulAdd(q_frag[r * FRAGS + d], k, s[r * STEP + c]);
    }
}

// Bias and soft cap, then what the band or the end of the keys hides.
void modify(int key0) {
  [[unroll]] for (int r = 0; r < ROWS; ++r)
    [[unroll]] for (int c = 0; c < STEP; ++c)
      [[unroll]] for (int e = 0; e < ELEMS; ++e) {
        const int row = min(row0 + r * MAT_M + lane_row() + NIBBLE(ELEM_ROWS, e), last_query());
        const int key = min(key0 + c * MAT_N + lane_col() + NIBBLE(ELEM_COLS, e), tile_last);
        s[r * STEP + c][e] = modified_score(s[r * STEP + c][e], BIAS_DTYPE >= 0 ? bias_at(bias_base, row, key) :
            uint64_t(0));
      }
}
void hide(int key0) {
  [[unroll]] for (int r = 0; r < ROWS; ++r) {
    int most[SLOTS], least[SLOTS];  // visible elements are in [least, most], both relative to this lane's first
    [[unroll]] for (int t = 0; t < SLOTS; ++t) {
      const int diagonal = row0 + r * MAT_M + lane_row() + NIBBLE(SLOT_ROWS, t) + diagonal_shift();
      most[t] = min(tile_last, diagonal + p.right) - key0 - lane_col();
      least[t] = diagonal - p.left - key0 - lane_col();
    }
    [[unroll]] for (int c = 0; c < STEP; ++c)
      [[unroll]] for (int e = 0; e < ELEMS; ++e) {
        const int key = c * MAT_N + NIBBLE(ELEM_COLS, e);
        bool hidden = key > most[SLOT(e)];
        if (BOUNDED_LEFT) hidden = hidden || key < least[SLOT(e)];
        s[r * STEP + c][e] = hidden ? NEG_INF : s[r * STEP + c][e];
      }
  }
}

// The reference maxima follow the scores: at once, or where every tile is looked at when one exceeds its by 2^8.
void rescale() {
  [[unroll]] for (int r = 0; r < ROWS; ++r) {
    float top[SLOTS];
    [[unroll]] for (int t = 0; t < SLOTS; ++t) top[t] = s[r * STEP][t * (ELEMS / SLOTS)];  // slots are runs of elements
    [[unroll]] for (int c = 0; c < STEP; ++c)
      [[unroll]] for (int e = 0; e < ELEMS; ++e) top[SLOT(e)] = max(top[SLOT(e)], s[r * STEP + c][e]);
    bool over = false;
    [[unroll]] for (int t = 0; t < SLOTS; ++t) {
      top[t] *= score_scale;
      over = over || top[t] > m[r * SLOTS + t] + (PLAIN ? 0.0 : 8.0);
    }
    if (subgroupAny(over)) {
      float factor[SLOTS];
      [[unroll]] for (int t = 0; t < SLOTS; ++t) {
        const float reference = max(m[r * SLOTS + t], row_max(top[t]));
        factor[t] = exp2(m[r * SLOTS + t] - reference);
        m[r * SLOTS + t] = reference;
        l[r * SLOTS + t] *= factor[t];
      }
      Acc f;
      [[unroll]] for (int e = 0; e < ELEMS; ++e) f[e] = factor[SLOT(e)];
      [[unroll]] for (int i = 0; i < FRAGS_V; ++i) o[r * FRAGS_V + i] = o[r * FRAGS_V + i] * f;
    }
  }
}

// Before the elements of a block are masked.
void take_cell(int block, int key0) {
  if (WHOLE_UNITS ? (block & 1) == 0 : key0 >> 5 != kept_unit) kept = own_cell(dropout, bh, row0, key0);
  kept_unit = key0 >> 5;
}

// O += P V of the blocks that `s` holds.
void weigh(int stage, int block, int key0) {
  [[unroll]] for (int c = 0; c < STEP; ++c) {
    const int second = SECOND_BLOCK(block + c, key0);
    MatA weight[ROWS];
    if (CELLS) take_cell(block + c, key0 + c * MAT_N);
    [[unroll]] for (int r = 0; r < ROWS; ++r) {
      uvec4 words;
      if (DROPOUT && !CELLS) words = unit_words(dropout, bh, row0 + r * MAT_M, key0 + c * MAT_N);
      [[unroll]] for (int e = 0; e < ELEMS; e += RUN) {
        float x = exp2(fma(s[r * STEP + c][e], score_scale, -m[r * SLOTS + SLOT(e)]));
        l[r * SLOTS + SLOT(e)] += x;
        if (RUN == 2) {
          const float y = exp2(fma(s[r * STEP + c][e + 1], score_scale, -m[r * SLOTS + SLOT(e + 1)]));
          l[r * SLOTS + SLOT(e + 1)] += y;
          PUT_PAIR(weight[r], e, x, y, kept, CELL_BIT(r, second, e))
        } else {
          if (DROPOUT) {  // the scale waits for the end
            const int row = row0 + r * MAT_M + lane_row() + NIBBLE(ELEM_ROWS, e),
                key = key0 + c * MAT_N + lane_col() + NIBBLE(ELEM_COLS, e);
            const bool keeps = CELLS ? CELL_KEEPS(kept, CELL_BIT(r, second, e)) : words_keep(words, row, key);
            x = keeps ? x : 0.0;
          }
          PUT_A(weight[r], 0, e, x)
        }
      }
      TAKE_A(weight[r], 0)
    }
    [[unroll]] for (int i = 0; i < FRAGS_V; ++i) {
      MatB v;
      coopMatLoad(v, tiles, uint(stage * STAGE_SIZE + TILE_A + (block + c) * MAT_N * PITCH_V + i * MAT_N / 8),
          uint(PITCH_V), ROW_MAJOR);
      [[unroll]] for (int r = 0; r < ROWS; ++r) o[r * FRAGS_V + i] = coopMatMulAdd(weight[r], v, o[r * FRAGS_V + i]);
    }
  }
}

#define FENCE \
  if (p.groups == 0xffffffffu) { [[unroll]] for (int i = 0; i < ROWS * FRAGS_V; ++i) o[i] = Acc(0.0); }

// Visits [from, to) of the tiles [begin, end): the first, then the others from the last on.
#define TILE_OF(visit) ((visit) == 0 ? begin : end - (visit))
void pass(int from, int to, bool careful) {
  [[dont_unroll]] for (int visit = from; visit < to; ++visit) {
    const int tile = TILE_OF(visit), following = TILE_OF(min(visit + 1, visits - 1)), stage = STAGES == 1 ? 0 :
        visit & 1;
    if (STAGES == 1) {
      put_a(0);
      put_b(0);
      barrier();  // the tile is written
    }
    fetch_a(following);
    if (STAGES == 1 || BLOCKS == STEP) fetch_b(following);
    [[unroll]] for (int block = 0; block < BLOCKS; block += STEP) {
      const int key0 = tile * TILE + block * MAT_N;
      scores(stage, block);
      if (FENCES > 1) FENCE
      if (!PLAIN) modify(key0);
      if (careful && !EXACT) hide(key0);
      if (careful || !PLAIN) rescale();
      weigh(stage, block, key0);
      if (FENCES > 0) FENCE
      if (STAGES == 2 && BLOCKS != STEP && block + STEP >= BLOCKS / 2 && block < BLOCKS / 2) {
        put_a(stage ^ 1);
        fetch_b(following);
      }
    }
    if (STAGES == 2 && BLOCKS == STEP) put_a(stage ^ 1);
    if (STAGES == 2) put_b(stage ^ 1);
    barrier();  // the tile has been read, and with two stages the next one is written
  }
}

void main() {
#include "attention/matrix_query_block.glsl"
  score_scale = PLAIN ? p.scale * LOG2E : 1.0;
  const int begin_tile = min(begin, last_tile), visits = end - begin;
  const int corner = warp * PATCH_SIZE;
  const uint64_t q_head = query_rows(p.query, p.query_stride, b, h);
  if (DIRECT) {
    fetch_a(begin_tile);
    fetch_b(begin_tile);
    LOAD_FRAGMENTS(q_frag, q_head, uint(p.query_stride[2]), D)
  } else {  // all loads are on their way before the first is used
    FETCH_ROWS(q_rows, q_head, uint(p.query_stride[2]) * 2u, last_query(), p.head_dim, D)
    fetch_a(begin_tile);
    fetch_b(begin_tile);
    ROWS_TO_FRAGMENTS(q_frag, q_rows, D)
    barrier();  // the patches have been read
  }

  // Tiles that are looked at: the first, where some models' largest scores are, and those that some row sees in part
  // or, so that each row has a key in one of them, the last that all see.
  int careful = EXACT ? 1 : 1 + end - max(begin + 1, min(full_end, (keys_end(first) - 1) / TILE));
  const int seen_whole = BOUNDED_LEFT ? min(visits, end - full_begin + 1) : visits;
  overflows[0] = 0.0;
  [[dont_unroll]] for (int attempt = 0; attempt < 2; ++attempt) {
    [[unroll]] for (int i = 0; i < ROWS * FRAGS_V; ++i) o[i] = Acc(0.0);
    [[unroll]] for (int i = 0; i < ROWS * SLOTS; ++i) {
      m[i] = LOWEST;
      l[i] = 0.0;  // this lane's elements only
    }
    if (STAGES == 2) {
      put_a(0);
      put_b(0);
      barrier();  // the first tile is written
    }
    if (attempt == 1) careful = visits;
    careful = min(careful, visits);  // here, for before the loop it costs causal D 64 a twentieth
    pass(0, careful, true);
    pass(careful, seen_whole, false);
    if (BOUNDED_LEFT) pass(max(careful, seen_whole), visits, true);
    if (!PLAIN) break;
    bool over = false;
    [[unroll]] for (int i = 0; i < ROWS * SLOTS; ++i) over = over || !(l[i] <= MOST);
    if (over) overflows[0] = 1.0;
    barrier();  // all have said so
    if (overflows[0] == 0.0) break;
    fetch_a(begin_tile);
    fetch_b(begin_tile);
  }

  const float factor = (DROPOUT ? p.dropout_scale / float(RUN) : 1.0) * UNCUT;
  float inverse[ROWS * SLOTS];
  [[unroll]] for (int r = 0; r < ROWS; ++r)
    [[unroll]] for (int t = 0; t < SLOTS; ++t) {
      const float sum = row_sum(l[r * SLOTS + t]);
      const int row = row0 + r * MAT_M + lane_row() + NIBBLE(SLOT_ROWS, t);
      inverse[r * SLOTS + t] = sum == 0.0 ? 0.0 : factor / sum;  // a row that sees nothing is 0
      if (lane() % LANE_DIV == 0 && row <= last_query())
        F32Ref(p.logsumexp + uint64_t(stats_index(bh, row)) * 4).v = sum == 0.0 ? NEG_INF :
            (m[r * SLOTS + t] + log2(sum)) * LN2;
    }
#define BY_SUM(r, e) inverse[(r) * SLOTS + SLOT(e)]
  STORE_ROWS(o, BY_SUM, query_rows(p.out_, p.out_stride, b, h), uint(p.out_stride[2]) * 2u, last_query(), p.v_dim, DV)
}
