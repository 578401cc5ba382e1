#include "ops/attention/family/splitkv_shared.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <bit>
#include <sstream>

#include "ops/attention/call.h"

namespace aule::ops {
namespace {

void set_plan(FlashAttnSplitkvSharedSpec& spec, const FlashSplitKvSharedPlan& plan, const AttentionProblem& problem) {
  spec.local = plan.local;
  spec.rows = plan.rows;
  spec.vec8s = ceil_div(problem.head_dim, 8);
  spec.vec8s_v = ceil_div(problem.v_dim, 8);
}

}  // namespace

bool FlashSplitKvSharedPlan::is_usual(const DeviceProfile& profile, const AttentionProblem& problem,
                                      AttentionVariant asked) {
  return asked == AttentionVariant::any && !profile.is_software() && problem.k_len >= 256;
}

// Enough workgroups that each of some 128 multiprocessors has four, a split no shorter than two tiles.
std::optional<FlashSplitKvSharedPlan> FlashSplitKvSharedPlan::make(const DeviceProfile& profile,
                                                                   const AttentionProblem& problem, AttentionPass pass,
                                                                   const Overrides&) {
  constexpr int64_t kWorkgroups = 512;
  if (problem.num_splits == 1 || problem.mask.has_blocks()) return {};
  if (pass != AttentionPass::forward || problem.kv_heads == 0 || problem.head_dim > 256 || problem.v_dim > 256)
    return {};
  const int64_t rows = problem.heads / problem.kv_heads * problem.q_len;
  if (rows < 1 || rows > 16) return {};
  FlashSplitKvSharedPlan plan;
  plan.local = 128;
  plan.rows = 1;
  while (plan.rows < rows) plan.rows *= 2;
  FlashAttnSplitkvSharedSpec spec;
  set_plan(spec, plan, problem);
  if (shared_bytes(kernel::flash_attn_splitkv_shared(), spec) > profile.shared_bytes) return {};
  const int64_t groups = problem.batch * problem.kv_heads;
  const int64_t wanted = std::max<int64_t>(1, (kWorkgroups + groups - 1) / std::max<int64_t>(groups, 1));
  constexpr int64_t kMost = 512;  // shared memory of flash_attn_splitkv_combine
  const int64_t most = std::clamp<int64_t>((problem.k_len + 2 * plan.local - 1) / (2 * plan.local), 1, kMost);
  // Many sequences of unlike lengths: smaller splits balance them.
  const int64_t fine = problem.ragged && groups > 64 ? std::min(4 * kWorkgroups / groups, problem.k_len / 1024) : 0;
  plan.splits = static_cast<int>(std::min(problem.num_splits > 0 ? problem.num_splits : std::max(wanted, fine), most));
  // A power of two; every Vulkan device allows 128.
  plan.combine_local =
      profile.is_software() ? 64 : static_cast<int>(std::min(256u, std::bit_floor(profile.max_workgroup_invocations)));
  return plan;
}

std::string text_of(const FlashSplitKvSharedPlan& p) {
  std::ostringstream text;
  text << " local=" << p.local << " rows=" << p.rows << " splits=" << p.splits << " combine_local=" << p.combine_local;
  return text.str();
}

void launch_forward(const AttentionCall& call, const FlashSplitKvSharedPlan& plan, const at::Tensor& out,
                    const at::Tensor& logsumexp) {
  const auto& problem = call.problem;
  const int64_t split_groups = problem.batch * problem.kv_heads * plan.splits,
                rows = problem.heads / problem.kv_heads * problem.q_len;
  const auto float_options = call.query.options().dtype(at::kFloat);
  const int64_t pitch = round_up(problem.v_dim, 8);
  const at::Tensor partial = at::empty({split_groups, rows, pitch}, float_options),
                   stats = at::empty({split_groups, rows, 2}, float_options);
  auto& stream = current(call.query);
  {
    TensorArgs args;
    auto p = attention_params<FlashAttnSplitkvSharedParams>(call, args, static_cast<uint32_t>(split_groups));
    p.partial = args.write(partial);
    p.stats = args.write(stats);
    p.splits = plan.splits;
    auto spec = attention_spec<FlashAttnSplitkvSharedSpec>(call);
    set_plan(spec, plan, problem);
    spec.aligned = multiples_of(8, {&call.query, &call.key, &call.value});
    args.work = attention_work(call, 1, 1);
    launch(stream, kernel::flash_attn_splitkv_shared(), spec, p, args,
           linear_grid(static_cast<uint64_t>(split_groups)));
  }
  TensorArgs args;
  const auto groups = static_cast<uint64_t>(problem.batch * problem.heads * problem.q_len);
  FlashAttnSplitkvCombineParams p{};
  p.partial = args.read(partial);
  p.stats = args.read(stats);
  p.out_ = args.write(out);
  p.logsumexp = args.write(logsumexp);
  set_strides(p.out_stride, out);
  p.groups = static_cast<uint32_t>(groups);
  p.heads = static_cast<int>(problem.heads);
  p.kv_heads = static_cast<int>(problem.kv_heads);
  p.q_len = static_cast<int>(problem.q_len);
  p.v_dim = static_cast<int>(problem.v_dim);
  p.splits = plan.splits;
  set_sequences(p, call.ragged, args);
  int lanes = 1;  // for a row in pieces of four columns
  while (lanes * 4 < pitch) lanes *= 2;
  auto spec = attention_spec<FlashAttnSplitkvCombineSpec>(call);
  spec.local = plan.combine_local;
  spec.lanes = lanes;
  spec.pitch = pitch;
  launch(stream, kernel::flash_attn_splitkv_combine(), spec, p, args, linear_grid(groups));
}

}  // namespace aule::ops
