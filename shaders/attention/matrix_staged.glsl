#pragma aule inline
// The elements of scores' accumulators in lanes: `Elements` is what a kernel reads as x[e], laid out as matrix_lanes.glsl
// has it. Products go to S_SUM and DP_SUM.
//   STAGED 0  the layout was found by the probe: an accumulator is its elements, nothing to do
//   STAGED 1  the layout is unknown: each subgroup stores its accumulators to shared memory of its own, and lanes read
//             back runs of a row, a layout that the host makes up; results leave the same way
// Waits stand where all subgroups pass: llvmpipe holds the whole workgroup at a subgroup's barrier.
#ifndef AULE_ATTENTION_MATRIX_STAGED_GLSL
#define AULE_ATTENTION_MATRIX_STAGED_GLSL
#if STAGED
#define Elements float[ELEMS]
#define S_SUM s_sum
#define DP_SUM dp_sum
#define DECLARE_SUMS Acc s_sum[ROWS], dp_sum[ROWS];

const int SCRATCH_PITCH = 20;  // 16 columns, and no bank conflict
shared float scratch[WARPS * MAT_M * SCRATCH_PITCH];
uint scratch_at(int row, int column) { return uint((int(gl_SubgroupID) * MAT_M + row) * SCRATCH_PITCH + column); }
#define WAIT_FOR_SUBGROUP                                                                                              \
  subgroupMemoryBarrierShared();                                                                                       \
  subgroupBarrier();

#define TAKE_ELEMENTS(TO, M)                                                                                           \
  coopMatStore(M, scratch, scratch_at(0, 0), uint(SCRATCH_PITCH), ROW_MAJOR);                                          \
  WAIT_FOR_SUBGROUP                                                                                                    \
  [[unroll]] for (int e = 0; e < ELEMS; ++e)                                                                           \
    TO[e] = scratch[scratch_at(lane_row() + NIBBLE(ELEM_ROWS, e), lane_col() + NIBBLE(ELEM_COLS, e))];                 \
  WAIT_FOR_SUBGROUP
#define TAKE_SUMS                                                                                                      \
  [[unroll]] for (int r = 0; r < ROWS; ++r) {                                                                          \
    TAKE_ELEMENTS(s[r], s_sum[r])                                                                                      \
    TAKE_ELEMENTS(dp[r], dp_sum[r])                                                                                    \
  }

// As in matrix_tiles.glsl, with a factor that is the same for all elements: 16 columns at a time.
#undef STORE_ROWS
#define STORE_ROWS(ACCS, FACTOR, BASE, STEP_BYTES, LAST, DIM, WIDTH)                                                   \
  [[unroll]] for (int r = 0; r < ROWS; ++r)                                                                            \
    [[unroll]] for (int c = 0; c < (WIDTH) / 16; ++c) {                                                                \
      [[unroll]] for (int i = 0; i < 16 / MAT_N; ++i)                                                                  \
        coopMatStore(ACCS[r * ((WIDTH) / MAT_N) + c * (16 / MAT_N) + i], scratch, scratch_at(0, i * MAT_N), uint(SCRATCH_PITCH), ROW_MAJOR); \
      WAIT_FOR_SUBGROUP                                                                                                \
      [[unroll]] for (int i = 0; i < STRIP_LOADS; ++i) {                                                               \
        const int e = lane() + i * SUBGROUP, row = row0 + r * MAT_M + e / 2;                                           \
        if (row <= (LAST) && (STRIP_WHOLE || e < MAT_M * 2)) {                                                         \
          uvec4 chunk;                                                                                                 \
          [[unroll]] for (int j = 0; j < 4; ++j)                                                                       \
            chunk[j] = pack_pair(nearest(scratch[scratch_at(e / 2, e % 2 * 8 + 2 * j)] * FACTOR(r, 0)),                      \
                                 nearest(scratch[scratch_at(e / 2, e % 2 * 8 + 2 * j + 1)] * FACTOR(r, 0)));                 \
          store_chunk(BASE, uint(row) * STEP_BYTES, c * 16 + e % 2 * 8, DIM, chunk);                                   \
        }                                                                                                              \
      }                                                                                                                \
      WAIT_FOR_SUBGROUP                                                                                                \
    }
#else
#define Elements Acc
#define S_SUM s
#define DP_SUM dp
#define DECLARE_SUMS
#define TAKE_SUMS
#endif
#endif
