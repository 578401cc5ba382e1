// Cooperative matrices of a device: the shape to use for a 16-bit dtype, and where lanes keep elements, found by
// running shaders/matrix/matrix_layout.comp once per device and dtype. Kernels take both as specialization constants.
#pragma once
#include <cstdint>
#include <functional>

#include "kernels/dtype.h"
#include "kernels/launch.h"

namespace aule::ops {

// Element e of lane l of an accumulator is (l / lane_div * lane_row + nibble e of rows, l % lane_div * lane_col +
// nibble e of cols), and with hand_over it equals element (nibble e of a_elem) of the same matrix as an A operand.
struct MatrixLayout {
  bool usable = false;  // the device multiplies 16-bit m x n by n x n matrices into float32
  bool known = false;   // the rest describes the accumulator's layout; false: only the shape and the subgroup
  bool hand_over = false;
  int m = 0, n = 0;  // k = n
  int subgroup = 0;
  bool cuts = false;  // kernels' conversions to the dtype truncate (NVIDIA's to bfloat16 do)
  int elements = 0;  // of an accumulator per lane, at most 8
  int lane_div = 1, lane_row = 1, lane_col = 1;
  uint32_t rows = 0, cols = 0, a_elem = 0;  // nibble e belongs to element e
  bool b_is_a_transposed = false;           // element e of a lane's B is that of its A with row and column exchanged
  int slot_count = 0;                       // rows of which a lane holds elements
  uint32_t slots = 0;                       // nibble e: element e lies in that one of the lane's rows: equal runs
  uint32_t slot_rows = 0;                   // nibble s: row of slot s in lane 0
};

// Waits for the device on its first call. Float16 or bfloat16 only.
const MatrixLayout& matrix_layout(int device, DType dtype);

// Runs `body` with a stream of its own current: a probe waits, which a stream under capture cannot.
void on_private_stream(int device, const std::function<void()>& body);

}  // namespace aule::ops
