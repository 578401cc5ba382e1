// Which row and column of an accumulator a lane's elements are, from the layout that coopmat_layout.comp found
// (csrc/ops/coopmat/layout.h). Include after coopmat_types.glsl.
#ifndef AULE_MATRIX_LANES_GLSL
#define AULE_MATRIX_LANES_GLSL
#extension GL_KHR_shader_subgroup_shuffle : require

layout(constant_id = MATRIX_CONSTANTS + 2) const int SUBGROUP = 32;
layout(constant_id = MATRIX_CONSTANTS + 3) const int LANE_DIV = 4;  // lanes of a row
layout(constant_id = MATRIX_CONSTANTS + 4) const int LANE_ROW = 1;  // rows from one run of LANE_DIV lanes to the next
layout(constant_id = MATRIX_CONSTANTS + 5) const int LANE_COL = 2;  // columns from a lane to the next
layout(constant_id = MATRIX_CONSTANTS + 6) const int SLOTS = 1;     // rows of which a lane holds elements
layout(constant_id = MATRIX_CONSTANTS + 7) const int ELEM_ROWS = 0;
layout(constant_id = MATRIX_CONSTANTS + 8) const int ELEM_COLS = 0;
layout(constant_id = MATRIX_CONSTANTS + 9) const int ELEM_OF_A = 0;
layout(constant_id = MATRIX_CONSTANTS + 10) const int ELEM_SLOTS = 0;
layout(constant_id = MATRIX_CONSTANTS + 11) const int SLOT_ROWS = 0;
#define AFTER_MATRIX_CONSTANTS (MATRIX_CONSTANTS + 12)

const int ELEMS = MAT_M * MAT_N / SUBGROUP;

#define NIBBLE(word, i) ((word) >> (4 * (i)) & 15)
#define SLOT(e) NIBBLE(ELEM_SLOTS, e)

int lane() { return int(gl_SubgroupInvocationID); }
// Row of slot 0 and column of an element of column offset 0 in this lane.
int lane_row() { return lane() / LANE_DIV * LANE_ROW; }
int lane_col() { return lane() % LANE_DIV * LANE_COL; }

// Over the lanes that share a row.
float row_max(float x) {
  [[unroll]] for (int step = 1; step < LANE_DIV; step *= 2) x = max(x, subgroupShuffleXor(x, step));
  return x;
}
float row_sum(float x) {
  [[unroll]] for (int step = 1; step < LANE_DIV; step *= 2) x += subgroupShuffleXor(x, step);
  return x;
}
#endif
