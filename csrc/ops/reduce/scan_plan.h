// Launches that scan rows: a pure function of sizes and what is known of the device.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "core/access.h"
#include "core/device_profile.h"

namespace aule::ops {

// Contiguous [.., n, inner]; each of `rows` rows of n elements, `inner` apart, is scanned.
struct ScanProblem {
  uint64_t rows = 1, n = 1, inner = 1;
  uint64_t turns = 1;  // loop iterations that an element takes
};

// scan.comp. A row of one chunk takes one pass; else the totals of chunks, their prefixes, and the results.
struct ScanPlan {
  bool by_workgroup = false;  // one for each chunk, instead of one invocation
  uint32_t local = 0;
  uint64_t chunk = 0, chunks = 1;  // elements of a chunk, chunks of a row
  Grid grid{};
  struct Prefixes {  // by one invocation for each row
    uint32_t local = 0;
    Grid grid{};
  };
  std::optional<Prefixes> prefixes;  // none if a row is one chunk
};

// Nothing: the prefixes of a row's chunks need a longer loop than the driver allows.
std::optional<ScanPlan> scan_plan(const DeviceProfile& profile, const ScanProblem& problem);
std::string text_of(const ScanPlan& plan);

}  // namespace aule::ops
