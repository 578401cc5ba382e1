#include "ops/attention/entry/varlen.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>

#include <limits>

#include "ops/attention/blocks.h"
#include "ops/attention/forward.h"
#include "ops/attention/ragged.h"

namespace aule::ops {
namespace {

constexpr const char* kOp = "_flash_attention_forward";

struct VarlenOptions {
  int64_t max_q, max_k;
  double dropout_p;
  bool is_causal;
  std::optional<double> scale;
  std::optional<int64_t> window_left, window_right;
  OptionalTensor alibi_slopes = std::nullopt;
};

// A result in the caller's layout, and as the kernels write it; take() once they have.
struct Packed {
  at::Tensor full, rows;
  explicit Packed(at::Tensor t) : full(std::move(t)), rows(heads_first(full)) {}
  at::Tensor take() const {
    if (!rows.is_alias_of(full)) full.copy_(rows.squeeze(0).transpose(0, 1));
    return full;
  }
};

AttentionFlags flags_of(const char* op, const VarlenOptions& o) {
  TORCH_CHECK_NOT_IMPLEMENTED(o.dropout_p == 0, op, ": dropout_p is not supported on device aule; use ",
                              "scaled_dot_product_attention");
  return {0,
          0,
          o.scale,
          o.is_causal,
          true,
          o.window_left.value_or(-1),
          o.window_right.value_or(-1),
          o.alibi_slopes.value_or(at::Tensor())};
}

AttentionCall varlen_call(const char* op, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                          const OptionalTensor& cum_seq_q, const OptionalTensor& cum_seq_k,
                          const OptionalTensor& seqused_k, const OptionalTensor& block_table, const VarlenOptions& o) {
  RaggedBatch ragged;
  ragged.cu_seq_q = index_list(op, "cum_seq_q", cum_seq_q, query, {-1});
  const int64_t batch = ragged.cu_seq_q.size(0) - 1;
  TORCH_CHECK(batch >= 0, op, ": expected cum_seq_q of at least one element");
  ragged.pages = index_list(op, "block_table", block_table, query, {batch, -1});
  ragged.seqused_k = index_list(op, "seqused_k", seqused_k, query, {batch});
  const bool paged = ragged.pages.defined();
  TORCH_CHECK(!paged || ragged.seqused_k.defined(), op, ": expected seqused_k beside block_table");
  if (!paged) {  // rows of pages are found by the table
    ragged.cu_seq_k = index_list(op, "cum_seq_k", cum_seq_k, query, {batch + 1});
    TORCH_CHECK(ragged.cu_seq_k.defined(), op, ": expected cum_seq_k, or block_table");
  }
  TORCH_CHECK(query.dim() == 3, op, ": expected query of shape (total, heads, head size), but got ", query.sizes());
  const int64_t dims = paged ? 4 : 3;
  for (const auto& [name, t] : {std::pair{"key", &key}, {"value", &value}})
    TORCH_CHECK(t->dim() == dims, op, ": expected ", name, " of ", dims, " dimensions, ",
                paged ? "(pages, rows, heads, head size)" : "(total, heads, head size)", ", but got ", t->sizes());
  TORCH_CHECK(o.max_q >= 0 && o.max_k >= 0, op, ": expected max_q and max_k of at least 0, but got ", o.max_q, " and ",
              o.max_k);
  return ragged_call(op, query, key, value, std::move(ragged), batch, o.max_q, o.max_k, flags_of(op, o));
}

bool nothing(const AttentionCall& call) {
  return call.problem.batch == 0 || call.problem.q_len == 0 || call.query.numel() == 0 || call.ragged.total_k == 0 ||
         call.key.numel() == 0;
}

at::Tensor varlen_forward(AttentionCall call, const at::Tensor& out) {
  at::Tensor logsumexp = at::empty({call.problem.heads, call.ragged.total_q}, call.query.options().dtype(at::kFloat));
  if (nothing(call)) {
    out.zero_();
    logsumexp.fill_(-std::numeric_limits<double>::infinity());
    return logsumexp;
  }
  const Packed result(out);
  ragged_forward(call, result.rows, logsumexp);
  result.take();
  return logsumexp;
}

// PyTorch's backward is not told the slopes, so its gradients would be those of other scores.
void refuse(const OptionalTensor& alibi_slopes, bool return_debug_mask,
            std::initializer_list<const at::Tensor*> operands) {
  TORCH_CHECK_NOT_IMPLEMENTED(!return_debug_mask, kOp, ": return_debug_mask is not supported on device aule");
  if (!alibi_slopes.has_value() || !alibi_slopes->defined() || !at::GradMode::is_enabled()) return;
  for (const at::Tensor* t : operands)
    TORCH_CHECK_NOT_IMPLEMENTED(!t->requires_grad(), kOp, ": no gradient beside alibi_slopes; ",
                                "torch_aule.functional.varlen_attention has one");
}

at::Tensor output_for(const at::Tensor& query, const at::Tensor& value) {
  if (query.size(-1) == value.size(-1)) return at::empty_like(query);
  auto sizes = query.sizes().vec();
  sizes.back() = value.size(-1);
  return at::empty(sizes, query.options());
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> varlen_backward(const char* op, const at::Tensor& grad_out,
                                                               const at::Tensor& query, const at::Tensor& key,
                                                               const at::Tensor& value, const at::Tensor& out,
                                                               const at::Tensor& logsumexp, const at::Tensor& cum_seq_q,
                                                               const at::Tensor& cum_seq_k,
                                                               const VarlenOptions& options) {
  AttentionCall call = varlen_call(op, query, key, value, cum_seq_q, cum_seq_k, std::nullopt, std::nullopt, options);
  check_same_device(op, {&query, &grad_out, &out, &logsumexp});
  TORCH_CHECK(grad_out.sizes() == out.sizes() && grad_out.scalar_type() == query.scalar_type(), op,
              ": expected grad_out of shape ", out.sizes(), " and dtype ", query.scalar_type(), ", but got ",
              grad_out.sizes(), " of ", grad_out.scalar_type());
  const c10::SmallVector<int64_t, 2> stat_sizes{call.problem.heads, call.ragged.total_q};
  TORCH_CHECK(logsumexp.sizes() == at::IntArrayRef(stat_sizes), op, ": expected logsumexp of shape ",
              at::IntArrayRef(stat_sizes), ", but got ", logsumexp.sizes());
  if (nothing(call) || options.max_k == 0) return {at::zeros_like(query), at::zeros_like(key), at::zeros_like(value)};

  const Packed grad_query(at::empty_like(query)), grad_key(at::empty_like(key)), grad_value(at::empty_like(value));
  AttentionBackward backward{call, heads_first(grad_out), heads_first(out), logsumexp.contiguous(),
                             {},   grad_query.rows,       grad_key.rows,    grad_value.rows,
                             {}};
  check_sequences(call);
  if (long_ragged_backward(backward)) return {grad_query.take(), grad_key.take(), grad_value.take()};
  make_sequences(call, {{grad_query.rows, call.ragged.cu_seq_q},
                        {grad_key.rows, call.ragged.cu_seq_k},
                        {grad_value.rows, call.ragged.cu_seq_k}});
  launch_backward_block(backward);
  return {grad_query.take(), grad_key.take(), grad_value.take()};
}

}  // namespace

FlashForward _flash_attention_forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                      const OptionalTensor& cum_seq_q, const OptionalTensor& cum_seq_k, int64_t max_q,
                                      int64_t max_k, double dropout_p, bool is_causal, bool return_debug_mask,
                                      std::optional<double> scale, std::optional<int64_t> window_left,
                                      std::optional<int64_t> window_right, const OptionalTensor& seqused_k,
                                      const OptionalTensor& alibi_slopes, const OptionalTensor& block_table,
                                      std::optional<int64_t> num_splits) {
  refuse(alibi_slopes, return_debug_mask, {&query, &key, &value});
  const VarlenOptions options{max_q, max_k, dropout_p, is_causal, scale, window_left, window_right, alibi_slopes};
  at::Tensor out, logsumexp;
  if (cum_seq_q.has_value() && cum_seq_q->defined()) {
    AttentionCall call = varlen_call(kOp, query, key, value, cum_seq_q, cum_seq_k, seqused_k, block_table, options);
    call.problem.num_splits = num_splits.value_or(0);
    out = output_for(query, value);
    logsumexp = varlen_forward(std::move(call), out);
  } else {
    TORCH_CHECK(
        (!seqused_k.has_value() || !seqused_k->defined()) && (!block_table.has_value() || !block_table->defined()), kOp,
        ": expected cum_seq_q beside seqused_k or block_table");
    TORCH_CHECK(query.dim() == 4 && key.dim() == 4 && value.dim() == 4, kOp,
                ": expected query, key and value of shape (batch, length, heads, head size), but got ", query.sizes(),
                ", ", key.sizes(), " and ", value.sizes());
    const AttentionFlags flags = flags_of(kOp, options);
    const auto results =
        flash_attn_fwd(query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2), std::nullopt, 0, is_causal,
                       scale, flags.window_left, flags.window_right, 0, true, alibi_slopes);
    out = std::get<0>(results).transpose(1, 2);
    logsumexp = std::get<1>(results);
  }
  const auto words = query.options().dtype(at::kUInt64);  // of a random state that nothing draws from
  return {out, logsumexp, at::empty({2}, words), at::empty({}, words), at::empty({0}, query.options())};
}

FlashForward _flash_attention_forward_unpaged(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                              const OptionalTensor& cum_seq_q, const OptionalTensor& cum_seq_k,
                                              int64_t max_q, int64_t max_k, double dropout_p, bool is_causal,
                                              bool return_debug_mask, std::optional<double> scale,
                                              std::optional<int64_t> window_left, std::optional<int64_t> window_right,
                                              const OptionalTensor& seqused_k, const OptionalTensor& alibi_slopes) {
  return _flash_attention_forward(query, key, value, cum_seq_q, cum_seq_k, max_q, max_k, dropout_p, is_causal,
                                  return_debug_mask, scale, window_left, window_right, seqused_k, alibi_slopes,
                                  std::nullopt, std::nullopt);
}

at::Tensor _flash_attention_forward_no_dropout_inplace(
    at::Tensor& out, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const OptionalTensor& cum_seq_q, const OptionalTensor& cum_seq_k, int64_t max_q, int64_t max_k, double dropout_p,
    bool is_causal, bool return_debug_mask, std::optional<double> scale, std::optional<int64_t> window_left,
    std::optional<int64_t> window_right, const OptionalTensor& seqused_k, const OptionalTensor& alibi_slopes,
    const OptionalTensor& block_table, std::optional<int64_t> num_splits) {
  refuse(alibi_slopes, return_debug_mask, {&query, &key, &value});
  TORCH_CHECK(cum_seq_q.has_value() && cum_seq_q->defined(), kOp, ": expected cum_seq_q with a given out");
  const VarlenOptions options{max_q, max_k, dropout_p, is_causal, scale, window_left, window_right, alibi_slopes};
  AttentionCall call = varlen_call(kOp, query, key, value, cum_seq_q, cum_seq_k, seqused_k, block_table, options);
  call.problem.num_splits = num_splits.value_or(0);
  auto sizes = query.sizes().vec();
  sizes.back() = value.size(-1);
  TORCH_CHECK(out.sizes() == at::IntArrayRef(sizes) && out.scalar_type() == query.scalar_type() &&
                  out.device() == query.device(),
              kOp, ": expected out of shape ", at::IntArrayRef(sizes), " and dtype ", query.scalar_type(), " on ",
              query.device(), ", but got ", out.sizes(), " of ", out.scalar_type(), " on ", out.device());
  return varlen_forward(std::move(call), out);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> _flash_attention_backward(
    const at::Tensor& grad_out, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const at::Tensor& out, const at::Tensor& logsumexp, const at::Tensor& cum_seq_q, const at::Tensor& cum_seq_k,
    int64_t max_q, int64_t max_k, double dropout_p, bool is_causal, const at::Tensor& /*rng_state*/,
    const at::Tensor& /*unused*/, std::optional<double> scale, std::optional<int64_t> window_left,
    std::optional<int64_t> window_right) {
  const char* op = "_flash_attention_backward";
  const VarlenOptions options{max_q, max_k, dropout_p, is_causal, scale, window_left, window_right};
  if (!cum_seq_q.defined()) {
    const AttentionFlags flags = flags_of(op, options);
    const auto first = [](const at::Tensor& t) { return t.transpose(1, 2); };
    auto [grad_query, grad_key, grad_value, grad_bias] = flash_attn_bwd(
        first(grad_out), first(query), first(key), first(value), first(out), logsumexp, {}, {}, std::nullopt, 0,
        is_causal, scale, flags.window_left, flags.window_right, 0, true, false, std::nullopt, std::nullopt);
    return {first(grad_query), first(grad_key), first(grad_value)};
  }
  return varlen_backward(op, grad_out, query, key, value, out, logsumexp, cum_seq_q, cum_seq_k, options);
}

std::tuple<at::Tensor, at::Tensor> varlen_attn(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                               const at::Tensor& cum_seq_q, const at::Tensor& cum_seq_k, int64_t max_q,
                                               int64_t max_k, bool is_causal, std::optional<double> scale,
                                               int64_t window_left, int64_t window_right,
                                               const OptionalTensor& alibi_slopes) {
  const VarlenOptions options{max_q, max_k, 0, is_causal, scale, window_left, window_right, alibi_slopes};
  AttentionCall call =
      varlen_call("varlen_attn", query, key, value, cum_seq_q, cum_seq_k, std::nullopt, std::nullopt, options);
  const at::Tensor out = output_for(query, value);
  return {out, varlen_forward(std::move(call), out)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> varlen_attn_bwd(
    const at::Tensor& grad_out, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const at::Tensor& out, const at::Tensor& logsumexp, const at::Tensor& cum_seq_q, const at::Tensor& cum_seq_k,
    int64_t max_q, int64_t max_k, bool is_causal, std::optional<double> scale, int64_t window_left,
    int64_t window_right, const OptionalTensor& alibi_slopes) {
  const VarlenOptions options{max_q, max_k, 0, is_causal, scale, window_left, window_right, alibi_slopes};
  return varlen_backward("varlen_attn_bwd", grad_out, query, key, value, out, logsumexp, cum_seq_q, cum_seq_k, options);
}

}  // namespace aule::ops
