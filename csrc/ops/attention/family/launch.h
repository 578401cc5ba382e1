// The launches that the families of the forward and of the backward share.
#pragma once
#include "kernels_attention.gen.h"
#include "ops/attention/backward.h"
#include "ops/attention/call.h"

namespace aule::ops {

template <class Params, class Spec, class Plan>
void launch_flash_forward(KernelRef<Params, Spec> kernel, const AttentionCall& call, const Plan& plan,
                          const at::Tensor& out, const at::Tensor& logsumexp) {
  const auto& problem = call.problem;
  const uint64_t groups = workgroups(plan, problem.batch * problem.heads, problem.q_len);
  auto& stream = current(call.query);
  TensorArgs args;
  auto p = attention_params<Params>(call, args, static_cast<uint32_t>(groups));
  p.out_ = args.write(out);
  set_strides(p.out_stride, out);
  p.logsumexp = args.write(logsumexp);
  args.work = attention_work(call, 1, 1);
  launch(stream, kernel,
         attention_spec<Spec>(call, plan, AttentionPass::forward,
                              {{&call.query, &call.key, &call.value, &out}, {&call.key, &call.value}}),
         p, args, linear_grid(groups));
}

template <class Params>
Params backward_params(const Backward& b, TensorArgs& args, uint32_t groups) {
  auto p = attention_params<Params>(b.call, args, groups);
  p.grad_out = args.read(b.grad_out);
  set_strides(p.grad_out_stride, b.grad_out);
  return p;
}

template <class Params, class Spec, class Plan>
void launch_flash_dq(KernelRef<Params, Spec> kernel, const Backward& b, const Plan& plan, const DsMode& mode = {}) {
  const auto& problem = b.call.problem;
  const uint64_t groups = workgroups(plan, problem.batch * problem.heads, problem.q_len);
  TensorArgs args;
  auto p = backward_params<Params>(b, args, static_cast<uint32_t>(groups));
  p.stats = problem.dtype == DType::f32 ? args.read(b.stats) : args.read_write(b.stats);  // 16 bits: sums delta again
  if (b.grad_logsumexp.defined()) p.grad_logsumexp = args.read(b.grad_logsumexp);
  p.grad_query = args.write(b.grad_query);
  set_strides(p.grad_query_stride, b.grad_query);
  if (b.grad_bias.defined()) p.grad_bias = args.write(b.grad_bias);
  args.work = attention_work(b.call, 2, 1);
  const AttentionOperands operands{{&b.call.query, &b.call.key, &b.call.value, &b.grad_out, &b.grad_query},
                                   {&b.call.key, &b.call.value},
                                   b.grad_bias.defined()};
  const auto spec = attention_spec<Spec>(b.call, plan, AttentionPass::dq, operands, mode);
  launch(current(b.call.query), kernel, spec, p, args, linear_grid(groups));
}

// Key heads whose dS is in the workspace, or none.
struct Chunk {
  int64_t first = 0, heads = 0;
  at::Tensor scores;
  bool triangle = false;
};

template <class Params, class Spec, class Plan>
void launch_flash_dkdv(KernelRef<Params, Spec> kernel, const Backward& b, const Plan& plan, const Chunk& chunk = {}) {
  const auto& problem = b.call.problem;
  const bool stores = chunk.heads != 0;
  const uint64_t groups = workgroups(plan, stores ? chunk.heads : problem.batch * problem.kv_heads, problem.k_len);
  TensorArgs args;
  auto p = backward_params<Params>(b, args, static_cast<uint32_t>(groups));
  p.stats = args.read(b.stats);
  p.grad_key = args.write(b.grad_key);
  p.grad_value = args.write(b.grad_value);
  if constexpr (requires { p.ds_workspace; }) {
    if (stores) p.ds_workspace = args.write(chunk.scores);
    p.first_head = static_cast<uint32_t>(chunk.first);
  }
  set_strides(p.grad_key_stride, b.grad_key);
  set_strides(p.grad_value_stride, b.grad_value);
  args.work = attention_work(b.call, 2, 2);
  if (stores) args.work.flops *= static_cast<double>(chunk.heads) / static_cast<double>(problem.kv_heads);
  const AttentionOperands operands{{&b.call.query, &b.call.key, &b.call.value, &b.grad_out, &b.grad_key, &b.grad_value},
                                   {&b.call.query, &b.grad_out}};
  const auto spec = attention_spec<Spec>(b.call, plan, AttentionPass::dkdv, operands,
                                         {.writes_ds = stores, .triangle = chunk.triangle});
  launch(current(b.call.query), kernel, spec, p, args, linear_grid(groups));
}

}  // namespace aule::ops
