// Launches that reduce a set of dimensions: a pure function of sizes, strides, dtypes and what is known of the device.
#pragma once
#include <c10/util/SmallVector.h>

#include <array>
#include <bitset>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include "core/access.h"
#include "core/device_profile.h"
#include "core/dtype.h"

namespace aule::ops {

enum class ReduceOp : int {
#define REDUCE_OP(code, name) name = code,
#include "reduce/reduce_ops.def"
#undef REDUCE_OP
};
// The state of an output; see reduce.comp.
enum class ReduceKind { value, arg, moments, lse, minmax };

struct Reduction {
  ReduceOp op = ReduceOp::sum;
  ReduceKind kind = ReduceKind::value;
  float arg = 0;         // p of a norm, correction of var, eps of invstd
  bool minimum = false;  // kind arg: look for the minimum
};

constexpr size_t kMaxDims = 64;
using DimMask = std::bitset<kMaxDims>;

struct ReductionProblem {
  Reduction reduction;
  std::span<const int64_t> sizes, strides;  // of the input; strides in elements
  std::span<const int64_t> out_strides;     // of the results, with or without the reduced dimensions
  DimMask reduced{};
  DType in = DType::f32, result = DType::f32;  // `result` is i64 if only indices are wanted
  uint64_t in_address = 0;
};

// A dimension of the kernel; reduced ones have no `out`.
struct ReduceDim {
  int64_t size, in, out;
};

// The dimensions after neighbours in memory were joined, fastest first. These are all that the kernel's params hold.
struct ReduceLayout {
  std::array<ReduceDim, 3> kept{};
  std::array<ReduceDim, 2> red{};
  size_t kept_dims = 0, red_dims = 0;
  int64_t n_out = 1, n_red = 1;
};

// Sums over the rows of a matrix, such as the gradient of a bias: 16-byte loads (column_sum.comp), then the sum of the
// `splits` partial sums of each column (norm_params_sum.comp).
struct ColumnSumPlan {
  int64_t row_stride = 0;  // elements
  int64_t chunk = 0;       // rows of a split
  uint32_t splits = 0;
  uint32_t blocks = 0;  // workgroups across the columns
  Grid grid{};
  uint32_t sum_blocks = 0;  // workgroups of the second kernel
};

// One launch of reduce.comp.
struct ReducePass {
  enum class Step : int { input_to_results, input_to_states, states_to_results, states_to_fewer };  // constant PASS
  Step step = Step::input_to_results;
  bool by_workgroup = false;  // one for each output and chunk, instead of one invocation
  uint32_t local = 0;
  int64_t n_red = 0;   // elements or states that each output has before the pass
  int64_t chunk = 0;   // of these, per invocation or workgroup; to results: the divisor of a mean
  int64_t chunks = 1;  // states of each output after the pass
  Grid grid{};
};

// Any other reduction: one pass, or more over the states of chunks.
struct ReducePlan {
  DType arithmetic = DType::f32;
  bool needs_u64 = false;  // sizes past 2^32
  int64_t state_bytes = 0;
  c10::SmallVector<ReducePass, 3> passes;
};

struct ReductionPlan {
  ReduceLayout layout;
  std::variant<ColumnSumPlan, ReducePlan> kernels;
};

// Integers in int64 (as are yes/no answers and counts, of any dtype), else float, double, or pairs of them.
DType arithmetic_of(const ReductionProblem& problem);
// Nothing: too many dimensions for the kernel. [n_out, n_red], contiguous, always has a plan.
std::optional<ReductionPlan> reduction_plan(const DeviceProfile& profile, const ReductionProblem& problem);

// norm_many.comp, norms of many tensors at once. A tensor of more elements has a reduction of its own.
struct NormListPlan {
  bool by_workgroup = false;  // one for each chunk, instead of one invocation
  uint32_t local = 8;
  uint32_t chunk = 1024;  // elements
  int64_t most_elems = 0;
};
NormListPlan norm_list_plan(const DeviceProfile& profile);
std::string text_of(const NormListPlan& plan);

// "workgroup local 256 chunk 8192 ..., then ...": every pass with its sizes and grid.
std::string text_of(const ReductionPlan& plan);

}  // namespace aule::ops
