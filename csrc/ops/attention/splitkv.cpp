// Forward of few queries over many keys: flash_attn_splitkv, whose last workgroup combines the splits, or
// flash_attn_splitkv_shared over splits of the keys, then flash_attn_splitkv_combine.
#include <ATen/ops/empty.h>

#include "kernels_attention.gen.h"
#include "ops/attention/call.h"
#include "ops/tensor/arrivals.h"

namespace aule::ops {
namespace {

int vec8s(int64_t columns) { return static_cast<int>(ceil_div(columns, 8)); }

}  // namespace

void launch_splitkv_shared(const AttentionCall& call, const FlashSplitKvSharedPlan& plan, const at::Tensor& out,
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

void launch_splitkv(const AttentionCall& call, const FlashSplitKvPlan& plan, const at::Tensor& out,
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
