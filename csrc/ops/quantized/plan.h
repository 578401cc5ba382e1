// Launches of products with quantized weights: pure functions of sizes and of what is known of the device.
#pragma once
#include <cstdint>
#include <string>

#include "core/access.h"
#include "core/device_profile.h"

namespace aule::ops {

constexpr int64_t kMostFewRows = 16;  // with more, weights are decoded first

// gemv_quantized.comp
struct QuantizedGemvPlan {
  int rows = 1;         // of x at a time
  int columns = 1;      // of an invocation
  uint32_t slice = 32;  // invocations that share them
  uint32_t local = 128;
  Grid grid{};
};

struct QuantizedGemvProblem {
  uint64_t m = 0, n = 0;
  uint64_t spans = 0;  // of a row, that an invocation decodes at once
  uint64_t pairs = 0;  // of a row and an expert; 0: no experts
};

QuantizedGemvPlan quantized_gemv_plan(const DeviceProfile& profile, const QuantizedGemvProblem& problem);
std::string text_of(const QuantizedGemvPlan& plan);

}  // namespace aule::ops
