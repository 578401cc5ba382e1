#pragma aule inline
// Shared by the forwards on cooperative matrices: scores of a tile, reference maxima, sums of weights and of weighted
// values. The kernel declares row0, bh, score_scale, dropout, kept and kept_unit. EXPONENT_OF(r, c, e) is what is added
// to a scaled score: minus the row's reference maximum, unless the kernel defines it. SCORES_BEGIN(i) sets a block's
// scores before the products: to 0, unless the kernel defines it.
#ifndef AULE_ATTENTION_COOPMAT_FORWARD_GLSL
#define AULE_ATTENTION_COOPMAT_FORWARD_GLSL
// The largest sum of a lane with which no weight exceeds float16: a weight is at most the sum of all.
#ifdef T_bfloat16_t
const float MOST = 1e30;
#else
const float MOST = DROPOUT ? 32752.0 : 65504.0;  // pairs of masked weights are doubled
#endif
// The first element: whether some lane's sum is more. Shared arrays are multiples of 16 bytes: see coopmat_tiles.glsl.
shared float overflows[4];

MatA q_frag[ROW_BLOCKS * FRAGS];
Acc s[ROW_BLOCKS * BLOCKS_IN_FLIGHT];
Acc o[ROW_BLOCKS * FRAGS_V];
float m[ROW_BLOCKS * LANE_ROWS], l[ROW_BLOCKS * LANE_ROWS];

#ifndef EXPONENT_OF
#define EXPONENT_OF(r, c, e) -m[(r) * LANE_ROWS + LANE_ROW_OF(e)]
#endif
#ifndef SCORES_BEGIN
#define SCORES_BEGIN(i) s[i] = Acc(0.0);
#endif

// s = Q K^T of the blocks [block, block + BLOCKS_IN_FLIGHT) of the tile.
void scores(int stage, int block) {
  [[unroll]] for (int i = 0; i < ROW_BLOCKS * BLOCKS_IN_FLIGHT; ++i) { SCORES_BEGIN(i) }
  [[unroll]] for (int d = 0; d < FRAGS; ++d)
    [[unroll]] for (int c = 0; c < BLOCKS_IN_FLIGHT; ++c) {
      MatB k;
      coopMatLoad(k, tiles, uint(stage * STAGE_SIZE + (block + c) * MAT_N * PITCH + d * MAT_N / 8), uint(PITCH),
          COLUMN_MAJOR);
      [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r) s[r * BLOCKS_IN_FLIGHT + c] =
          coopMatMulAdd(q_frag[r * FRAGS + d], k, s[r * BLOCKS_IN_FLIGHT + c]);
    }
}

// Raises the reference maxima to the scores' maxima. With bias or soft cap, only if a score exceeds its maximum by 8.
void rescale() {
  [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r) {
    float top[LANE_ROWS];
    // The elements of a lane's row are neighbours.
    [[unroll]] for (int t = 0; t < LANE_ROWS; ++t) top[t] = s[r * BLOCKS_IN_FLIGHT][t * (ELEMS / LANE_ROWS)];
    [[unroll]] for (int c = 0; c < BLOCKS_IN_FLIGHT; ++c)
      [[unroll]] for (int e = 0; e < ELEMS; ++e)
        top[LANE_ROW_OF(e)] = max(top[LANE_ROW_OF(e)], s[r * BLOCKS_IN_FLIGHT + c][e]);
    bool over = false;
    [[unroll]] for (int t = 0; t < LANE_ROWS; ++t) {
      top[t] *= score_scale;
      over = over || top[t] > m[r * LANE_ROWS + t] + (UNMODIFIED_SCORES ? 0.0 : 8.0);
    }
    if (subgroupAny(over)) {
      float factor[LANE_ROWS];
      [[unroll]] for (int t = 0; t < LANE_ROWS; ++t) {
        const float reference = max(m[r * LANE_ROWS + t], row_max(top[t]));
        factor[t] = exp2(m[r * LANE_ROWS + t] - reference);
        m[r * LANE_ROWS + t] = reference;
        l[r * LANE_ROWS + t] *= factor[t];
      }
      Acc f;
      [[unroll]] for (int e = 0; e < ELEMS; ++e) f[e] = factor[LANE_ROW_OF(e)];
      [[unroll]] for (int i = 0; i < FRAGS_V; ++i) o[r * FRAGS_V + i] = o[r * FRAGS_V + i] * f;
    }
  }
}

// Draws the cell's word, before the elements of a block are masked.
void take_cell(int block, int key0) {
  if (WHOLE_UNITS ? (block & 1) == 0 : key0 >> 5 != kept_unit) kept = own_cell(dropout, bh, row0, key0);
  kept_unit = key0 >> 5;
}

// O += P V of the blocks that `s` holds.
void weigh(int stage, int block, int key0) {
  [[unroll]] for (int c = 0; c < BLOCKS_IN_FLIGHT; ++c) {
    const int second = SECOND_BLOCK(block + c, key0);
    MatA weight[ROW_BLOCKS];
    if (WHOLE_CELLS) take_cell(block + c, key0 + c * MAT_N);
    [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r) {
      uvec4 words;
      if (DROPOUT && !WHOLE_CELLS) words = unit_words(dropout, bh, row0 + r * MAT_M, key0 + c * MAT_N);
      [[unroll]] for (int e = 0; e < ELEMS; e += RUN) {
        float x = exp2(fma(s[r * BLOCKS_IN_FLIGHT + c][e], score_scale, EXPONENT_OF(r, c, e)));
        l[r * LANE_ROWS + LANE_ROW_OF(e)] += x;
        if (RUN == 2) {
          const float y =
              exp2(fma(s[r * BLOCKS_IN_FLIGHT + c][e + 1], score_scale, EXPONENT_OF(r, c, e + 1)));
          l[r * LANE_ROWS + LANE_ROW_OF(e + 1)] += y;
          PUT_PAIR(weight[r], e, x, y, kept, CELL_BIT(r, second, e))
        } else {
          if (DROPOUT) {  // the scale follows at the end
            const int row = row0 + r * MAT_M + lane_row() + NIBBLE(ELEM_ROWS, e),
                key = key0 + c * MAT_N + lane_col() + NIBBLE(ELEM_COLS, e);
            const bool keeps = WHOLE_CELLS ? CELL_KEEPS(kept, CELL_BIT(r, second, e)) : words_keep(words, row, key);
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
      [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r)
        o[r * FRAGS_V + i] = coopMatMulAdd(weight[r], v, o[r * FRAGS_V + i]);
    }
  }
}

#define MOTION_BARRIER                                                                                                 \
  if (NEVER) { [[unroll]] for (int i = 0; i < ROW_BLOCKS * FRAGS_V; ++i) o[i] = Acc(0.0); }
#endif
