// Answers of shaders/coopmat/coopmat_layout.comp, and checks of them.
//
// A probe's answer decides which kernels run, and how: a driver's fault, or a driver that executes nothing, must not
// become a division by zero or a wrong product. An answer that cannot be true leaves the device without matrix units;
// a layout that is no one-to-one map of lanes' elements onto the matrix is unknown.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace aule::ops {

// Element e of lane l of an accumulator is (l / lane_div * lane_row + nibble e of rows, l % lane_div * lane_col +
// nibble e of cols). With acc_is_a_operand it equals element (nibble e of a_elem) of the same matrix as an A operand.
struct MatrixLayout {
  bool usable = false;  // the device multiplies 16-bit m x n by n x n matrices into float32
  bool known = false;   // the rest describes the accumulator's layout; false: only the shape and the subgroup
  bool acc_is_a_operand = false;
  int m = 0, n = 0;  // k = n
  int subgroup = 0;
  bool truncates = false;  // kernels' conversions to the dtype truncate (NVIDIA's to bfloat16 do)
  int elements = 0;        // of an accumulator per lane, at most 8
  int lane_div = 1, lane_row = 1, lane_col = 1;
  uint32_t rows = 0, cols = 0, a_elem = 0;  // nibble e belongs to element e
  bool b_is_a_transposed = false;           // element e of a lane's B is that of its A with row and column exchanged
  int lane_rows = 0;                        // rows of which a lane holds elements
  uint32_t elem_lane_rows = 0;              // nibble e: which of the lane's rows holds element e, in equal runs
  uint32_t lane_row_offsets = 0;            // nibble r: the lane's row r, in lane 0
};

inline constexpr int kProbeLanes = 128, kProbeElements = 8, kProbeSide = 16;

struct MatrixProbe {
  uint32_t a_length, b_length, acc_length, subgroup;  // subgroup size, and 65536 if conversions truncate
  uint32_t index[3][kProbeLanes][kProbeElements];     // 16 row + column: A, B, accumulator
  float product[kProbeSide][kProbeSide];              // of the index matrices A and B
};
inline constexpr size_t kProbeWords = sizeof(MatrixProbe) / 4;

// The layout by the words of a MatrixProbe for m x n by n x n matrices, on a device whose subgroups have `least` to
// `most` lanes.
MatrixLayout read_matrix_probe(std::span<const uint32_t> words, int m, int n, uint32_t least, uint32_t most);

}  // namespace aule::ops
