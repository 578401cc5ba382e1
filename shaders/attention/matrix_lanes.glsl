// Which row and column of an accumulator a lane's elements are, from the layout that matrix_layout.comp found
// (csrc/ops/coopmat/layout.h). Positions MATRIX_CONSTANTS + 2 to MATRIX_CONSTANTS + 8. Include after
// coopmat_types.glsl.
#ifndef AULE_MATRIX_LANES_GLSL
#define AULE_MATRIX_LANES_GLSL
#extension GL_KHR_shader_subgroup_shuffle : require

layout(constant_id = MATRIX_CONSTANTS + 2) const int SUBGROUP = 32;
// bytes: lanes of a row, row step, column step, slots
layout(constant_id = MATRIX_CONSTANTS + 3) const int LANE_MAP = 0;
layout(constant_id = MATRIX_CONSTANTS + 4) const int ELEM_ROWS = 0;
layout(constant_id = MATRIX_CONSTANTS + 5) const int ELEM_COLS = 0;
layout(constant_id = MATRIX_CONSTANTS + 6) const int ELEM_OF_A = 0;
layout(constant_id = MATRIX_CONSTANTS + 7) const int ELEM_SLOTS = 0;
layout(constant_id = MATRIX_CONSTANTS + 8) const int SLOT_ROWS = 0;

const int LANE_DIV = LANE_MAP & 255;
const int SLOTS = LANE_MAP >> 24 & 255;  // rows of which a lane holds elements
const int ELEMS = MAT_M * MAT_N / SUBGROUP;

#define NIBBLE(word, i) ((word) >> (4 * (i)) & 15)
#define SLOT(e) NIBBLE(ELEM_SLOTS, e)

int lane() { return int(gl_SubgroupInvocationID); }
// Row of slot 0 and column of an element of column offset 0 in this lane.
int lane_row() { return lane() / LANE_DIV * (LANE_MAP >> 8 & 255); }
int lane_col() { return lane() % LANE_DIV * (LANE_MAP >> 16 & 255); }

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
