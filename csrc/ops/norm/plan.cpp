#include "ops/norm/plan.h"

#include <algorithm>
#include <bit>
#include <sstream>

#include "ops/tensor/loop_limit.h"
#include "ops/tensor/plan_text.h"

namespace aule::ops {
namespace {

uint64_t bytes_of(const RowOperand& t) { return dtype_size(t.dtype); }
bool aligned16(const RowOperand& t) { return t.address % 16 == 0; }
bool is_half(const RowOperand& t) { return bytes_of(t) == 2 && is_floating(t.dtype); }

// Four elements are one access.
bool has_vec4(const RowOperand& t) {
  const uint64_t access = 4 * bytes_of(t);
  return access <= 16 && bytes_of(t) >= 2 && is_floating(t.dtype) && t.address % access == 0;
}

bool adds_by_subgroups(const Caps& caps) {
  return caps.subgroup_arithmetic && caps.subgroup_shuffle && caps.min_subgroup_size >= 4;
}

uint32_t largest_local(const Caps& caps) {
  return std::min<uint32_t>(1024, std::bit_floor(caps.max_workgroup_invocations));
}

struct RowShape {
  uint64_t rows, n, inner;
  bool alone = false;  // an invocation per row on every device
  // If not 0, the kernel takes RowVec::vec8_any_start, with this many invocations for a row that is too long for the
  // registers.
  uint32_t any_start_local = 0;
};
using Operands = c10::SmallVectorImpl<RowOperand>;

// Gives each invocation of a workgroup its share of a row.
void share(RowwisePlan& plan, uint64_t elements, uint32_t largest) {
  constexpr uint32_t kItems = 4, kMostItems = 8;
  const uint64_t vec4s = ceil_div(elements, 4);
  plan.local = static_cast<uint32_t>(std::clamp<uint64_t>(std::bit_ceil(ceil_div(vec4s, kItems)), 32, 256));
  while (plan.local < largest && vec4s > uint64_t{plan.local} * kMostItems) plan.local *= 2;
  uint64_t items = ceil_div(vec4s, plan.local);
  if (plan.vec == RowVec::vec8 || plan.vec == RowVec::vec8_any_start) items += items & 1;  // in pairs
  plan.items = items <= kMostItems ? static_cast<int>(items) : 0;
}

RowwisePlan rowwise_plan(const Caps& caps, const RowShape& r, const Operands& operands) {
  const auto all = [&](auto&& is) { return std::all_of(operands.begin(), operands.end(), is); };
  const auto any = [&](auto&& is) { return std::any_of(operands.begin(), operands.end(), is); };
  RowwisePlan plan;
  if (r.inner == 1 && r.n % 4 == 0 && all(has_vec4)) plan.vec = RowVec::vec4;
  if (r.alone || caps.is_software() || r.inner != 1 || r.n < 16) {
    plan.local = caps.is_software() ? 8 : 64;
    plan.grid = linear_grid(ceil_div(r.rows, plan.local));
    return plan;
  }
  const bool has_doubles = any([](const RowOperand& t) { return bytes_of(t) == 8; });
  plan.owner = adds_by_subgroups(caps) && !has_doubles ? RowOwner::workgroup_subgroups : RowOwner::workgroup_tree;
  const bool has_halves = any([](const RowOperand& t) { return bytes_of(t) == 2; });
  if (plan.vec == RowVec::vec4 && has_halves && r.n % 8 == 0 && all(aligned16)) plan.vec = RowVec::vec8;
  const uint32_t largest = largest_local(caps);
  share(plan, r.n, largest);
  plan.is_full = plan.vec != RowVec::one && uint64_t{plan.local} * plan.items * 4 == r.n;
  if (r.any_start_local != 0 && (plan.vec == RowVec::one || plan.items == 0) &&
      all([](const RowOperand& t) { return is_half(t) && aligned16(t); })) {
    plan.vec = RowVec::vec8_any_start;
    share(plan, r.n + 7, largest);  // a row may begin at the end of a block
    if (plan.items == 0) plan.local = std::min(largest, r.any_start_local);
  }
  plan.grid = linear_grid(r.rows);
  return plan;
}

// The rowwise kernels of norms read a row twice, four elements an iteration.
bool norm_walkable(const Caps& caps, const NormRows& s) {
  return may_walk(caps, static_cast<uint64_t>(s.n / 2 + s.n / 1024 + 4));
}

RowwisePlan norm_rowwise_plan(const Caps& caps, const NormRows& s, const Operands& operands) {
  return rowwise_plan(caps, {static_cast<uint64_t>(s.rows), static_cast<uint64_t>(s.n), 1}, operands);
}

// Doubles `local` until no invocation has more than `most_items` groups of four, or the device has no larger workgroup.
int64_t grown_local(int64_t local, int64_t vec4s, int64_t most_items, int64_t largest) {
  while (local < largest && vec4s > local * most_items) local *= 2;
  return local;
}

bool persistent_walkable(const Caps& caps, int64_t rows, int64_t groups) {
  return may_walk(caps, 16 * ceil_div(rows, groups));  // its trees' loops counted
}

// Nothing for software devices, float32 and float64, short rows, and addresses that are not aligned to 16 bytes.
std::optional<PersistentPlan> forward_persistent_plan(const DeviceProfile& profile, const NormForwardProblem& problem) {
  const int64_t rows = problem.rows.rows, n = problem.rows.n;
  constexpr int64_t kItems = 8, kLocal = 128, kResident = 1280;  // invocations of a multiprocessor
  if (problem.rows.is_rms || problem.rows.channels != 0) return std::nullopt;
  if (profile.is_software() || n <= kLocal * kItems * 2 || n % 8 != 0 || rows > 0x7fffffff) return std::nullopt;
  if (bytes_of(problem.x) != 2 || bytes_of(problem.y) != 2) return std::nullopt;
  if (!aligned16(problem.x) || !aligned16(problem.y)) return std::nullopt;
  for (const auto* t : {&problem.w, &problem.b})
    if (*t && (bytes_of(**t) > 4 || !aligned16(**t))) return std::nullopt;
  const int64_t vec4s = n / 4, largest = largest_local(profile);
  const int64_t local = grown_local(kLocal, vec4s, kItems, largest);
  if (local > largest || vec4s > local * kItems) return std::nullopt;
  const int64_t each = ceil_div(vec4s, local), items = each + (each & 1);  // in pairs
  const int64_t resident = std::max<int64_t>(1, kResident / local) * profile.multiprocessors;
  const int64_t groups = std::min(rows, resident);
  if (!persistent_walkable(profile, rows, groups)) return std::nullopt;
  return PersistentPlan{.subgroup_sums = adds_by_subgroups(profile),
                        .items = static_cast<int>(items),
                        .is_full = local * items * 4 == n,
                        .local = static_cast<uint32_t>(local),
                        .groups = static_cast<uint32_t>(groups)};
}

// Nothing for software devices, float64, and rows that are short or long.
std::optional<PersistentBackwardPlan> backward_persistent_plan(const DeviceProfile& profile,
                                                               const NormBackwardProblem& problem) {
  const int64_t rows = problem.rows.rows, n = problem.rows.n;
  if (problem.rows.channels != 0) return std::nullopt;
  if (profile.is_software() || rows == 0 || n < 16 || rows > 0x7fffffff) return std::nullopt;
  bool halves = false, all_aligned16 = true, all_vec4 = n % 4 == 0;
  for (const RowOperand* t :
       {&problem.grad, &problem.x, problem.w ? &*problem.w : nullptr, problem.dx ? &*problem.dx : nullptr}) {
    if (!t) continue;
    if (bytes_of(*t) != 2 && bytes_of(*t) != 4) return std::nullopt;
    halves = halves || bytes_of(*t) == 2;
    all_vec4 = all_vec4 && t->address % (4 * bytes_of(*t)) == 0;
    all_aligned16 = all_aligned16 && aligned16(*t);
  }
  const RowVec vec = !all_vec4 ? RowVec::one : halves && n % 8 == 0 && all_aligned16 ? RowVec::vec8 : RowVec::vec4;
  const int64_t vec4s = ceil_div(n, 4), largest = largest_local(profile);
  // Two workgroups of 512 to a multiprocessor, of 256 for layer norm of half types: docs/ladders/norm_bwd_persistent.md
  const bool small = halves && !problem.rows.is_rms;
  const int64_t most_local = small ? 256 : 512, wanted_items = small ? 4 : 2;
  constexpr int64_t kMostItems = 4;
  int64_t local = std::bit_ceil(static_cast<uint64_t>(ceil_div(vec4s, wanted_items)));
  local = std::clamp<int64_t>(local, 32, std::min(most_local, largest));
  local = grown_local(local, vec4s, kMostItems, largest);
  int64_t items = ceil_div(vec4s, local);
  if (vec == RowVec::vec8) items += items & 1;  // in pairs
  if (items > kMostItems) return std::nullopt;
  // As many workgroups as are resident at once. With fewer than 8 rows for each, their partial sums would cost too
  // much, so there are fewer, but one to a multiprocessor at least.
  const int64_t processors = profile.multiprocessors;
  const int64_t resident = processors * std::max<int64_t>(2, (small ? 512 : 1024) / local);
  const int64_t groups = std::min({rows, resident, std::max(processors, rows / 8)});
  if (!persistent_walkable(profile, rows, groups)) return std::nullopt;
  return PersistentBackwardPlan{.rows = {.subgroup_sums = profile.subgroup_arithmetic && profile.min_subgroup_size >= 4,
                                         .items = static_cast<int>(items),
                                         .is_full = vec != RowVec::one && local * items * 4 == n,
                                         .local = static_cast<uint32_t>(local),
                                         .groups = static_cast<uint32_t>(groups)},
                                .vec = vec,
                                .loads_ahead = halves && vec != RowVec::one};
}

std::string text_of(RowVec vec) {
  static constexpr const char* kNames[] = {"", " vec4", " vec8", " vec8 at any start"};
  return kNames[static_cast<size_t>(vec)];
}

std::string text_of(const RowwisePlan& plan) {
  static constexpr const char* kOwners[] = {"invocation", "workgroup, tree", "workgroup, subgroups"};
  std::ostringstream text;
  text << "row by " << kOwners[static_cast<size_t>(plan.owner)] << text_of(plan.vec) << " items " << plan.items
       << (plan.is_full ? " full" : "") << " local " << plan.local << ' ' << grid_text(plan.grid);
  return text.str();
}

std::string text_of(const PersistentPlan& plan) {
  std::ostringstream text;
  text << "persistent, " << (plan.subgroup_sums ? "subgroups" : "tree") << " items " << plan.items
       << (plan.is_full ? " full" : "") << " local " << plan.local << " groups " << plan.groups;
  return text.str();
}

std::string text_of(const PersistentBackwardPlan& plan) {
  return text_of(plan.rows) + text_of(plan.vec) + (plan.loads_ahead ? " loads ahead" : "");
}

std::string text_of(const LongRowsPlan&) { return "long rows"; }
std::string text_of(const NoRowsPlan&) { return "no rows"; }

template <class Plan>
std::string text_of_variant(const Plan& plan) {
  return std::visit([](const auto& p) { return text_of(p); }, plan);
}

}  // namespace

DType SoftmaxProblem::arithmetic() const {
  for (const RowOperand& t : operands)
    if (t.dtype == DType::f64) return DType::f64;
  return DType::f32;
}

SoftmaxPlan softmax_plan(const DeviceProfile& profile, const SoftmaxProblem& problem) {
  // Forward eight elements at a time, backward four, twice.
  if (!may_walk(profile, problem.n / (problem.is_backward ? 2 : 4) + 2)) return LongRowsPlan{};
  return rowwise_plan(profile,
                      {.rows = problem.rows,
                       .n = problem.n,
                       .inner = problem.inner,
                       .alone = problem.arithmetic() == DType::f64,
                       .any_start_local = problem.is_backward ? 512u : 256u},
                      problem.operands);
}

NormForwardPlan norm_forward_plan(const DeviceProfile& profile, const NormForwardProblem& problem) {
  if (const auto plan = forward_persistent_plan(profile, problem)) return *plan;
  if (!norm_walkable(profile, problem.rows)) return LongRowsPlan{};
  c10::SmallVector<RowOperand, 4> operands{problem.x, problem.y};
  if (problem.rows.channels == 0) {
    if (problem.w) operands.push_back(*problem.w);
    if (problem.b) operands.push_back(*problem.b);
  }
  return norm_rowwise_plan(profile, problem.rows, operands);
}

NormBackwardPlan norm_backward_plan(const DeviceProfile& profile, const NormBackwardProblem& problem) {
  if (const auto plan = backward_persistent_plan(profile, problem)) return *plan;
  if (!problem.dx || problem.rows.rows == 0 || problem.rows.n == 0) return NoRowsPlan{};
  if (!norm_walkable(profile, problem.rows)) return LongRowsPlan{};
  c10::SmallVector<RowOperand, 4> operands{problem.grad, problem.x, *problem.dx};
  if (problem.rows.channels == 0 && problem.w) operands.push_back(*problem.w);
  return norm_rowwise_plan(profile, problem.rows, operands);
}

ParamSumsPlan param_sums_plan(const DeviceProfile& profile, const ParamSumsProblem& problem) {
  const ParamSums& s = problem.sums;
  const bool cpu = profile.is_software();
  ParamSumsPlan plan;
  plan.by_workgroup = !cpu && s.hop != 1;
  // The sum is split into enough chunks to fill the device. A chunk is long enough to pay for the second addition.
  const bool fours = plan.by_workgroup
                         ? s.inner % 4 == 0 && s.hop % 4 == 0 && s.hop1 % 4 == 0
                         : s.inner == 1 && s.hop == 1 && s.n_out % 4 == 0 && (s.stat_hop == 0 || s.stat_div % 4 == 0);
  plan.vec4 = fours && problem.x.dtype != DType::f64 && aligned16(problem.grad) && aligned16(problem.x);
  const int64_t outputs = plan.vec4 && !plan.by_workgroup ? s.n_out / 4 : s.n_out;
  const int64_t wanted = (cpu                 ? 128
                          : plan.by_workgroup ? 512
                                              : 32768) /
                         outputs,
                shortest = plan.by_workgroup ? 2048 : 32;
  int64_t splits = std::clamp<int64_t>(wanted, 1, std::max<int64_t>(1, s.n_red / shortest));
  if (walks_limited(profile)) splits = std::max<int64_t>(splits, ceil_div(s.n_red, longest_walk(profile)));
  plan.chunk = std::max<int64_t>(1, ceil_div(s.n_red, splits));
  if (plan.by_workgroup) plan.chunk = round_up(plan.chunk, 4);
  plan.chunks = std::max<int64_t>(1, ceil_div(s.n_red, plan.chunk));
  plan.local = plan.by_workgroup ? 256 : cpu ? 8 : 64;
  const int64_t work = outputs * plan.chunks;
  plan.grid = linear_grid(plan.by_workgroup ? work : ceil_div(work, plan.local));
  return plan;
}

BatchNormPlan batch_norm_plan(const BatchNormProblem& problem) {
  constexpr uint64_t kManyInvocations = 1 << 18;  // more than a device runs at once
  BatchNormPlan plan{.local = 64};
  const bool aligned = problem.x.dtype != DType::f64 && aligned16(problem.x) && aligned16(problem.out) &&
                       (!problem.grad || aligned16(*problem.grad));
  const auto loads_four = [](const RowOperand& t) { return has_vec4(t) && aligned16(t); };
  if (aligned && problem.hw % 4 == 0)
    plan.vec = BatchVec::four_of_a_channel;
  else if (aligned && problem.hw == 1 && problem.channels % 4 == 0 &&
           std::all_of(problem.of_channels.begin(), problem.of_channels.end(), loads_four))
    plan.vec = BatchVec::four_channels;
  uint64_t invocations = plan.vec == BatchVec::one ? problem.numel : problem.numel / 4;
  if (plan.vec == BatchVec::four_channels) {
    const auto channels = static_cast<uint64_t>(problem.channels), rows = problem.numel / channels;
    while (plan.rows < 4 && invocations / plan.rows > kManyInvocations) plan.rows *= 2;
    invocations = ceil_div(rows, plan.rows) * (channels / 4);
  }
  plan.grid = linear_grid(ceil_div(invocations, plan.local));
  return plan;
}

std::string text_of(const SoftmaxPlan& plan) { return text_of_variant(plan); }
std::string text_of(const NormForwardPlan& plan) { return text_of_variant(plan); }
std::string text_of(const NormBackwardPlan& plan) { return text_of_variant(plan); }

std::string text_of(const ParamSumsPlan& plan) {
  std::ostringstream text;
  text << "sums by " << (plan.by_workgroup ? "workgroup" : "invocation") << (plan.vec4 ? " vec4" : "") << " local "
       << plan.local << " chunk " << plan.chunk << " chunks " << plan.chunks << ' ' << grid_text(plan.grid);
  return text.str();
}

std::string text_of(const BatchNormPlan& plan) {
  static constexpr const char* kVec[] = {"", " vec4", " vec4 of channels"};
  return "elements" + std::string(kVec[static_cast<size_t>(plan.vec)]) +
         (plan.rows > 1 ? " in " + std::to_string(plan.rows) + " rows" : "") + " local " + std::to_string(plan.local) +
         " " + grid_text(plan.grid);
}

}  // namespace aule::ops
