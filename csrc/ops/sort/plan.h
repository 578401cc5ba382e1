// Launches that sort and search rows: pure functions of sizes, dtypes and what is known of the device.
#pragma once
#include <cstdint>
#include <string>

#include "core/access.h"
#include "core/device_profile.h"
#include "core/dtype.h"

namespace aule::ops {

struct SortProblem {
  uint64_t rows = 0, n = 0;  // n: of a row, at least 1
  uint64_t count = 0;        // of each row's results
  DType dtype = DType::f32;
};

// A merge sort: runs of `block` elements, then pairs of runs until each row is one, then the results.
struct SortPlan {
  bool by_workgroup = false;   // a run is a workgroup's, in shared memory; otherwise each invocation reads it
  uint32_t local = 0;          // invocations of a workgroup, in every pass
  int64_t block = 0;           // elements of the first runs
  bool has_positions = false;  // beside the keys: of 64-bit dtypes
  int merges = 0;              // dispatches that merge
  uint64_t rows_at_once = 0;   // rows whose keys are in memory at a time, for which the grids are
  Grid block_grid, merge_grid, emit_grid;
};
SortPlan sort_plan(const DeviceProfile& profile, const SortProblem& problem);
std::string text_of(const SortPlan& plan);

// Invocations of a workgroup of searchsorted and nonzero_write.
uint32_t search_local(const DeviceProfile& profile);

}  // namespace aule::ops
