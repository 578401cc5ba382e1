// Row and column of a lane's elements of an accumulator, from the layout that coopmat_layout.comp found
// (csrc/ops/coopmat/layout.h). Words are tables of eight nibbles. Include after coopmat_types.glsl.
#ifndef AULE_COOPMAT_LANES_GLSL
#define AULE_COOPMAT_LANES_GLSL
#extension GL_KHR_shader_subgroup_shuffle : require

#ifndef ATTENTION_GENERATED
layout(constant_id = MATRIX_CONSTANTS + 2) const int SUBGROUP = 32;
layout(constant_id = MATRIX_CONSTANTS + 3) const int LANES_PER_ROW = 4;
// Rows from a run of LANES_PER_ROW lanes to the next.
layout(constant_id = MATRIX_CONSTANTS + 4) const int LANE_ROW_STEP = 1;
layout(constant_id = MATRIX_CONSTANTS + 5) const int LANE_COL_STEP = 2;  // columns from a lane to the next
layout(constant_id = MATRIX_CONSTANTS + 6) const int LANE_ROWS = 1;      // rows of which a lane has elements
layout(constant_id = MATRIX_CONSTANTS + 7) const int ELEM_ROWS = 0;  // by element: row from lane_row() on
layout(constant_id = MATRIX_CONSTANTS + 8) const int ELEM_COLS = 0;  // column from lane_col() on
layout(constant_id = MATRIX_CONSTANTS + 9) const int ELEM_OF_A = 0;  // the same element of an A operand
layout(constant_id = MATRIX_CONSTANTS + 10) const int ELEM_LANE_ROWS = 0;  // which of LANE_ROWS
layout(constant_id = MATRIX_CONSTANTS + 11) const int LANE_ROW_OFFSETS = 0;  // by row of a lane: from lane_row() on
#define AFTER_MATRIX_CONSTANTS (MATRIX_CONSTANTS + 12)
#endif

const int ELEMS = MAT_M * MAT_N / SUBGROUP;

#define NIBBLE(word, i) ((word) >> (4 * (i)) & 15)
#define LANE_ROW_OF(e) NIBBLE(ELEM_LANE_ROWS, e)

int lane() { return int(gl_SubgroupInvocationID); }
// Row and column that this lane's offsets count from.
int lane_row() { return lane() / LANES_PER_ROW * LANE_ROW_STEP; }
int lane_col() { return lane() % LANES_PER_ROW * LANE_COL_STEP; }

// Over the lanes of a row.
float row_max(float x) {
  [[unroll]] for (int step = 1; step < LANES_PER_ROW; step *= 2) x = max(x, subgroupShuffleXor(x, step));
  return x;
}
float row_sum(float x) {
  [[unroll]] for (int step = 1; step < LANES_PER_ROW; step *= 2) x += subgroupShuffleXor(x, step);
  return x;
}
#endif
