#include "ops/attention/family/splitkv.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <limits>
#include <sstream>

#include "ops/attention/call.h"
#include "ops/attention/family/tuning_table.h"
#include "ops/tensor/arrivals.h"

namespace aule::ops {
namespace {

void set_plan(FlashAttnSplitkvSpec& spec, const FlashSplitKvPlan& plan, const AttentionProblem& problem,
              uint32_t cluster) {
  spec.local = plan.local;
  spec.members = problem.heads / problem.kv_heads;
  spec.queries = problem.q_len;
  spec.vec8s = ceil_div(problem.head_dim, 8);
  spec.vec8s_v = ceil_div(problem.v_dim, 8);
  spec.cluster = cluster;
  spec.lanes = plan.lanes;
  spec.keys = plan.keys_per_lane;
  spec.pass = plan.rows_per_pass;
  spec.int8 = problem.int8;
}

// Number of splits of the keys of each of `groups` heads. A workgroup fills one of the `processors`, so they run in
// rounds. A round takes its steps of the keys, two more to begin and to end, and some to combine many splits.
int splitkv_splits(int64_t groups, int64_t steps, int64_t processors) {
  int64_t best = 1, least = std::numeric_limits<int64_t>::max();
  for (int64_t splits = 1; splits <= std::min(steps, processors); ++splits) {
    const int64_t rounds = ceil_div(groups * splits, processors);
    const int64_t cost = rounds * (ceil_div(steps, splits) + 2 + (splits > 1 ? 1 + splits / 24 : 0));
    if (cost < least) {
      least = cost;
      best = splits;
    }
  }
  return static_cast<int>(best);
}

int vec8s(int64_t columns) { return static_cast<int>(ceil_div(columns, 8)); }

}  // namespace

bool FlashSplitKvPlan::is_usual(const DeviceProfile& profile, const AttentionProblem& problem, AttentionVariant asked) {
  // One query has no use for tiles of queries, however few its keys are.
  return asked == AttentionVariant::any && !profile.is_software() && (problem.k_len >= 256 || problem.q_len == 1);
}

std::optional<FlashSplitKvPlan> FlashSplitKvPlan::make(const DeviceProfile& profile, const AttentionProblem& problem,
                                                       AttentionPass pass, const Overrides& overrides) {
  if (!problem.int8 && (problem.num_splits == 1 || problem.mask.has_blocks())) return {};
  if (pass != AttentionPass::forward || !problem.fits_i32 || problem.kv_heads == 0 || problem.batch == 0 ||
      problem.head_dim > 256 || problem.v_dim > 256 || problem.batch > profile.max_group_count[2] ||
      problem.kv_heads > profile.max_group_count[1])
    return {};
  const int64_t rows = problem.heads / problem.kv_heads * problem.q_len, groups = problem.batch * problem.kv_heads;
  const auto cluster = static_cast<int>(profile.min_subgroup_size);
  if (rows < 1 || rows > 16 || !profile.subgroup_shuffle || cluster < 4 || profile.max_push_constant_bytes < 256)
    return {};
  FlashSplitKvPlan plan;
  plan.rows = 1;
  while (plan.rows < rows && plan.rows < 4) plan.rows *= 2;
  while (plan.rows * plan.subgroups < rows) plan.subgroups *= 2;
  // Loads of 16 bytes, or of 32 if they are float32.
  const auto loads = static_cast<int>(ceil_div(std::max(problem.head_dim, problem.v_dim), problem.int8 ? 16 : 8));
  plan.lanes = plan.rows;
  while (plan.lanes < loads && plan.lanes < cluster) plan.lanes *= 2;
  // A CPU's compiler likes small workgroups. Sixteen columns of several rows fill the registers of many invocations.
  const bool cpu = profile.is_software(), narrow = problem.vec16b || problem.int8;
  plan.local = cpu ? cluster * plan.subgroups : narrow ? family_limits(profile).splitkv_local : 256;
  if (problem.int8 && plan.rows > 1 && !cpu) plan.local = std::min(plan.local, 256);
  // With few keys a step of more invocations is mostly empty, and putting their sums together takes longer.
  if (narrow && !cpu && plan.subgroups == 1 && problem.k_len < 2048)
    plan.local = std::min(plan.local, problem.k_len < 1024 ? 128 : 256);
  plan.keys_per_lane = cpu ? 2 : narrow ? 4 : 8;
  const Numbers& asked = overrides.attention_shape;
  if (overrides.attention_variant == AttentionVariant::splitkv && asked.count > 0) {
    plan.local = asked.values[0];
    if (asked.count > 1) plan.keys_per_lane = asked.values[1];
  }
  const auto has_room = [&] {
    FlashAttnSplitkvSpec spec;
    set_plan(spec, plan, problem, profile.min_subgroup_size);
    return shared_bytes(kernel::flash_attn_splitkv(), spec) <= profile.shared_bytes;
  };
  plan.rows_per_pass = plan.rows;
  while (plan.rows_per_pass > 1 && !has_room()) plan.rows_per_pass /= 2;
  const auto most = static_cast<int>(profile.max_workgroup_invocations);
  while (plan.local > cluster * plan.subgroups && (plan.local > most || !has_room())) plan.local /= 2;
  if (plan.local > most || !has_room() || plan.local % static_cast<int>(profile.max_subgroup_size) != 0 ||
      plan.local % (cluster * plan.subgroups) != 0)
    return {};
  const int64_t step = plan.local / plan.lanes / plan.subgroups * plan.keys_per_lane;
  const int64_t steps = std::max<int64_t>(ceil_div(problem.k_len, step), 1);
  plan.splits = problem.num_splits > 0 ? static_cast<int>(std::min({problem.num_splits, steps, int64_t{512}}))
                                       : splitkv_splits(groups, steps, profile.multiprocessors);
  return plan;
}

std::string text_of(const FlashSplitKvPlan& p) {
  std::ostringstream text;
  text << " local=" << p.local << " lanes=" << p.lanes << " rows=" << p.rows << " subgroups=" << p.subgroups
       << " keys_per_lane=" << p.keys_per_lane << " rows_per_pass=" << p.rows_per_pass << " splits=" << p.splits;
  return text.str();
}

void launch_forward(const AttentionCall& call, const FlashSplitKvPlan& plan, const at::Tensor& out,
                    const at::Tensor& logsumexp) {
  const auto& problem = call.problem;
  const int64_t groups = problem.batch * problem.kv_heads, members = problem.heads / problem.kv_heads;
  TensorArgs args;
  auto p = attention_params<FlashAttnSplitkvParams>(call, args, 0);
  p.splits = plan.splits;
  p.out_ = args.write(out);
  p.logsumexp = args.write(logsumexp);
  set_strides(p.out_stride, out);
  at::Tensor partial, stats, counters;
  if (plan.splits > 1) {
    const auto floats = call.query.options().dtype(at::kFloat);
    partial = at::empty({groups, plan.splits, members * problem.q_len, vec8s(problem.v_dim) * 8}, floats);
    stats = at::empty({groups, plan.splits, members * problem.q_len, 2}, floats);
    counters = arrival_counters(call.query, groups);
    p.partial = args.write(partial);
    p.stats = args.write(stats);
    p.counters = args.write(counters);
  }
  auto spec = attention_spec<FlashAttnSplitkvSpec>(call);
  set_plan(spec, plan, problem, caps_of(call.query).min_subgroup_size);
  args.work = attention_work(call, 1, 1);
  if (problem.int8) {  // in the place of dropout's numbers: the block is full
    p.seed = args.read(call.ragged.key_scale);
    p.offset = args.read(call.ragged.value_scale);
    spec.aligned = multiples_of(8, {&call.query});
  } else {
    spec.aligned = multiples_of(8, {&call.query, &call.key, &call.value});
  }
  launch(current(call.query), kernel::flash_attn_splitkv(), spec, p, args,
         Grid{static_cast<uint32_t>(plan.splits), static_cast<uint32_t>(problem.kv_heads),
              static_cast<uint32_t>(problem.batch)});
}

}  // namespace aule::ops
