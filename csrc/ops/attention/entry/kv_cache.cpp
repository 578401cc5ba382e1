#include "ops/attention/entry/kv_cache.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <limits>

#include "kernels_attention.gen.h"
#include "ops/attention/blocks.h"
#include "ops/attention/entry/int8_cache.h"
#include "ops/attention/forward.h"
#include "ops/attention/ragged.h"
#include "ops/attention/sequences_plan.h"
#include "ops/tensor/device_assert.h"
#include "ops/tensor/loop_limit.h"

namespace aule::ops {

at::Tensor index_list(const char* op, const char* name, const OptionalTensor& t, const at::Tensor& query,
                      at::IntArrayRef sizes) {
  if (!t.has_value() || !t->defined()) return {};
  TORCH_CHECK(t->device() == query.device(), op, ": expected ", name, " on ", query.device(),
              " like query, but it is on ", t->device());
  TORCH_CHECK(t->scalar_type() == at::kInt, op, ": expected ", name, " of dtype int32, but got ", t->scalar_type());
  bool fits = t->dim() == static_cast<int64_t>(sizes.size());
  for (int64_t i = 0; fits && i < t->dim(); ++i) fits = sizes[i] < 0 || t->size(i) == sizes[i];
  TORCH_CHECK(fits, op, ": expected ", name, " of shape ", sizes, " (-1: any), but got ", t->sizes());
  return t->contiguous();
}

at::Tensor heads_first(const at::Tensor& t) { return attention_operand(t.transpose(-3, -2)); }

AttentionCall ragged_call(const char* op, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                          RaggedBatch ragged, int64_t batch, int64_t max_q, int64_t max_k,
                          const AttentionFlags& flags) {
  AttentionCall call;
  call.op = op;
  call.query = heads_first(query);
  call.key = heads_first(key);
  call.value = heads_first(value);
  const bool int8 = ragged.key_scale.defined();
  if (int8) {
    check_int8_pair(op, "key", key, ragged.key_scale);
    check_int8_pair(op, "value", value, ragged.value_scale);
  }
  check_heads(op, call.query, call.key, call.value, int8);
  TORCH_CHECK(key.size(0) == value.size(0), op, ": expected value of shape like key, ", key.sizes(), ", but got ",
              value.sizes());
  constexpr int64_t kMaxPage = 1 << 16;  // the specialization constant has 24 bits for it
  const bool paged = ragged.pages.defined();
  TORCH_CHECK(!paged || (key.size(-3) >= 1 && key.size(-3) <= kMaxPage), op, ": expected pages of 1 to ", kMaxPage,
              " rows, but got key ", key.sizes());
  ragged.given = true;
  ragged.total_q = call.query.size(2);
  ragged.total_k = paged ? ragged.pages.size(1) * key.size(-3) : call.key.size(2);
  call.ragged = std::move(ragged);
  AttentionProblem& problem = call.problem;
  problem.batch = batch;
  problem.heads = query.size(-2);
  problem.kv_heads = key.size(-2);
  problem.q_len = max_q;
  problem.k_len = max_k;
  problem.head_dim = query.size(-1);
  problem.v_dim = value.size(-1);
  problem.dtype = dtype_of(query, op);
  problem.ragged = true;
  problem.int8 = int8;
  set_flags(call, flags);
  describe_operands(call);
  return call;
}

void make_sequences(AttentionCall& call, std::initializer_list<RaggedTail> tails) {
  RaggedBatch& ragged = call.ragged;
  const auto& problem = call.problem;
  TensorArgs args;
  FlashAttnSequencesParams p{};
  set_sequences(p, ragged, args);
  ragged.sequences = at::empty({problem.batch, 4}, call.query.options().dtype(at::kInt));
  p.sequences = args.write(ragged.sequences);
  p.batch = static_cast<int>(problem.batch);
  p.q_len = static_cast<int>(problem.q_len);
  p.bytes = static_cast<int>(call.query.element_size());
  SequencesProblem sizes{.batch = static_cast<uint64_t>(problem.batch), .tails = {}};
  size_t i = 0;
  for (const auto& [result, list] : tails) {
    if (!list.defined()) continue;
    sizes.tails[i] = {static_cast<uint64_t>(result.size(2)), static_cast<uint64_t>(result.size(1)),
                      static_cast<uint64_t>(result.size(3))};
    p.tail[i] = args.write(result);
    p.tail_list[i] = args.read(list);
    p.tail_stride[2 * i] = result.stride(1);
    p.tail_stride[2 * i + 1] = result.stride(2);
    p.tail_rows[i] = static_cast<int>(result.size(2));
    p.tail_heads[i] = static_cast<int>(result.size(1));
    p.tail_dim[i] = static_cast<int>(result.size(3));
    ++i;
  }
  const auto plan = sequences_plan(caps_of(call.query), sizes);
  TORCH_CHECK_NOT_IMPLEMENTED(plan, call.op, ": too many rows may be padding: ", loop_limit_text(caps_of(call.query)));
  launch(current(call.query), kernel::flash_attn_sequences(), {.groups = plan->groups, .local = plan->local}, p, args,
         Grid{plan->groups});
}

void check_sequences(const AttentionCall& call) {
  const RaggedBatch& ragged = call.ragged;
  auto& stream = current(call.query);
  TensorArgs args;
  FlashAttnCheckParams p{};
  set_sequences(p, ragged, args);
  const bool paged = ragged.pages.defined();
  p.n = static_cast<uint32_t>(call.problem.batch * (paged ? std::max<int64_t>(ragged.pages.size(1), 1) : 1));
  p.q_len = static_cast<int>(call.problem.q_len);
  p.page_count = paged ? static_cast<int>(call.key.size(0)) : 0;
  p.page_rows = paged ? static_cast<int>(call.key.size(2)) : 0;
  p.left = call.left;
  p.error = error_address(stream);
  p.page_tag = lasting_error_tag(std::string(call.op) + ", a page");
  p.length_tag = lasting_error_tag(std::string(call.op) + ", a length or offset of a sequence");
  const uint32_t local = caps_of(call.query).is_software() ? 8 : 64;
  launch(stream, kernel::flash_attn_check(), {.local = static_cast<int>(local)}, p, args,
         linear_grid(ceil_div(p.n, local)));
}

void ragged_forward(AttentionCall& call, const at::Tensor& out, const at::Tensor& logsumexp, bool check) {
  if (check) check_sequences(call);
  if (long_ragged_forward(call, out, logsumexp)) return;
  if (!reads_lists(plan_of(call, AttentionPass::forward)) || call.ragged.cu_seq_q.defined())
    make_sequences(call, {{out, call.ragged.cu_seq_q}});
  launch_forward_block(call, out, logsumexp);
}

std::tuple<at::Tensor, at::Tensor> flash_attn_decode(
    const at::Tensor& query, const at::Tensor& key_cache, const at::Tensor& value_cache,
    const OptionalTensor& seqused_k, const OptionalTensor& block_table, bool is_causal, std::optional<double> scale,
    int64_t window_left, int64_t window_right, double softcap, int64_t num_splits, const OptionalTensor& alibi_slopes,
    bool check, const OptionalTensor& key_scale, const OptionalTensor& value_scale) {
  const char* op = "flash_attn_decode";
  for (const auto& [name, t] : {std::pair{"query", &query}, {"key_cache", &key_cache}, {"value_cache", &value_cache}})
    TORCH_CHECK(t->dim() == 4, op, ": expected ", name, " of 4 dimensions (batch or pages, rows, heads, head size), ",
                "but got ", t->sizes());
  const int64_t batch = query.size(0), q_len = query.size(1);
  RaggedBatch ragged;
  ragged.seqused_k = index_list(op, "seqused_k", seqused_k, query, {batch});
  ragged.pages = index_list(op, "block_table", block_table, query, {batch, -1});
  ragged.key_scale = key_scale.value_or(at::Tensor());
  ragged.value_scale = value_scale.value_or(at::Tensor());
  TORCH_CHECK(ragged.key_scale.defined() == ragged.value_scale.defined(), op,
              ": expected both of key_scale and value_scale, or none");
  const bool paged = ragged.pages.defined(), int8 = ragged.key_scale.defined();
  TORCH_CHECK(!paged || ragged.seqused_k.defined(), op, ": expected seqused_k beside block_table");
  TORCH_CHECK(paged || key_cache.size(0) == batch, op, ": expected key_cache of batch size ", batch,
              " like query, but got ", key_cache.sizes());
  const at::Tensor packed = query.reshape({batch * q_len, query.size(2), query.size(3)});
  const int64_t max_k = key_cache.size(1) * (paged ? ragged.pages.size(1) : 1);
  const AttentionFlags flags{0,    softcap,     scale,        is_causal,
                             true, window_left, window_right, alibi_slopes.value_or(at::Tensor())};
  AttentionCall call = ragged_call(op, packed, key_cache, value_cache, std::move(ragged), batch, q_len, max_k, flags);
  call.problem.num_splits = num_splits;

  at::Tensor out = at::empty({batch, q_len, query.size(2), value_cache.size(3)}, query.options());
  at::Tensor logsumexp = at::empty({query.size(2), batch, q_len}, query.options().dtype(at::kFloat));
  if (out.numel() != 0 && (max_k == 0 || key_cache.numel() == 0)) {  // no query sees a key
    out.zero_();
    logsumexp.fill_(-std::numeric_limits<double>::infinity());
  } else if (out.numel() != 0 && int8) {
    if (check) check_sequences(call);
    const DecodeOptions options{is_causal, scale, window_left, window_right, softcap, num_splits, alibi_slopes};
    int8_forward(call, query, key_cache, value_cache, options, out, logsumexp);
  } else if (out.numel() != 0) {
    ragged_forward(call, heads_first(out.view({batch * q_len, query.size(2), out.size(3)})), logsumexp, check);
  }
  return {out, logsumexp.transpose(0, 1)};
}

at::Tensor paged_attention(const at::Tensor& query, const at::Tensor& key_cache, const at::Tensor& value_cache,
                           const at::Tensor& block_table, const at::Tensor& context_lens, std::optional<double> scale,
                           bool is_causal, int64_t window_left, int64_t window_right, double softcap,
                           const OptionalTensor& alibi_slopes) {
  TORCH_CHECK(query.dim() == 3 || query.dim() == 4,
              "paged_attention: expected query of shape (batch, heads, head size) or (batch, rows, heads, head size), "
              "but got ",
              query.sizes());
  const bool single = query.dim() == 3;
  const at::Tensor out = std::get<0>(flash_attn_decode(single ? query.unsqueeze(1) : query, key_cache, value_cache,
                                                       context_lens, block_table, is_causal, scale, window_left,
                                                       window_right, softcap, 0, alibi_slopes, true, {}, {}));
  return single ? out.squeeze(1) : out;
}

}  // namespace aule::ops
