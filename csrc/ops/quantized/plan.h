// Launches of products with quantized weights: pure functions of sizes and of what is known of the device.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "core/access.h"
#include "core/device_profile.h"
#include "ops/matmul/route.h"
#include "ops/quantized/format.h"

namespace aule::ops {

constexpr int64_t kMostFewRows = 16;  // with more, weights are decoded first

// gemv_quantized.comp
struct QuantizedGemvPlan {
  bool dot = false;     // dot products of integers
  int rows = 1;         // of x at a time
  int columns = 1;      // of an invocation
  uint32_t slice = 32;  // invocations that share them
  uint32_t local = 128;
  Grid grid{};
};

struct QuantizedGemvProblem {
  uint64_t m = 0, n = 0;
  uint64_t spans = 0;     // of a row, that an invocation decodes at once
  uint64_t pairs = 0;     // of a row and an expert; 0: no experts
  bool gated = false;     // n values are made of twice as many rows of the weight
  bool integers = false;  // x has 16 bits, and the format's numbers are integers
};

// gemm_quantized.comp: a product on matrix units with a weight that is decoded in its loader, once for each tile of
// rows. For more than four of these the weight is decoded first, which took an H100 as long as four times here.
struct QuantizedGemmPlan {
  CoopMatPlan product;
  uint32_t parts = 1;  // of a span, one for a step along k
};

// Nothing: the weight is decoded first, and the product is one of dense matrices. `problem` says of the weight its
// sizes alone: b is k-major, at address 0.
std::optional<QuantizedGemmPlan> quantized_gemm_plan(const DeviceProfile& profile, const MatrixUnits& units,
                                                     const GemmProblem& problem, const QuantizedFormat& format);
std::string text_of(const QuantizedGemmPlan& plan);

QuantizedGemvPlan quantized_gemv_plan(const DeviceProfile& profile, const QuantizedGemvProblem& problem);
std::string text_of(const QuantizedGemvPlan& plan);

}  // namespace aule::ops
