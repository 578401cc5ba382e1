// Launches of losses over classes: pure functions of sizes, dtypes and what is known of the device.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "core/device_profile.h"
#include "core/dtype.h"

namespace aule::ops {

// Logits [rows, n].
struct CrossEntropyProblem {
  DType dtype = DType::f32;
  int64_t rows = 0, n = 0;
  bool per_row = false;  // a loss for each row, without their sum
};

// cross_entropy.comp: the loss and the log-sum-exp of each row in one reading. Then nll_loss_sum.comp adds up.
struct CrossEntropyPlan {
  bool by_subgroups = false;  // reductions in subgroups; otherwise in shared memory
  uint32_t local = 0;         // invocations of a workgroup
  int64_t groups = 0;         // workgroups, each of which has every groups-th row, and partial sums
  uint32_t sum_local = 0;     // invocations of the sum's workgroup
  int64_t block_elems = 0;    // elements of 16 bytes, which an invocation loads at a time
};
// Nothing where log-softmax and nll_loss serve: on software devices, and for rows shorter than 16 bytes.
std::optional<CrossEntropyPlan> cross_entropy_plan(const DeviceProfile& profile, const CrossEntropyProblem& problem);
std::string text_of(const CrossEntropyPlan& plan);

// Partial sums of nll_loss.comp, each over positions / chunks positions.
uint32_t nll_loss_chunks(const DeviceProfile& profile, int64_t positions);

}  // namespace aule::ops
