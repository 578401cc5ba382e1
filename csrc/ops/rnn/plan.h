// Whether a recurrent layer's steps are dispatches, or loops of workgroups that keep their sequences: a pure function
// of sizes and of what is known of the device.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "core/access.h"
#include "core/device_profile.h"
#include "core/dtype.h"

namespace aule::ops {

enum class Cell : int {
#define CELL_KIND(code, name) name = code,
#include "rnn/cells.def"
#undef CELL_KIND
};
inline int64_t gates_of(Cell cell) { return cell == Cell::lstm ? 4 : cell == Cell::gru ? 3 : 1; }

struct ResidentProblem {
  DType dtype = DType::f32;
  Cell cell = Cell::tanh;
  uint32_t hidden = 0, directions = 1, batch = 0;
};

// resident_forward.comp, resident_backward.comp: `rows` sequences a workgroup, `steps` of them a dispatch.
struct ResidentPlan {
  uint32_t rows = 0, steps = 0;
  Grid grid;
};
// Nothing where a product and a kernel for each step are faster, or all that there is.
std::optional<ResidentPlan> resident_plan(const DeviceProfile& profile, const ResidentProblem& problem);
std::string text_of(const ResidentPlan& plan);

}  // namespace aule::ops
