// The checked and normalised arguments of one attention call, and the parts of a launch that both directions share.
#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <optional>
#include <vector>

#include "kernels_attention.gen.h"
#include "ops/attention/attention.h"
#include "ops/attention/plan.h"
#include "ops/tensor/tensor_arg.h"
#include "runtime/generator.h"

namespace aule::ops {

inline constexpr int64_t kUnbounded = int64_t{1} << 30;  // of a window: wider than any sequence

struct AttentionFlags {
  double dropout_p = 0, softcap = 0;
  std::optional<double> scale;
  bool is_causal = false, causal_bottom_right = false;
  int64_t window_left = -1, window_right = -1;
  at::Tensor alibi_slopes;           // [H] or [B, H], or undefined
  at::Tensor block_mask = {};        // bool, broadcasts to [B, H, blocks of queries, blocks of keys], or undefined
  int64_t block_q = 0, block_k = 0;  // queries and keys of a block; the last one of each side may have less
};

// Sequences of their own lengths, in lists on the device that the host never reads
// (shaders/attention/parts/sequences.glsl). Queries are then one tensor [1, H, total_q, D]. Keys are one tensor [1,
// Hkv, total_k, D], or for each sequence a row of a cache [B, Hkv, total_k, D], or pages [N, Hkv, rows of a page, D].
struct RaggedBatch {
  bool given = false;
  at::Tensor cu_seq_q, cu_seq_k;  // int32 [B + 1], or undefined
  at::Tensor seqused_k;           // int32 [B], or undefined
  at::Tensor pages;               // int32 [B, most pages of a sequence], or undefined
  at::Tensor sequences;           // int32 [B, 4]: the lists combined, for every family but split-KV
  // bfloat16 [.., rows, Hkv, D / 32] of int8 keys and values (attention/parts/vec8.glsl), or undefined
  at::Tensor key_scale = {}, value_scale = {};
  int64_t total_q = 0, total_k = 0;
};

struct AttentionCall {
  const char* op;
  AttentionProblem problem;
  at::Tensor query, key, value;  // 4-D, last dimension dense
  // The tensor of problem.mask, expanded: a value of each element, [B, H, Lq, Lk], also of float32 slopes; of blocks
  // [B, H, blocks, blocks]; or undefined.
  at::Tensor mask;
  float scale = 1, softcap = 0, dropout_scale = 1;
  uint64_t dropout_steps = 0;  // of 2^-40
  int diagonal = 0, left = 0, right = 0;
  runtime::PhiloxState philox;
  RaggedBatch ragged;
  mutable std::array<std::optional<AttentionPlan>, 3> plans;  // of plan_of()
};

// The part of a call that does not depend on shapes; `problem` and the operands are set.
void set_flags(AttentionCall& call, const AttentionFlags& flags);
// Sets the members of `problem` that depend on operands. To be called after the operands or sizes of a call change.
void describe_operands(AttentionCall& call);
// The plan of a pass, made on first use and kept in the call. Raises if no kernel fits the device.
const AttentionPlan& plan_of(const AttentionCall& call, AttentionPass pass);
// Raises unless the head sizes, heads and dtypes of the operands [.., H, L, D] fit together. `int8`: the dtypes of key
// and value are looked at elsewhere.
void check_heads(const char* op, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                 bool int8 = false);

// Raises if the kernels do not take an argument. The text names `op` and the argument.
AttentionCall attention_call(const char* op, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                             const OptionalTensor& attn_bias, const AttentionFlags& flags);

// A tensor as the kernels take it: 4-D and dense in its last dimension, copied only if it is not.
at::Tensor attention_operand(const at::Tensor& t);
bool dense_rows(const at::Tensor& t);

// Every address, row and head size of the operands is a multiple of `elems` elements.
bool multiples_of(int64_t elems, c10::ArrayRef<const at::Tensor*> operands);

// The philox slice as the two int64 tensors that autograd saves, and back. While a graph is captured, the seed tensor
// has the address of the device's state instead, and the lowest bit of the offset, a multiple of 4, is set.
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

template <class Params>
void set_sequences(Params& p, const RaggedBatch& ragged, TensorArgs& args) {
  if (!ragged.given) return;
  if constexpr (requires { p.sequences; })
    if (ragged.sequences.defined()) p.sequences = args.read(ragged.sequences);
  if constexpr (requires { p.total_q; }) p.total_q = static_cast<int>(ragged.total_q);
  if constexpr (requires { p.cu_seq_q; }) {
    if (ragged.cu_seq_q.defined()) p.cu_seq_q = args.read(ragged.cu_seq_q);
    if (ragged.cu_seq_k.defined()) p.cu_seq_k = args.read(ragged.cu_seq_k);
    if (ragged.seqused_k.defined()) p.seqused_k = args.read(ragged.seqused_k);
    p.total_k = static_cast<int>(ragged.total_k);
  }
  if constexpr (requires { p.pages; }) {
    if (!ragged.pages.defined()) return;
    p.pages = args.read(ragged.pages);
    p.page_step = static_cast<int>(ragged.pages.size(1));
  }
}

// Pairs of a query and a key that it sees, of all heads; 0 for sequences whose lengths the device alone knows.
double seen_pairs(const AttentionCall& call);
// FLOPs of a pass: of_head_dim products over head_dim and of_v_dim over v_dim, for each visible pair.
Work attention_work(const AttentionCall& call, int of_head_dim, int of_v_dim);

// The members that every attention kernel reads. The caller sets the addresses of results.
template <class Params>
Params attention_params(const AttentionCall& call, TensorArgs& args, uint32_t groups) {
  Params p{};
  p.query = args.read(call.query);
  p.key = args.read(call.key);
  p.value = args.read(call.value);
  set_strides(p.query_stride, call.query);
  set_strides(p.key_stride, call.key);
  set_strides(p.value_stride, call.value);
  if (call.mask.defined()) {
    p.bias = args.read(call.mask);
    set_strides(p.bias_stride, call.mask);
  }
  p.seed = call.philox.seed;
  p.offset = call.philox.offset;
  p.state = call.philox.state_address;
  if constexpr (requires { p.groups; }) {  // flash_attn_splitkv has them in its grid and its constants
    p.groups = groups;
    p.heads = static_cast<int>(call.problem.heads);
    p.q_len = static_cast<int>(call.problem.q_len);
  }
  p.kv_heads = static_cast<int>(call.problem.kv_heads);
  if constexpr (requires { p.page_count; }) p.page_count = static_cast<int>(call.key.size(0));
  p.k_len = static_cast<int>(call.problem.k_len);
  p.head_dim = static_cast<int>(call.problem.head_dim);
  p.v_dim = static_cast<int>(call.problem.v_dim);
  p.diagonal = call.diagonal;
  p.left = call.left;
  p.right = call.right;
  p.scale = call.scale;
  p.softcap = call.softcap;
  p.dropout_rest = static_cast<uint32_t>(call.dropout_steps);
  p.dropout_scale = call.dropout_scale;
  set_sequences(p, call.ragged, args);
  return p;
}

// The specialization constants of attention.glsl, which every kernel has.
template <class Spec>
Spec attention_spec(const AttentionCall& call) {
  Spec s;
  s.dtype = call.problem.dtype;
  const AttentionMask& mask = call.problem.mask;
  if (call.mask.defined()) s.bias_dtype = dtype_of(call.mask, call.op);
  s.alibi = mask.kind == AttentionMask::Kind::alibi;
  s.mask_rows = mask.block_q;
  s.mask_keys = mask.block_k;
  s.softcap = call.softcap > 0;
  s.dropout = call.dropout_steps > 0;
  s.dropout_state = call.dropout_steps > 0 && call.philox.state_address != 0;
  s.threshold = static_cast<int>(call.dropout_steps >> 32);
  s.ragged = call.ragged.given;
  s.page_rows = call.ragged.pages.defined() ? call.key.size(2) : int64_t{0};
  return s;
}

// Workgroups of `heads` heads of `length` rows.
template <class Plan>
uint64_t workgroups(const Plan& plan, int64_t heads, int64_t length) {
  const uint64_t blocks =
      static_cast<uint64_t>(heads) * ceil_div(static_cast<uint64_t>(length), static_cast<uint64_t>(plan.block));
  if constexpr (requires { plan.result_parts; })
    return blocks * static_cast<uint64_t>(plan.result_parts);
  else
    return blocks;
}

// Operands of one pass, for the specialization constants that depend on them.
struct AttentionOperands {
  c10::SmallVector<const at::Tensor*, 6> rows;  // every 4-D tensor whose rows the kernel touches
  std::array<const at::Tensor*, 2> tiled = {};  // the two that pass in tiles
  bool grad_bias = false;
};
// The part of a kernel in the backward with a dS workspace (coopmat.glsl).
struct DsMode {
  bool writes_ds = false, only_delta = false, pairs = false, triangle = false;
};

template <class Spec, class Plan>
Spec attention_spec(const AttentionCall& call, const Plan& plan, AttentionPass pass, const AttentionOperands& operands,
                    const DsMode& mode = {}) {
  auto spec = attention_spec<Spec>(call);
  set_call(spec, call, plan, pass, operands, mode);
  return spec;
}

}  // namespace aule::ops
