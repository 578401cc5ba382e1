#include "ops/attention/entry/modules.h"

#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/where.h>

#include <cmath>
#include <limits>

namespace aule::ops {
namespace {

// mask_type 0: [L, S]; 1: key padding [B, S]; 2: [B, H, L, S]. Bool masks mark what is hidden, float masks are added.
// The result is additive and broadcasts to [B, H, L, S].
at::Tensor additive_mask(const at::Tensor& mask, std::optional<int64_t> mask_type, const at::Tensor& query) {
  at::Tensor shaped = mask;
  const bool padding = mask_type == 1 || (!mask_type.has_value() && mask.dim() == 2 && mask.size(0) != mask.size(1));
  if (padding)
    shaped = mask.view({mask.size(0), 1, 1, mask.size(1)});
  else if (mask.dim() == 2)
    shaped = mask.view({1, 1, mask.size(0), mask.size(1)});
  TORCH_CHECK(shaped.dim() == 4, "_native_multi_head_attention: expected a mask of 2 or 4 dimensions, but got ",
              mask.sizes());
  if (shaped.scalar_type() != at::kBool) return shaped.to(query.scalar_type());
  return at::where(shaped, at::Scalar(-std::numeric_limits<double>::infinity()), at::Scalar(0.0))
      .to(query.scalar_type());
}

at::Tensor split_heads(const at::Tensor& t, int64_t heads) {
  return t.view({t.size(0), t.size(1), heads, t.size(2) / heads}).transpose(1, 2);
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> _native_multi_head_attention(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, int64_t embed_dim, int64_t num_head,
    const at::Tensor& qkv_weight, const at::Tensor& qkv_bias, const at::Tensor& proj_weight,
    const at::Tensor& proj_bias, const std::optional<at::Tensor>& mask, bool need_weights, bool average_attn_weights,
    std::optional<int64_t> mask_type) {
  const char* op = "_native_multi_head_attention";
  TORCH_CHECK(query.dim() == 3 && query.size(2) == embed_dim, op, ": expected query of shape [batch, length, ",
              embed_dim, "], but got ", query.sizes());
  TORCH_CHECK(key.dim() == 3 && value.dim() == 3 && key.size(1) == value.size(1), op,
              ": expected key and value of one length, but got ", key.sizes(), " and ", value.sizes());
  TORCH_CHECK(num_head > 0 && embed_dim % num_head == 0, op, ": expected a number of heads that divides ", embed_dim,
              ", but got ", num_head);
  TORCH_CHECK(qkv_weight.dim() == 2 && qkv_weight.size(0) == 3 * embed_dim && qkv_weight.size(1) == embed_dim, op,
              ": expected qkv_weight of shape [", 3 * embed_dim, ", ", embed_dim, "], but got ", qkv_weight.sizes());

  at::Tensor q, k, v;
  if (key.is_same(query) && value.is_same(query)) {
    const at::Tensor qkv = at::linear(query, qkv_weight, qkv_bias);
    q = qkv.narrow(2, 0, embed_dim);
    k = qkv.narrow(2, embed_dim, embed_dim);
    v = qkv.narrow(2, 2 * embed_dim, embed_dim);
  } else {
    const auto project = [&](const at::Tensor& t, int64_t part) {
      return at::linear(t, qkv_weight.narrow(0, part * embed_dim, embed_dim),
                        qkv_bias.narrow(0, part * embed_dim, embed_dim));
    };
    q = project(query, 0);
    k = project(key, 1);
    v = project(value, 2);
  }
  q = split_heads(q, num_head);
  k = split_heads(k, num_head);
  v = split_heads(v, num_head);
  std::optional<at::Tensor> bias;
  if (mask.has_value() && mask->defined()) bias = additive_mask(*mask, mask_type, query);

  at::Tensor heads, weights;
  if (need_weights) {
    at::Tensor scores = at::matmul(q.mul(1.0 / std::sqrt(static_cast<double>(q.size(3)))), k.transpose(2, 3));
    if (bias.has_value()) scores = scores.add(*bias);
    weights = at::softmax(scores, -1);
    heads = at::matmul(weights, v);
    if (average_attn_weights) weights = weights.mean(1);
  } else {
    heads = at::scaled_dot_product_attention(q, k, v, bias);
  }
  const at::Tensor joined = heads.transpose(1, 2).reshape({query.size(0), query.size(1), embed_dim});
  return {at::linear(joined, proj_weight, proj_bias), weights};
}

at::Tensor _transformer_encoder_layer_fwd(const at::Tensor& src, int64_t embed_dim, int64_t num_heads,
                                          const at::Tensor& qkv_weight, const at::Tensor& qkv_bias,
                                          const at::Tensor& proj_weight, const at::Tensor& proj_bias, bool use_gelu,
                                          bool norm_first, double eps, const at::Tensor& norm_weight_1,
                                          const at::Tensor& norm_bias_1, const at::Tensor& norm_weight_2,
                                          const at::Tensor& norm_bias_2, const at::Tensor& ffn_weight_1,
                                          const at::Tensor& ffn_bias_1, const at::Tensor& ffn_weight_2,
                                          const at::Tensor& ffn_bias_2, const std::optional<at::Tensor>& mask,
                                          std::optional<int64_t> mask_type) {
  const auto attend = [&](const at::Tensor& x) {
    return std::get<0>(_native_multi_head_attention(x, x, x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight,
                                                    proj_bias, mask, false, true, mask_type));
  };
  const auto norm_1 = [&](const at::Tensor& x) {
    return at::layer_norm(x, {embed_dim}, norm_weight_1, norm_bias_1, eps);
  };
  const auto norm_2 = [&](const at::Tensor& x) {
    return at::layer_norm(x, {embed_dim}, norm_weight_2, norm_bias_2, eps);
  };
  const auto feed = [&](const at::Tensor& x) {
    const at::Tensor inner = at::linear(x, ffn_weight_1, ffn_bias_1);
    return at::linear(use_gelu ? at::gelu(inner) : at::relu(inner), ffn_weight_2, ffn_bias_2);
  };
  if (norm_first) {
    const at::Tensor x = src.add(attend(norm_1(src)));
    return x.add(feed(norm_2(x)));
  }
  const at::Tensor x = norm_1(src.add(attend(src)));
  return norm_2(x.add(feed(x)));
}

bool _nested_tensor_from_mask_left_aligned(const at::Tensor& /*t*/, const at::Tensor& /*mask*/) { return false; }

}  // namespace aule::ops
