// Launches of softmax and norms: pure functions of sizes, dtypes, addresses and what is known of the device.
#pragma once
#include <c10/util/SmallVector.h>

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "core/access.h"
#include "core/device_profile.h"
#include "core/dtype.h"

namespace aule::ops {

// Contiguous rows, or a vector that belongs to each of them. An address of 0 is that of memory yet to be allocated.
struct RowOperand {
  DType dtype = DType::f32;
  uint64_t address = 0;
};

// Elements of a row per access (shaders/norm/rowwise_group.glsl).
enum class RowVec : int { one, vec4, vec8, vec8_any_start };
// The owner of a row: axis GROUP. A workgroup adds by a tree in shared memory, or by subgroups first.
enum class RowOwner : int { invocation, workgroup_tree, workgroup_subgroups };

// Kernels that treat the rows independently (softmax.comp, norm_fwd.comp and their gradients).
struct RowwisePlan {
  RowOwner owner = RowOwner::invocation;
  RowVec vec = RowVec::one;
  int items = 0;         // groups of four that an invocation keeps in registers; 0: the row is read again
  bool is_full = false;  // items cover the row exactly and vec is not `one`
  uint32_t local = 0;
  Grid grid{};
};
// Rows that are too long for the loops of one invocation (loop_limit.h): by reductions and pointwise kernels.
struct LongRowsPlan {};

struct SoftmaxProblem {
  bool is_backward = false;
  uint64_t rows = 0, n = 0, inner = 1;         // neighbours of a row are `inner` apart
  c10::SmallVector<RowOperand, 3> operands{};  // all of them, results too
  DType arithmetic() const;
};
using SoftmaxPlan = std::variant<RowwisePlan, LongRowsPlan>;
SoftmaxPlan softmax_plan(const DeviceProfile& profile, const SoftmaxProblem& problem);

// Rows of n elements. `channels` is 0 when parameters are per element of the row; else parameter
// (row % groups) * channels + k / hw belongs to element k.
struct NormRows {
  int64_t rows, n;
  int64_t hw = 1, groups = 1, channels = 0;
  bool is_rms = false;
};

// Half types: workgroups that stay, and take many rows (norm_fwd_persistent.comp, norm_bwd_persistent.comp).
struct PersistentPlan {
  bool subgroup_sums = false;
  int items = 0;         // groups of four that an invocation keeps in registers
  bool is_full = false;  // items cover the row exactly, in whole accesses
  uint32_t local = 0, groups = 0;
};

struct NormForwardProblem {
  NormRows rows{};
  RowOperand x, y;
  std::optional<RowOperand> w, b;
};
using NormForwardPlan = std::variant<PersistentPlan, RowwisePlan, LongRowsPlan>;
NormForwardPlan norm_forward_plan(const DeviceProfile& profile, const NormForwardProblem& problem);

struct NormBackwardProblem {
  NormRows rows{};
  RowOperand grad, x;
  std::optional<RowOperand> w, dx;
};
// dx and the parameters' gradients in one pass over the rows; the latter as one partial sum of each workgroup, which
// norm_params_sum.comp adds.
struct PersistentBackwardPlan {
  PersistentPlan rows;
  RowVec vec = RowVec::one;
  bool loads_ahead = false;  // the next row, while this one is computed
};
struct NoRowsPlan {};  // no dx
// The plan of dx. All but the first leave the parameters' gradients to param_sums_plan().
using NormBackwardPlan = std::variant<PersistentBackwardPlan, RowwisePlan, LongRowsPlan, NoRowsPlan>;
NormBackwardPlan norm_backward_plan(const DeviceProfile& profile, const NormBackwardProblem& problem);

// The position of element (o, r) of parameter o. The head of norm_bwd_params.comp has the values for layer, group and
// batch norm.
struct ParamSums {
  int64_t n_out, n_red;
  int64_t inner, hop1, hop;
  int64_t stat_hop, stat_div;
};
struct ParamSumsProblem {
  ParamSums sums;  // n_out and n_red are not 0
  RowOperand grad, x;
};
// norm_bwd_params.comp: a partial sum for each chunk and parameter; a reduction adds those.
struct ParamSumsPlan {
  bool by_workgroup = false;  // one for each parameter and chunk, instead of one invocation
  bool vec4 = false;          // an invocation has four parameters, or takes four elements at once
  uint32_t local = 0;
  int64_t chunk = 0, chunks = 1;  // elements of a chunk, chunks of a parameter
  Grid grid{};
};
ParamSumsPlan param_sums_plan(const DeviceProfile& profile, const ParamSumsProblem& problem);

struct BatchNormProblem {
  uint64_t numel = 0;
  int64_t channels = 1, hw = 1;
  RowOperand x, out;
  std::optional<RowOperand> grad;
  c10::SmallVector<RowOperand, 6> of_channels{};  // operands with an element for each channel
};
// Neighbours that an invocation of batch_norm.comp has: its VEC.
enum class BatchVec : int { one, four_of_a_channel, four_channels };
// The same on every device.
struct BatchNormPlan {
  BatchVec vec = BatchVec::one;
  uint32_t rows = 1;  // of an invocation, which has four channels
  uint32_t local = 0;
  Grid grid{};
};
BatchNormPlan batch_norm_plan(const BatchNormProblem& problem);

// The kernel's family, its sizes and its grid.
std::string text_of(const SoftmaxPlan& plan);
std::string text_of(const NormForwardPlan& plan);
std::string text_of(const NormBackwardPlan& plan);
std::string text_of(const ParamSumsPlan& plan);
std::string text_of(const BatchNormPlan& plan);

}  // namespace aule::ops
