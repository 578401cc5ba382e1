// The backward of a call that is checked.
#pragma once
#include "ops/attention/call.h"

namespace aule::ops {

// As the caller has them, for attention_backward(). It returns (dq, dk, dv, dbias); dbias has no elements unless a bias
// is given, which then gets one.
struct BackwardOperands {
  at::Tensor grad_out, query, key, value, out, logsumexp;
  OptionalTensor grad_logsumexp;
};
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> attention_backward(AttentionCall& call,
                                                                              const BackwardOperands& operands,
                                                                              const OptionalTensor& attn_bias);

// Operands and results of the backward beside the call itself, 4-D with dense rows.
struct AttentionBackward {
  const AttentionCall& call;
  at::Tensor grad_out, out, logsumexp, grad_logsumexp;     // the last may be undefined
  at::Tensor grad_query, grad_key, grad_value, grad_bias;  // grad_bias: zeroed float32 [B, H, Lq, Lk], or undefined
  bool whole_rows = true;                                  // false: the log-sum-exps are of more keys than the call's
};
void launch_backward(const AttentionBackward& backward);

// The same with what its kernels compute first.
struct Backward : AttentionBackward {
  at::Tensor stats;  // float32 {logsumexp, delta} per query row, or four numbers (TWO_PARTS in attention.glsl)
};

// A new tensor like `like` as the caller gets it, and the 4-D one with dense rows that a kernel writes.
struct AttentionResult {
  at::Tensor full, rows;
  explicit AttentionResult(const at::Tensor& like);
  at::Tensor take() const;

 private:
  bool copied_;
};

}  // namespace aule::ops
