// The checked and normalised arguments of one attention call, and what both directions do with them.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

#include "ops/attention.h"
#include "ops/attention_plan.h"
#include "ops/tensor_arg.h"
#include "runtime/generator.h"

namespace aule::ops {

struct AttentionFlags {
  double dropout_p = 0, softcap = 0;
  std::optional<double> scale;
  bool is_causal = false, causal_bottom_right = false;
  int64_t window_left = -1, window_right = -1;
};

struct AttentionCall {
  const char* op;
  AttentionProblem problem;
  at::Tensor query, key, value, bias;  // 4-D, last dimension dense; bias expanded to [B, H, Lq, Lk], or undefined
  float scale = 1, softcap = 0, dropout_p = 0;
  int shift = 0, left = 0, right = 0;
  runtime::PhiloxState philox;
};

// Raises for whatever the kernels do not take, naming `op` and the argument.
AttentionCall attention_call(const char* op, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                             const OptionalTensor& attn_bias, const AttentionFlags& flags);

// A tensor as the kernels take it: 4-D and dense in its last dimension, copied only when it is not.
at::Tensor attention_operand(const at::Tensor& t);
bool dense_rows(const at::Tensor& t);

// Every address, row and head size of the operands is a multiple of `elems` elements.
bool multiples_of(int64_t elems, std::initializer_list<const at::Tensor*> operands);

// The plan for `call` on its device.
AttentionPlan attention_plan(const AttentionCall& call, AttentionPass pass);

// The philox slice as the two int64 tensors that autograd saves, and back. While a graph is captured the seed tensor
// holds the address of the device's state instead, which the offset's lowest bit (offsets are multiples of 4) tells.
std::tuple<at::Tensor, at::Tensor> philox_tensors(const runtime::PhiloxState& state);
runtime::PhiloxState philox_state(const at::Tensor& seed, const at::Tensor& offset);

template <class Int, size_t N>
void set_strides(Int (&strides)[N], const at::Tensor& t) {
  for (size_t i = 0; i < N; ++i) {
    const int64_t stride = t.size(static_cast<int64_t>(i)) == 1 ? 0 : t.stride(static_cast<int64_t>(i));
    strides[i] = static_cast<Int>(stride);
    TORCH_CHECK(static_cast<int64_t>(strides[i]) == stride, "flash_attn: a stride of ", stride,
                " elements is too large");
  }
}

// The members that every attention kernel reads; addresses of results are set by the caller.
template <class Params>
Params attention_params(const AttentionCall& call, TensorArgs& args, uint32_t groups) {
  Params p{};
  p.query = args.read(call.query);
  p.key = args.read(call.key);
  p.value = args.read(call.value);
  set_strides(p.query_stride, call.query);
  set_strides(p.key_stride, call.key);
  set_strides(p.value_stride, call.value);
  if (call.bias.defined()) {
    p.bias = args.read(call.bias);
    set_strides(p.bias_stride, call.bias);
  }
  p.seed = call.philox.seed;
  p.offset = call.philox.offset;
  p.state = call.philox.state_address;
  p.groups = groups;
  p.heads = static_cast<int>(call.problem.heads);
  p.kv_heads = static_cast<int>(call.problem.kv_heads);
  p.q_len = static_cast<int>(call.problem.q_len);
  p.k_len = static_cast<int>(call.problem.k_len);
  p.head_dim = static_cast<int>(call.problem.head_dim);
  p.v_dim = static_cast<int>(call.problem.v_dim);
  p.shift = call.shift;
  p.left = call.left;
  p.right = call.right;
  p.scale = call.scale;
  p.softcap = call.softcap;
  p.dropout_p = call.dropout_p;
  p.dropout_scale = call.dropout_p < 1 ? 1 / (1 - call.dropout_p) : 0;
  return p;
}

// Family decode: the forward, whole.
void launch_decode(const AttentionCall& call, const AttentionPlan& plan, const at::Tensor& out,
                   const at::Tensor& logsumexp);

// Specialization constants of a kernel of `plan`'s family, in the order of attention.glsl and rows.glsl / tiles.glsl /
// matrix.glsl. `operands`: every 4-D tensor whose rows the kernel touches; `tiled`: the two that pass in tiles.
Spec attention_spec(const AttentionCall& call, const AttentionPlan& plan, AttentionPass pass,
                    std::initializer_list<const at::Tensor*> operands, std::array<const at::Tensor*, 2> tiled,
                    bool grad_bias = false);

}  // namespace aule::ops
