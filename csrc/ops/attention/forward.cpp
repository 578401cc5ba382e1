#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "kernels_attention.gen.h"
#include "ops/attention/call.h"
#include "ops/attention/long_keys.h"

namespace aule::ops {
namespace {

// PyTorch's compiler fixed the layout: that of the query, or, with another head size, the same order of dimensions.
at::Tensor output_like_query(const at::Tensor& query, int64_t v_dim) {
  if (query.size(-1) == v_dim) return at::empty_like(query);
  std::vector<int64_t> sizes = query.sizes().vec(), order(sizes.size()), strides(sizes.size());
  sizes.back() = v_dim;
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return query.stride(a) > query.stride(b); });
  int64_t stride = 1;
  for (auto i = order.rbegin(); i != order.rend(); ++i) {
    strides[*i] = stride;
    stride *= sizes[*i];
  }
  return at::empty_strided(sizes, strides, query.options());
}

template <class Params, class Spec, class Plan>
void launch_family(KernelRef<Params, Spec> kernel, const AttentionCall& call, const Plan& plan, const at::Tensor& out,
                   const at::Tensor& logsumexp) {
  const auto& problem = call.problem;
  const uint64_t groups = workgroups(plan, problem.batch * problem.heads, problem.q_len);
  auto& stream = current(call.query);
  TensorArgs args;
  auto p = attention_params<Params>(call, args, static_cast<uint32_t>(groups));
  p.out_ = args.write(out);
  set_strides(p.out_stride, out);
  p.logsumexp = args.write(logsumexp);
  launch(stream, kernel,
         attention_spec<Spec>(call, plan, AttentionPass::forward,
                              {{&call.query, &call.key, &call.value, &out}, {&call.key, &call.value}}),
         p, args, linear_grid(groups));
}

}  // namespace

void launch_forward_block(const AttentionCall& call, const at::Tensor& out, const at::Tensor& logsumexp) {
  const DType dtype = call.problem.dtype;
  const AttentionPlan& plan = plan_of(call, AttentionPass::forward);
  if (const auto* p = std::get_if<FlashCoopMatPlan>(&plan)) {
    if (p->opaque)
      launch_family(kernel::flash_attn_fwd_coopmat_opaque(dtype), call, *p, out, logsumexp);
    else
      launch_family(kernel::flash_attn_fwd_coopmat(dtype), call, *p, out, logsumexp);
  } else if (const auto* p = std::get_if<FlashSplitKvPlan>(&plan)) {
    launch_splitkv(call, *p, out, logsumexp);
  } else if (const auto* p = std::get_if<FlashSplitKvSharedPlan>(&plan)) {
    launch_splitkv_shared(call, *p, out, logsumexp);
  } else if (const auto* p = std::get_if<FlashSimdPlan>(&plan)) {
    launch_family(kernel::flash_attn_fwd_simd(), call, *p, out, logsumexp);
  } else {
    const auto& simt = std::get<FlashSimtPlan>(plan);
    launch_family(kernel::flash_attn_fwd_simt(simt.shuffles ? 1 : 0), call, simt, out, logsumexp);
  }
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> attention_forward(AttentionCall& call,
                                                                             const at::Tensor& query) {
  const auto& problem = call.problem;
  at::Tensor out = output_like_query(query, problem.v_dim);
  at::Tensor logsumexp = at::empty({problem.batch, problem.heads, problem.q_len}, query.options().dtype(at::kFloat));
  if (call.dropout_steps > 0)
    call.philox = runtime::philox_for(std::nullopt, query.device().index(),
                                      4 * static_cast<uint64_t>(attention_blocks(call).count));
  const auto [seed, offset] = philox_tensors(call.philox);
  if (out.numel() == 0) return {out, logsumexp, seed, offset};
  if (problem.k_len == 0) {  // no query sees a key
    out.zero_();
    logsumexp.fill_(-std::numeric_limits<double>::infinity());
    return {out, logsumexp, seed, offset};
  }

  const at::Tensor out4 = out.dim() == 3 ? out.unsqueeze(0) : out;
  const at::Tensor rows = dense_rows(out4) ? out4 : at::empty(out4.sizes(), out4.options());
  if (!long_forward(call, rows, logsumexp)) launch_forward_block(call, rows, logsumexp);
  if (!rows.is_same(out4)) out4.copy_(rows);
  return {out, logsumexp, seed, offset};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> flash_attn_fwd(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const OptionalTensor& attn_bias,
    double dropout_p, bool is_causal, std::optional<double> scale, int64_t window_left, int64_t window_right,
    double softcap, bool causal_bottom_right, const OptionalTensor& alibi_slopes) {
  const AttentionFlags flags{dropout_p,           softcap,     scale,        is_causal,
                             causal_bottom_right, window_left, window_right, alibi_slopes.value_or(at::Tensor())};
  AttentionCall call = attention_call("flash_attn_fwd", query, key, value, attn_bias, flags);
  return attention_forward(call, query);
}

}  // namespace aule::ops
