#pragma aule inline
// The elements of scores' accumulators in lanes: `Elements` is read as x[e], in the layout of coopmat_lanes.glsl.
// Products are added to S_SUM and DP_SUM.
//   OPAQUE 0  the probe found the layout: an accumulator is its elements
//   OPAQUE 1  the layout is unknown: each subgroup stores its accumulators to its own shared memory, and lanes read
//             back runs of a row, a layout that the host chooses. Results leave the same way.
// Waits are where all subgroups pass, since llvmpipe stops the whole workgroup at a subgroup's barrier.
#ifndef AULE_ATTENTION_COOPMAT_ELEMENTS_GLSL
#define AULE_ATTENTION_COOPMAT_ELEMENTS_GLSL
#if OPAQUE
#define Elements float[ELEMS]
#define S_SUM s_sum
#define DP_SUM dp_sum
#define DECLARE_SUMS Acc s_sum[ROW_BLOCKS], dp_sum[ROW_BLOCKS];
#define OWN_SUM(i, r) s_sum[r]

const int SCRATCH_PITCH = 20;  // 16 columns, and no bank conflict
shared float scratch[SUBGROUPS * MAT_M * SCRATCH_PITCH];
uint scratch_at(int row, int column) { return uint((int(gl_SubgroupID) * MAT_M + row) * SCRATCH_PITCH + column); }

#define TAKE_ELEMENTS(TO, M)                                                                                           \
  coopMatStore(M, scratch, scratch_at(0, 0), uint(SCRATCH_PITCH), ROW_MAJOR);                                          \
  WAIT_FOR_SUBGROUP                                                                                                    \
  [[unroll]] for (int e = 0; e < ELEMS; ++e)                                                                           \
    TO[e] = scratch[scratch_at(lane_row() + NIBBLE(ELEM_ROWS, e), lane_col() + NIBBLE(ELEM_COLS, e))];                 \
  WAIT_FOR_SUBGROUP
#define TAKE_SUMS                                                                                                      \
  [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r) {                                                                    \
    TAKE_ELEMENTS(s[r], s_sum[r])                                                                                      \
    TAKE_ELEMENTS(dp[r], dp_sum[r])                                                                                    \
  }
#define TAKE_OWN(i)                                                                                                    \
  [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r) {                                                                    \
    TAKE_ELEMENTS(s[(i) * ROW_BLOCKS + r], s_sum[r])                                                                   \
  }

// The factor is the same for all elements.
#undef STORE_ROWS
#define STORE_ROWS(ACCS, FACTOR, BASE, ROW_BYTES, LAST, DIM, WIDTH)                                                    \
  STORE_ROWS_OF_FLOATS(scratch, scratch_at(0, 0), SCRATCH_PITCH, ACCS, FACTOR(r, 0), BASE, ROW_BYTES, LAST, DIM, WIDTH)
#else
#define Elements Acc
#define S_SUM s
#define DP_SUM dp
#define DECLARE_SUMS
#define TAKE_SUMS
#define OWN_SUM(i, r) s[(i) * ROW_BLOCKS + (r)]
#define TAKE_OWN(i)
#endif
#endif
