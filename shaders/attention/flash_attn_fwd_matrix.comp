#pragma aule axis T float16_t bfloat16_t
#pragma aule feature cooperative_matrix
#pragma aule feature subgroup_shuffle
#pragma aule feature float16 if T=float16_t
#pragma aule feature bfloat16 if T=bfloat16_t
#pragma aule params wide
#pragma aule inline
// FlashAttention forward on matrix units whose accumulators' layout is known (FlashAttention-2, Dao 2023).
//
// Workgroup (block of BLOCK queries, b, h), heavy causal blocks first. Q fragments stay in registers, K and V tiles pass
// through registers into shared memory. Softmax in log2 units with a lazy rescale: the reference maximum m of a row moves
// only when some row of the subgroup exceeds it by more than 8, so P <= 256, safe in float16.
//   STAGES 1: write tile | barrier | start loads of the next tile | S, softmax, O += P V | barrier
//   STAGES 2: start load of next K | first half | write next K, start load of next V | second half | write next V | barrier
//             a tile of one step: start loads of next K and V | S, softmax, O += P V | write both | barrier
//
// Ladder (NVIDIA H200, driver 580.159, float16, heads * N * D = 2^26, TFLOPS at N 2048 / 8192; CUDA's FlashAttention-2 in
// the same run: D 64 304 / 304, causal 264 / 290; D 128 351 / 335, causal 284 / 317):
//   D 64   functions with matrices at file scope (memory instead of registers)               38 / 39    causal 34 / 38
//          the same code as macros and locals, parameters from the ring, rows clamped        285 / 321
//          unmasked loop alone where nothing needs a mask (EXACT)                             301 / 334
//          parameters as push constants, 32-bit row offsets, first maximum from an element    325 / 336  causal 259 / 301
//          row steps as constants, no clamp where the tiles are whole                         326 / 340  causal 268 / 316
//          the same with 64-bit pointers and immediate offsets                                317 / 328  causal 251 / 297
//          tile 32 x 2 stages 266 / 289; tile 16 x 2 stages 305 / 320; 8 subgroups 220 / 233
//          Q straight from memory instead of through patches                                  317 / 330  causal 261 / 318
//   D 128  8 subgroups, tile 32, 2 stages                                                     304 / 329  causal 235 / 294
//          the same, Q straight from memory                                                   314 / 344  causal 230 / 296
//          8 subgroups, tile 16: K loaded, written in the middle, then V                      222 / 268  causal 175 / 223
//          8 subgroups, tile 16: both loaded at the start, written at the end                 315 / 335  causal 240 / 301
//          4 subgroups, tile 16, both at the start (two workgroups of a multiprocessor)       308 / 327  causal 252 / 295
//          one stage: 4 subgroups, tile 32 276 / 299; 8 subgroups, tile 32 300 / 319
//          one 16-row block per subgroup: tile 64, one stage 288 / 304  causal 247 / 288; tile 32, two stages 259 / 275
//   Later, rested between samples, CUDA 305 / 313, causal 272 / 302 (D 64), 354 / 362 and 305 / 339 (D 128), with the rows
//   of Q and O in whole lines (matrix_tiles.glsl; before, loading Q took 5,900 clocks, straight from memory 10,300, storing O
//   4,200, of some 190,000 at N 2048), and OPAQUE_ZERO there:
//          D 64 331 / 342, Q straight from memory 328 / 347 (hence from 4096 keys on); causal 280 / 321, straight 277 / 329
//          D 128 329 / 349, straight 310 / 336; causal, tile 16, 256 / 311; 4 subgroups, tile 16, 267 / 308
//          the same without OPAQUE_ZERO: D 64 316 / 327; D 128 316 / 333, causal 224 / 280
//          results as words instead of matrix stores to the patch: D 64 328 / 338, D 128 the same
//          half of the subgroups half a step behind the others, by waiting: slower by just the wait
//          scores block by block, exponentials of the next block before this one's products: the same within 0.2 %
//          a quarter of the exponentials as three cheap instructions (wrong, for timing): D 128 340 / 364, D 64 325 / 334; a
//          polynomial takes eight, so the special function unit is a limit but not one that pays to evade
//   At N 4096: D 32 275, causal 246 (CUDA 222, 207); D 80 281, 250 (274, 253); D 96 342, 292 (340, 303);
//          D 192 298, 271 (321, 294); D 256 305, 264 (325, 289), with tile 16 and loads in the middle 279, 243.
//   A branch around blocks of keys that no row of the subgroup sees, in the masked loop: causal 243 / 286 (D 64), 167 / 202
//   (D 128, tile 16), and where a tile has several steps the unmasked loop lost a tenth as well.
//   One loop that branches around the mask instead of two: causal 260 / 305 (D 64), 228 / 279 (D 128).
#define ATTENTION_ADDRESSES out_, logsumexp, pages
#define ATTENTION_STRIDES out_stride[3]
#define ATTENTION_PAGED
#include "attention/matrix.glsl"
#include "attention/matrix_tiles.glsl"
#include "attention/matrix_dropout.glsl"

MatA q_frag[ROWS * FRAGS];
Acc s[ROWS * STEP];
Acc o[ROWS * FRAGS_V];
float m[ROWS * SLOTS], l[ROWS * SLOTS];

// Uniform facts of this workgroup.
int b, h, bh, row0;
uint64_t bias_base;
float score_scale;
Philox philox;
uint threshold;

// s = Q K^T of the blocks [block, block + STEP) of the tile.
void scores(int stage, int block) {
  [[unroll]] for (int i = 0; i < ROWS * STEP; ++i) s[i] = Acc(0.0);
  [[unroll]] for (int d = 0; d < FRAGS; ++d)
    [[unroll]] for (int c = 0; c < STEP; ++c) {
      MatB k;
      coopMatLoad(k, tiles, uint(stage * STAGE_SIZE + (block + c) * MAT_N * PITCH + d * MAT_N / 8), uint(PITCH), COLUMN_MAJOR);
      [[unroll]] for (int r = 0; r < ROWS; ++r) s[r * STEP + c] = coopMatMulAdd(q_frag[r * FRAGS + d], k, s[r * STEP + c]);
    }
}

// Bias and soft cap, then what the band or the end of the keys hides.
void modify(int key0) {
  [[unroll]] for (int r = 0; r < ROWS; ++r)
    [[unroll]] for (int c = 0; c < STEP; ++c)
      [[unroll]] for (int e = 0; e < ELEMS; ++e) {
        const int row = min(row0 + r * MAT_M + lane_row() + NIBBLE(ELEM_ROWS, e), last_query());
        const int key = min(key0 + c * MAT_N + lane_col() + NIBBLE(ELEM_COLS, e), tile_last);
        s[r * STEP + c][e] = modified_score(s[r * STEP + c][e], BIAS_DT >= 0 ? bias_at(bias_base, row, key) : uint64_t(0));
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

void rescale() {
  [[unroll]] for (int r = 0; r < ROWS; ++r) {
    float top[SLOTS];
    [[unroll]] for (int t = 0; t < SLOTS; ++t) top[t] = s[r * STEP][t * (ELEMS / SLOTS)];  // slots are runs of elements
    [[unroll]] for (int c = 0; c < STEP; ++c)
      [[unroll]] for (int e = 0; e < ELEMS; ++e) top[SLOT(e)] = max(top[SLOT(e)], s[r * STEP + c][e]);
    bool over = false;
    [[unroll]] for (int t = 0; t < SLOTS; ++t) {
      top[t] *= score_scale;
      over = over || top[t] > m[r * SLOTS + t] + 8.0;
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

// O += P V of the blocks that `s` holds.
void weigh(int stage, int block, int key0) {
  [[unroll]] for (int c = 0; c < STEP; ++c) {
    MatA weight[ROWS];
    [[unroll]] for (int r = 0; r < ROWS; ++r) {
      uvec4 bits;
      if (DROPOUT && QUADS) bits = dropout_block(philox, bh, row0 + r * MAT_M, key0 + c * MAT_N, p.q_len);
      [[unroll]] for (int e = 0; e < ELEMS; ++e) {
        float x = exp2(fma(s[r * STEP + c][e], score_scale, -m[r * SLOTS + SLOT(e)]));
        l[r * SLOTS + SLOT(e)] += x;
        if (DROPOUT) {  // the scale waits for the end
          const int row = row0 + r * MAT_M + lane_row() + NIBBLE(ELEM_ROWS, e);
          const int key = key0 + c * MAT_N + lane_col() + NIBBLE(ELEM_COLS, e);
          const bool keeps = QUADS ? dropout_keeps_element(bits, e, threshold)
                                   : dropout_keeps(dropout_draw(philox, bh, row, key, p.q_len), row, key, threshold);
          x = keeps ? x : 0.0;
        }
        PUT_A(weight[r], 0, e, x)
      }
      TAKE_A(weight[r], 0)
    }
    [[unroll]] for (int i = 0; i < FRAGS_V; ++i) {
      MatB v;
      coopMatLoad(v, tiles, uint(stage * STAGE_SIZE + TILE_A + (block + c) * MAT_N * PITCH_V + i * MAT_N / 8), uint(PITCH_V), ROW_MAJOR);
      [[unroll]] for (int r = 0; r < ROWS; ++r) o[r * FRAGS_V + i] = coopMatMulAdd(weight[r], v, o[r * FRAGS_V + i]);
    }
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
    if (STAGES == 1 || BLOCKS == STEP) fetch_b(following);
    [[unroll]] for (int block = 0; block < BLOCKS; block += STEP) {
      const int key0 = tile * TILE + block * MAT_N;
      scores(stage, block);
      if (!PLAIN) modify(key0);
      if (masked) hide(key0);
      rescale();
      weigh(stage, block, key0);
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
  const int corner = warp * PATCH_SIZE;
  const uint64_t q_head = query_rows(p.query, p.query_stride, b, h);
  if (DIRECT) {
    fetch_a(min(begin, last_tile));
    fetch_b(min(begin, last_tile));
    LOAD_FRAGMENTS(q_frag, q_head, uint(p.query_stride[2]), D)
  } else {  // all loads are on their way before the first is used
    FETCH_ROWS(q_rows, q_head, uint(p.query_stride[2]) * 2u, last_query(), p.head_dim, D)
    fetch_a(min(begin, last_tile));
    fetch_b(min(begin, last_tile));
    ROWS_TO_FRAGMENTS(q_frag, q_rows, D)
    barrier();  // the patches have been read
  }

  [[unroll]] for (int i = 0; i < ROWS * FRAGS_V; ++i) o[i] = Acc(0.0);
  [[unroll]] for (int i = 0; i < ROWS * SLOTS; ++i) {
    m[i] = LOWEST;
    l[i] = 0.0;  // this lane's elements only
  }
  if (STAGES == 2) {
    put_a(begin & 1);
    put_b(begin & 1);
    barrier();  // the first tile is written
  }
  if (BOUNDED_LEFT) pass(begin, full_begin, last_tile, true);
  pass(full_begin, full_end, last_tile, false);
  if (!EXACT) pass(full_end, end, last_tile, true);

  float inverse[ROWS * SLOTS];
  [[unroll]] for (int r = 0; r < ROWS; ++r)
    [[unroll]] for (int t = 0; t < SLOTS; ++t) {
      const float sum = row_sum(l[r * SLOTS + t]);
      const int row = row0 + r * MAT_M + lane_row() + NIBBLE(SLOT_ROWS, t);
      inverse[r * SLOTS + t] = sum == 0.0 ? 0.0 : (DROPOUT ? p.dropout_scale : 1.0) * UNCUT / sum;  // a row that sees nothing is 0
      if (lane() % LANE_DIV == 0 && row <= last_query())
        F32Ref(p.logsumexp + uint64_t(stats_index(bh, row)) * 4).v = sum == 0.0 ? NEG_INF : (m[r * SLOTS + t] + log2(sum)) * LN2;
    }
#define BY_SUM(r, e) inverse[(r) * SLOTS + SLOT(e)]
  STORE_ROWS(o, BY_SUM, query_rows(p.out_, p.out_stride, b, h), uint(p.out_stride[2]) * 2u, last_query(), p.v_dim, DV)
}
