#include "ops/attention/entry/block_sparse.h"

#include "ops/attention/backward.h"
#include "ops/attention/forward.h"

namespace aule::ops {
namespace {

AttentionCall block_sparse_call(const char* op, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                const at::Tensor& block_mask, int64_t block_q, int64_t block_k, bool is_causal,
                                std::optional<double> scale) {
  AttentionFlags flags;
  flags.scale = scale;
  flags.is_causal = is_causal;
  flags.block_mask = block_mask;
  flags.block_q = block_q;
  flags.block_k = block_k;
  return attention_call(op, query, key, value, std::nullopt, flags);
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> block_sparse_attn(const at::Tensor& query, const at::Tensor& key,
                                                     const at::Tensor& value, const at::Tensor& block_mask,
                                                     int64_t block_q, int64_t block_k, bool is_causal,
                                                     std::optional<double> scale) {
  AttentionCall call =
      block_sparse_call("block_sparse_attn", query, key, value, block_mask, block_q, block_k, is_causal, scale);
  const auto results = attention_forward(call, query);
  return {std::get<0>(results), std::get<1>(results)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> block_sparse_attn_bwd(
    const at::Tensor& grad_out, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const at::Tensor& out, const at::Tensor& logsumexp, const at::Tensor& block_mask, int64_t block_q, int64_t block_k,
    bool is_causal, std::optional<double> scale, const std::optional<at::Tensor>& grad_logsumexp) {
  AttentionCall call =
      block_sparse_call("block_sparse_attn_bwd", query, key, value, block_mask, block_q, block_k, is_causal, scale);
  const auto grads =
      attention_backward(call, {grad_out, query, key, value, out, logsumexp, grad_logsumexp}, std::nullopt);
  return {std::get<0>(grads), std::get<1>(grads), std::get<2>(grads)};
}

}  // namespace aule::ops
