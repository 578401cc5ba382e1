#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "kernels_attention.gen.h"
#include "ops/attention/blocks.h"
#include "ops/attention/family/launch.h"

namespace aule::ops {
namespace {

void launch_delta(const Backward& b, int lanes) {
  const auto& problem = b.call.problem;
  const int64_t batch = b.grad_out.size(0), q_len = b.grad_out.size(2);  // of a ragged batch: 1, and all rows together
  const int64_t rows = batch * problem.heads * q_len;
  const int local = lanes == 1 ? 8 : 128;
  const bool vec8 = lanes != 1 && problem.dtype != DType::f32 && multiples_of(8, {&b.grad_out, &b.out});
  TensorArgs args;
  auto p = backward_params<FlashAttnBwdDeltaParams>(b, args, static_cast<uint32_t>(batch * problem.heads));
  p.q_len = static_cast<int>(q_len);
  p.out_ = args.read(b.out);
  set_strides(p.out_stride, b.out);
  p.logsumexp = args.read(b.logsumexp);
  if (b.grad_logsumexp.defined()) p.grad_logsumexp = args.read(b.grad_logsumexp);
  p.stats = args.write(b.stats);
  FlashAttnBwdDeltaSpec spec{.dtype = problem.dtype, .local = local, .vec8 = vec8};
  if (problem.float_bias()) spec.bias_dtype = DType::f32;  // of any dtype: the stats have room for two parts
  launch(current(b.call.query), kernel::flash_attn_bwd_delta(lanes), spec, p, args,
         linear_grid(ceil_div(static_cast<uint64_t>(rows), static_cast<uint64_t>(local / lanes))));
}

// The second part of large log-sum-exps, before the passes that take both.
void launch_row_sums(const Backward& b) {
  constexpr uint64_t kLocal = 64, kLanes = 8;
  const auto& problem = b.call.problem;
  TensorArgs args;
  auto p =
      attention_params<FlashAttnBwdRowSumsParams>(b.call, args, static_cast<uint32_t>(problem.batch * problem.heads));
  p.stats = args.read_write(b.stats);
  auto spec = attention_spec<FlashAttnBwdRowSumsSpec>(b.call);
  spec.local = kLocal;
  spec.vec8 = multiples_of(8, {&b.call.query, &b.call.key});
  const auto rows = static_cast<uint64_t>(problem.batch * problem.heads * problem.q_len);
  launch(current(b.call.query), kernel::flash_attn_bwd_row_sums(), spec, p, args,
         linear_grid(ceil_div(rows, kLocal / kLanes)));
}

// Nothing where the plan's family has no backward, as the planner knows.
template <class Plan>
constexpr bool has_backward = requires(const Backward& b, const Plan& plan) { launch_dq(b, plan); };

}  // namespace

AttentionResult::AttentionResult(const at::Tensor& like) : full(at::empty_like(like)) {
  const at::Tensor four = full.dim() == 3 ? full.unsqueeze(0) : full;
  rows = dense_rows(four) ? four : at::empty(four.sizes(), four.options());
  copied_ = !rows.is_same(four);
}
at::Tensor AttentionResult::take() const {
  if (copied_) (full.dim() == 3 ? full.unsqueeze(0) : full).copy_(rows);
  return full;
}

void launch_backward(const AttentionBackward& backward) {
  if (!long_backward(backward)) launch_backward_block(backward);
}

void launch_backward_block(const AttentionBackward& backward) {
  const AttentionCall& call = backward.call;
  const AttentionPlan &dq = plan_of(call, AttentionPass::dq), &dkdv = plan_of(call, AttentionPass::dkdv);
  const auto sizes = call.query.sizes();
  const Backward b{backward, at::empty({sizes[0], sizes[1], sizes[2], call.problem.float_bias() ? 4 : 2},
                                       call.query.options().dtype(at::kFloat))};
  launch_delta(b, std::holds_alternative<FlashSimdPlan>(dq) ? 1 : 8);
  if (call.problem.float_bias() && b.whole_rows) launch_row_sums(b);
  const FlashCoopMatPlan *dq_coopmat = coopmat_of(dq), *dkdv_coopmat = coopmat_of(dkdv);
  if (dq_coopmat != nullptr && dkdv_coopmat != nullptr && launch_with_ds_workspace(b, *dq_coopmat, *dkdv_coopmat))
    return;
  // dQ before dK and dV: it may correct the stored delta.
  const auto visit = [](const AttentionPlan& plan, const auto& launch) {
    std::visit(
        [&]<class Plan>(const Plan& own) {
          if constexpr (has_backward<Plan>)
            launch(own);
          else
            TORCH_INTERNAL_ASSERT(false, "a plan without a backward");
        },
        plan);
  };
  visit(dq, [&](const auto& plan) { launch_dq(b, plan); });
  visit(dkdv, [&](const auto& plan) { launch_dkdv(b, plan); });
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> attention_backward(AttentionCall& call,
                                                                              const BackwardOperands& operands,
                                                                              const OptionalTensor& attn_bias) {
  const auto& [grad_out, query, key, value, out, logsumexp, grad_logsumexp] = operands;
  const auto& problem = call.problem;
  TORCH_CHECK(grad_out.sizes() == out.sizes() && grad_out.scalar_type() == query.scalar_type(), call.op,
              ": expected grad_out of shape ", out.sizes(), " and dtype ", query.scalar_type(), ", but got ",
              grad_out.sizes(), " of ", grad_out.scalar_type());
  const c10::SmallVector<int64_t, 3> stat_sizes{problem.batch, problem.heads, problem.q_len};
  TORCH_CHECK(logsumexp.sizes() == at::IntArrayRef(stat_sizes), call.op, ": expected logsumexp of shape ",
              at::IntArrayRef(stat_sizes), ", but got ", logsumexp.sizes());
  check_same_device(call.op, {&query, &grad_out, &out, &logsumexp});
  const bool wants_bias = attn_bias.has_value() && attn_bias->defined();
  const auto no_bias = [&] { return at::empty({0}, query.options()); };
  if (query.numel() == 0 || key.numel() == 0 || value.numel() == 0)
    return {at::zeros_like(query), at::zeros_like(key), at::zeros_like(value),
            wants_bias ? at::zeros_like(*attn_bias) : no_bias()};

  AttentionBackward b{call, attention_operand(grad_out), attention_operand(out), logsumexp.contiguous(), {}, {}, {}, {},
                      {}};
  if (grad_logsumexp.has_value() && grad_logsumexp->defined())
    b.grad_logsumexp = grad_logsumexp->to(at::kFloat).contiguous();
  // Positions outside the band are never visited, hence zeros.
  if (wants_bias)
    b.grad_bias =
        at::zeros({problem.batch, problem.heads, problem.q_len, problem.k_len}, query.options().dtype(at::kFloat));
  const AttentionResult grad_query(query), grad_key(key), grad_value(value);
  b.grad_query = grad_query.rows;
  b.grad_key = grad_key.rows;
  b.grad_value = grad_value.rows;

  launch_backward(b);
  at::Tensor grad_bias;
  if (wants_bias) {
    at::Tensor full = query.dim() == 3 ? b.grad_bias.squeeze(0) : b.grad_bias;
    grad_bias = full.sum_to_size(attn_bias->sizes()).to(attn_bias->scalar_type());
  } else {
    grad_bias = no_bias();
  }
  return {grad_query.take(), grad_key.take(), grad_value.take(), grad_bias};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> flash_attn_bwd(
    const at::Tensor& grad_out, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const at::Tensor& out, const at::Tensor& logsumexp, const at::Tensor& philox_seed, const at::Tensor& philox_offset,
    const OptionalTensor& attn_bias, double dropout_p, bool is_causal, std::optional<double> scale, int64_t window_left,
    int64_t window_right, double softcap, bool causal_bottom_right, bool bias_requires_grad,
    const OptionalTensor& grad_logsumexp, const OptionalTensor& alibi_slopes) {
  const AttentionFlags flags{dropout_p,           softcap,     scale,        is_causal,
                             causal_bottom_right, window_left, window_right, alibi_slopes.value_or(at::Tensor())};
  AttentionCall call = attention_call("flash_attn_bwd", query, key, value, attn_bias, flags);
  if (dropout_p > 0) call.philox = philox_state(philox_seed, philox_offset);
  return attention_backward(call, {grad_out, query, key, value, out, logsumexp, grad_logsumexp},
                            bias_requires_grad ? attn_bias : std::nullopt);
}

}  // namespace aule::ops
