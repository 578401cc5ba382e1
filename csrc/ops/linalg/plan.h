// Launches that factorize matrices and solve triangles: pure functions of sizes and of what is known of the device.
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "core/device_profile.h"
#include "core/dtype.h"
#include "core/environment.h"

namespace aule::ops {

// Invocations of a workgroup that has a matrix, about one for each of `rows`. A subgroup is all that a software device
// can run without switching between coroutines.
inline uint32_t workgroup_for(const Caps& caps, int64_t rows) {
  uint32_t local = caps.is_software() ? caps.subgroup_size : 32;
  const uint32_t most = caps.is_software() ? local : std::min<uint32_t>(caps.max_workgroup_invocations, 1024);
  while (local < rows && 2 * local <= most) local *= 2;
  return local;
}

// The same of one that shares a matrix's elements, some 16 each.
inline uint32_t workgroup_for_elements(const Caps& caps, int64_t elements) {
  return std::min<uint32_t>(workgroup_for(caps, elements / 16), 256);
}

// Columns of a matrix [rows, columns] that are LU-factorized at once: by lu_panel.comp in shared memory or in
// memory, or by lu_panel_registers.comp, where an invocation has rows.
struct LuPanelPlan {
  int64_t columns = 0;
  bool in_shared = false;
  bool spread = false;
  uint32_t rows = 0;  // of an invocation; 0: not in registers
  uint32_t local = 0;
};
// The shared memory of lu_panel.comp: elements, and the most columns of a panel.
constexpr int64_t kLuSharedBytes = 24 << 10, kLuSide = 80;
LuPanelPlan lu_panel_plan(const DeviceProfile& profile, DType dtype, int64_t rows, int64_t columns);
std::string text_of(const LuPanelPlan& plan);

// A factorization by lu_step.comp of outer blocks of `block` columns, whose steps have `sub` columns.
struct LuStepsPlan {
  uint32_t local = 512, sub = 8;
  int64_t block = 128;
};
std::optional<LuStepsPlan> lu_steps_plan(const DeviceProfile& profile, DType dtype, int64_t rows, int64_t columns,
                                         int64_t batches, const Overrides& overrides);
// LOCAL and ROWS of a launch that factorizes `rows` rows.
struct LuStepShape {
  uint32_t local = 0, rows = 1;
};
LuStepShape lu_step_shape(const LuStepsPlan& plan, int64_t rows);
std::string text_of(const LuStepsPlan& plan);

// The Cholesky factorization of a matrix of n rows.
struct CholeskyPlan {
  bool at_once = false;  // by one launch of cholesky_block.comp or cholesky_panel.comp
  // Of cholesky_panel.comp: 16 tiles columns are a panel, 16 below rows a workgroup's. Without tiles:
  // cholesky_block.comp for a part of the upper left, where the matrix is not at once, and so on.
  uint32_t tiles = 0, below = 0;
  uint32_t update_side = 0;  // of cholesky_update.comp; 0: by size
  int64_t side = 0;          // of the shared memory of cholesky_block.comp
  uint32_t local = 0;
  int64_t columns() const { return 16 * int64_t{tiles}; }
};
CholeskyPlan cholesky_plan(const DeviceProfile& profile, DType dtype, int64_t n, const Overrides& overrides);
// SIDE of cholesky_update.comp, for m rows.
uint32_t cholesky_update_side(const CholeskyPlan& plan, int64_t m, int64_t batches);
std::string text_of(const CholeskyPlan& plan);

// The solution of a triangle of n rows for some columns.
struct TrianglePlan {
  bool at_once = false;    // by triangular_solve.comp; else by halves
  bool in_shared = false;  // a workgroup has columns of one matrix in shared memory
  int64_t most = 1;        // rows that the kernel is compiled for
  uint32_t shares = 1;     // invocations of a column
  uint32_t local = 0;
  uint64_t groups = 0;
};
TrianglePlan triangle_plan(const DeviceProfile& profile, DType dtype, int64_t n, int64_t columns, int64_t batches);
std::string text_of(const TrianglePlan& plan);

// Launches of ldl_factor.comp and ldl_solve.comp, of a matrix of n rows.
struct LdlPlan {
  uint32_t local = 0;                        // of ldl_factor.comp
  uint64_t factor_walk = 0, solve_walk = 0;  // loops of an invocation
};
LdlPlan ldl_plan(const DeviceProfile& profile, uint64_t n);
std::string text_of(const LdlPlan& plan);

// One launch of qr_panel.comp.
struct QrPanelPlan {
  uint32_t columns = 1;  // that it takes at once
  uint32_t local = 32, lanes = 8;
  bool in_shared = false;
  uint32_t elems = 1;
};

// For a matrix [rows, columns]: all columns where they fit, else a panel of the first ones.
QrPanelPlan qr_panel_plan(const DeviceProfile& profile, DType dtype, uint64_t rows, uint64_t columns);
// "columns 32 local 256 lanes 8 shared 4096": elements of shared memory, or "in memory".
std::string text_of(const QrPanelPlan& plan);

}  // namespace aule::ops
