#pragma aule inline
// The elements of scores' accumulators in lanes: `Elements` is what a kernel reads as x[e], laid out as
// coopmat_lanes.glsl has it. Products go to S_SUM and DP_SUM.
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
#define OWN_SUM(i, r) s_sum[r]

const int SCRATCH_PITCH = 20;  // 16 columns, and no bank conflict
shared float scratch[WARPS * MAT_M * SCRATCH_PITCH];
uint scratch_at(int row, int column) { return uint((int(gl_SubgroupID) * MAT_M + row) * SCRATCH_PITCH + column); }

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
#define TAKE_OWN(i)                                                                                                    \
  [[unroll]] for (int r = 0; r < ROWS; ++r) {                                                                          \
    TAKE_ELEMENTS(s[(i) * ROWS + r], s_sum[r])                                                                         \
  }

// The factor is the same for all elements.
#undef STORE_ROWS
#define STORE_ROWS(ACCS, FACTOR, BASE, STEP_BYTES, LAST, DIM, WIDTH)                                                   \
  STORE_ROWS_OF_FLOATS(scratch, scratch_at(0, 0), SCRATCH_PITCH, ACCS, FACTOR(r, 0), BASE, STEP_BYTES, LAST, DIM, WIDTH)
#else
#define Elements Acc
#define S_SUM s
#define DP_SUM dp
#define DECLARE_SUMS
#define TAKE_SUMS
#define OWN_SUM(i, r) s[(i) * ROWS + (r)]
#define TAKE_OWN(i)
#endif
#endif
