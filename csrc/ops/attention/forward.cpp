#include <ATen/MemoryOverlap.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "ops/attention/blocks.h"
#include "ops/attention/forward.h"

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

}  // namespace

void launch_forward_block(const AttentionCall& call, const at::Tensor& out, const at::Tensor& logsumexp) {
  std::visit([&](const auto& plan) { launch_forward(call, plan, out, logsumexp); },
             plan_of(call, AttentionPass::forward));
}

namespace {

// Fills `out` and `logsumexp`; the call's Philox state is drawn here.
void forward_into(AttentionCall& call, const at::Tensor& out, const at::Tensor& logsumexp) {
  const auto& problem = call.problem;
  if (call.dropout_steps > 0)
    call.philox = runtime::philox_for(std::nullopt, call.query.device().index(),
                                      4 * static_cast<uint64_t>(attention_blocks(call).count));
  if (out.numel() == 0) return;
  if (problem.k_len == 0) {  // no query sees a key
    out.zero_();
    logsumexp.fill_(-std::numeric_limits<double>::infinity());
    return;
  }
  const at::Tensor out4 = out.dim() == 3 ? out.unsqueeze(0) : out;
  const at::Tensor rows = dense_rows(out4) ? out4 : at::empty(out4.sizes(), out4.options());
  if (!long_forward(call, rows, logsumexp)) launch_forward_block(call, rows, logsumexp);
  if (!rows.is_same(out4)) out4.copy_(rows);
}

at::Tensor new_logsumexp(const AttentionProblem& problem, const at::Tensor& query) {
  return at::empty({problem.batch, problem.heads, problem.q_len}, query.options().dtype(at::kFloat));
}

}  // namespace

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> attention_forward(AttentionCall& call,
                                                                             const at::Tensor& query) {
  at::Tensor out = output_like_query(query, call.problem.v_dim), logsumexp = new_logsumexp(call.problem, query);
  forward_into(call, out, logsumexp);
  const auto [seed, offset] = philox_tensors(call.philox);
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

void flash_attn_fwd_out(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                        const OptionalTensor& attn_bias, double dropout_p, bool is_causal, std::optional<double> scale,
                        int64_t window_left, int64_t window_right, double softcap, bool causal_bottom_right,
                        const OptionalTensor& alibi_slopes, const at::Tensor& out) {
  const AttentionFlags flags{dropout_p,           softcap,     scale,        is_causal,
                             causal_bottom_right, window_left, window_right, alibi_slopes.value_or(at::Tensor())};
  AttentionCall call = attention_call("flash_attn_fwd", query, key, value, attn_bias, flags);
  std::vector<int64_t> sizes = query.sizes().vec();
  sizes.back() = call.problem.v_dim;
  TORCH_CHECK(out.sizes() == sizes, "flash_attn_fwd: expected out of shape ", at::IntArrayRef(sizes), ", but got ",
              out.sizes());
  TORCH_CHECK(out.dtype() == query.dtype(), "flash_attn_fwd: expected out of dtype ", query.dtype(),
              " like query, but got ", out.dtype());
  TORCH_CHECK(out.device() == query.device(), "flash_attn_fwd: expected out on ", query.device(),
              " like query, but it is on ", out.device());
  at::assert_no_internal_overlap(out);
  for (const at::Tensor* operand : {&query, &key, &value}) at::assert_no_overlap(out, *operand);
  if (attn_bias.has_value()) at::assert_no_overlap(out, *attn_bias);
  forward_into(call, out, new_logsumexp(call.problem, query));
}

}  // namespace aule::ops
