#include "ops/attention/entry/int8_cache.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <algorithm>

#include "kernels_kvcache.gen.h"
#include "ops/attention/blocks.h"
#include "ops/attention/entry/kv_cache.h"
#include "ops/attention/ragged.h"
#include "ops/tensor/loop_limit.h"

namespace aule::ops {
namespace {

constexpr int64_t kMostRows = 16;  // query rows of a key head that split-KV takes
constexpr int64_t kMostParts = 8;  // each reads the keys again: 8 bits that often, or 16 once, written and read

// Rows of the sequences of a call in the query's dtype, [B, rows, heads, D]; those not in use are left as they are.
at::Tensor rows_in_use(const AttentionCall& call, const at::Tensor& cache, const at::Tensor& scale) {
  const RaggedBatch& ragged = call.ragged;
  const int64_t batch = call.problem.batch, heads = cache.size(2), size = cache.size(3);
  const at::Tensor rows = at::empty({batch, ragged.total_k, heads, size}, call.query.options());
  constexpr int64_t kColumns = 16;  // of an invocation
  const int64_t total = rows.numel() / kColumns;
  TORCH_CHECK(total <= 0xffffffffll, call.op, ": too many rows of the cache beside ", call.problem.q_len,
              " queries: ", rows.sizes());
  auto& stream = current(cache);
  TensorArgs args;
  KvCacheInt8RowsParams p{};
  p.cache = args.read(cache);
  p.scale = args.read(scale);
  p.rows = args.write(rows);
  set_sequences(p, ragged, args);
  p.page_count = static_cast<int>(cache.size(0));
  p.total = static_cast<uint32_t>(total);
  p.heads = static_cast<uint32_t>(heads);
  p.size = static_cast<uint32_t>(size);
  p.page_rows = static_cast<uint32_t>(cache.size(1));
  launch(stream, kernel::kv_cache_int8_rows(), {.dtype = call.problem.dtype, .paged = ragged.pages.defined()}, p, args,
         linear_grid(ceil_div(p.total, KvCacheInt8RowsParams::kLocal)));
  return rows;
}

}  // namespace

void check_int8_pair(const char* op, const char* name, const at::Tensor& cache, const at::Tensor& scale) {
  TORCH_CHECK(cache.scalar_type() == at::kChar && scale.scalar_type() == at::kBFloat16, op, ": expected ", name,
              "_cache of dtype int8 and ", name, "_scale of dtype bfloat16, but got ", cache.scalar_type(), " and ",
              scale.scalar_type());
  TORCH_CHECK(cache.device() == scale.device(), op, ": expected ", name, "_scale on ", cache.device(), " like ", name,
              "_cache, but it is on ", scale.device());
  TORCH_CHECK(cache.size(-1) % kInt8Block == 0, op, ": expected an int8 ", name, "_cache with a head size that is a ",
              "multiple of ", kInt8Block, ", but got ", cache.sizes());
  auto sizes = cache.sizes().vec();
  sizes.back() /= kInt8Block;
  TORCH_CHECK(scale.sizes() == at::IntArrayRef(sizes), op, ": expected ", name, "_scale of shape ",
              at::IntArrayRef(sizes), ", a scale for each ", kInt8Block, " numbers of ", name, "_cache, but got ",
              scale.sizes());
  TORCH_CHECK(cache.is_contiguous() && scale.is_contiguous() && address_of(cache) % 16 == 0, op, ": expected ", name,
              "_cache and ", name, "_scale contiguous, the first at a multiple of 16 bytes, but their strides are ",
              cache.strides(), " and ", scale.strides());
}

void int8_forward(AttentionCall& call, const at::Tensor& query, const at::Tensor& key_cache,
                  const at::Tensor& value_cache, const DecodeOptions& options, const at::Tensor& out,
                  const at::Tensor& logsumexp) {
  const AttentionProblem& problem = call.problem;
  const Caps& caps = caps_of(query);
  const RaggedBatch& ragged = call.ragged;
  const int64_t batch = problem.batch, q_len = problem.q_len, members = problem.heads / problem.kv_heads;
  const OptionalTensor pages = ragged.pages.defined() ? OptionalTensor(ragged.pages) : std::nullopt;
  const bool whole = !walks_limited(caps) || may_walk(caps, static_cast<uint64_t>(problem.k_len));
  auto& plan = call.plans[static_cast<size_t>(AttentionPass::forward)];
  if (whole) plan = plan_attention(profile_of(query), problem, AttentionPass::forward, overrides());
  if (plan) {
    launch_forward_block(call, heads_first(out.view({batch * q_len, out.size(2), out.size(3)})), logsumexp);
    return;
  }
  const auto again = [&](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const OptionalTensor& used,
                         const OptionalTensor& table, const at::Tensor& k_scale, const at::Tensor& v_scale) {
    const auto given = [](const at::Tensor& t) { return t.defined() ? OptionalTensor(t) : std::nullopt; };
    return flash_attn_decode(q, k, v, used, table, options.is_causal, options.scale, options.window_left,
                             options.window_right, options.softcap, options.num_splits, options.alibi_slopes, false,
                             given(k_scale), given(v_scale));
  };
  const int64_t each = members > 0 ? kMostRows / members : 0;
  AttentionProblem part = problem;
  part.q_len = each;
  const bool in_parts = whole && options.is_causal && each > 0 && ceil_div(q_len, each) <= kMostParts &&
                        plan_attention(profile_of(query), part, AttentionPass::forward, overrides());
  if (in_parts) {
    const at::Tensor used = ragged.seqused_k.defined()
                                ? ragged.seqused_k
                                : at::full({batch}, problem.k_len, query.options().dtype(at::kInt));
    for (int64_t first = 0; first < q_len; first += each) {
      const int64_t count = std::min(each, q_len - first);
      // Keys behind the part's last query are of no use to it.
      const at::Tensor seen = used.sub(q_len - first - count).clamp_min_(0);
      const auto [rows, sums] = again(query.narrow(1, first, count), key_cache, value_cache, seen, pages,
                                      ragged.key_scale, ragged.value_scale);
      out.narrow(1, first, count).copy_(rows);
      logsumexp.narrow(2, first, count).copy_(sums.transpose(0, 1));
    }
    return;
  }
  const OptionalTensor used = ragged.seqused_k.defined() ? OptionalTensor(ragged.seqused_k) : std::nullopt;
  const auto [rows, sums] = again(query, rows_in_use(call, key_cache, ragged.key_scale),
                                  rows_in_use(call, value_cache, ragged.value_scale), used, std::nullopt, {}, {});
  out.copy_(rows);
  logsumexp.copy_(sums.transpose(0, 1));
}

}  // namespace aule::ops
