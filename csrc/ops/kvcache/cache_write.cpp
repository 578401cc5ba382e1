#include "ops/kvcache/cache_write.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

#include "kernels_kvcache.gen.h"
#include "ops/attention/entry/int8_cache.h"
#include "ops/tensor/device_assert.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

void check_float(const char* kName, const char* name, const at::Tensor& x) {
  const auto dtype = x.scalar_type();
  TORCH_CHECK(dtype == at::kFloat || dtype == at::kHalf || dtype == at::kBFloat16, kName, ": expected ", name,
              " of dtype float32, float16 or bfloat16, but got ", dtype);
}

// x [..., heads, head size]
void check_pair(const char* kName, const char* name, const char* cache_name, const at::Tensor& x,
                const at::Tensor& cache, const at::Tensor& scale) {
  TORCH_CHECK(cache.dim() == 4 && cache.size(2) == x.size(-2) && cache.size(3) == x.size(-1), kName, ": expected ",
              cache_name, " of shape [pages, rows of a page, ", x.size(-2), ", ", x.size(-1), "], but got ",
              cache.sizes());
  check_float(kName, name, x);
  if (scale.defined()) {
    check_int8_pair(kName, name, cache, scale);
    at::assert_no_overlap(cache, scale);
    return;
  }
  TORCH_CHECK(cache.scalar_type() == x.scalar_type(), kName, ": expected ", cache_name, " of dtype ", x.scalar_type(),
              " like ", name, ", but got ", cache.scalar_type());
  TORCH_CHECK(cache.stride(-1) == 1 || cache.size(-1) == 1, kName, ": expected ", cache_name,
              " dense in its last dimension, but its strides are ", cache.strides());
  at::assert_no_internal_overlap(cache);
  at::assert_no_overlap(cache, x);
}

// Checks new keys and values, [..., heads, head size], and their caches.
void check_caches(const char* kName, const at::Tensor& key, const at::Tensor& value, const at::Tensor& key_cache,
                  const at::Tensor& value_cache, const at::Tensor& key_scale = {}, const at::Tensor& value_scale = {}) {
  check_pair(kName, "key", "key_cache", key, key_cache, key_scale);
  check_pair(kName, "value", "value_cache", value, value_cache, value_scale);
  at::assert_no_overlap(key_cache, value_cache);
  TORCH_CHECK(value_cache.sizes().slice(0, 2) == key_cache.sizes().slice(0, 2), kName, ": expected value_cache of ",
              key_cache.size(0), " pages of ", key_cache.size(1), " rows like key_cache, but got ",
              value_cache.sizes());
}

at::Tensor dense(const at::Tensor& t) { return t.stride(-1) == 1 || t.size(-1) == 1 ? t : t.contiguous(); }

// Addresses, strides and the head size are multiples of 16 bytes.
bool in_blocks(const at::Tensor& t) {
  const auto bytes = static_cast<int64_t>(t.element_size());
  bool all = address_of(t) % 16 == 0 && t.size(-1) * bytes % 16 == 0;
  for (int64_t d = 0; d + 1 < t.dim(); ++d) all = all && (t.size(d) == 1 || t.stride(d) * bytes % 16 == 0);
  return all;
}

template <size_t N>
void set_units(int64_t (&strides)[N], const at::Tensor& t, int64_t unit) {
  for (size_t d = 0; d < N; ++d) {
    const auto i = static_cast<int64_t>(d);
    strides[d] = t.size(i) == 1 ? 0 : t.stride(i) / unit;
  }
}

}  // namespace

void reshape_and_cache(const at::Tensor& key, const at::Tensor& value, const at::Tensor& key_cache,
                       const at::Tensor& value_cache, const at::Tensor& slot_mapping) {
  constexpr const char* kName = "reshape_and_cache";
  check_same_device(kName, {&key, &value, &key_cache, &value_cache, &slot_mapping});
  for (const auto& [name, t] : {std::pair{"key", &key}, std::pair{"value", &value}})
    TORCH_CHECK(t->dim() == 3, kName, ": expected ", name, " of shape [tokens, heads, head size], but got ",
                t->sizes());
  check_caches(kName, key, value, key_cache, value_cache);
  TORCH_CHECK(value.size(0) == key.size(0) && value.size(1) == key.size(1), kName, ": expected value of ", key.size(0),
              " tokens and ", key.size(1), " heads like key, but got ", value.sizes());
  TORCH_CHECK(value.scalar_type() == key.scalar_type(), kName, ": expected value of dtype ", key.scalar_type(),
              " like key, but got ", value.scalar_type());
  const auto type = slot_mapping.scalar_type();
  TORCH_CHECK(type == at::kLong || type == at::kInt, kName, ": expected slot_mapping of dtype int64 or int32, but got ",
              type);
  TORCH_CHECK(slot_mapping.dim() == 1 && slot_mapping.size(0) == key.size(0), kName,
              ": expected slot_mapping of shape [", key.size(0), "], a slot for each token, but got ",
              slot_mapping.sizes());
  if (key.numel() == 0 && value.numel() == 0) return;
  const at::Tensor k = dense(key), v = dense(value), slots = slot_mapping.contiguous();
  const bool wide = in_blocks(k) && in_blocks(v) && in_blocks(key_cache) && in_blocks(value_cache);
  const int64_t unit = wide ? 16 / static_cast<int64_t>(k.element_size()) : 1;
  const int64_t key_tasks = k.size(2) / unit, value_tasks = v.size(2) / unit;
  const int64_t total = k.size(0) * k.size(1) * (key_tasks + value_tasks);
  TORCH_CHECK(total <= 0xffffffffll && key_cache.size(1) <= 0xffffffffll, kName, ": too many elements: ", key.sizes());

  auto& stream = current(key);
  TensorArgs args;
  ReshapeAndCacheParams p{};
  p.key = args.read(k);
  p.value = args.read(v);
  p.key_cache = args.read_write(key_cache);
  p.value_cache = args.read_write(value_cache);
  p.slots = args.read(slots);
  p.error = error_address(stream);
  p.slot_count = key_cache.size(0) * key_cache.size(1);
  set_units(p.key_stride, k, unit);
  set_units(p.value_stride, v, unit);
  set_units(p.key_cache_stride, key_cache, unit);
  set_units(p.value_cache_stride, value_cache, unit);
  p.total = static_cast<uint32_t>(total);
  p.heads = static_cast<uint32_t>(k.size(1));
  p.key_tasks = static_cast<uint32_t>(key_tasks);
  p.value_tasks = static_cast<uint32_t>(value_tasks);
  p.page_rows = static_cast<uint32_t>(std::max<int64_t>(key_cache.size(1), 1));
  p.tag = error_tag(kName);
  launch(stream, kernel::reshape_and_cache(),
         {.raw_dtype = raw_dtype_of(k), .slot_dtype = dtype_of(slots, kName), .wide = wide}, p, args,
         linear_grid(ceil_div(p.total, ReshapeAndCacheParams::kLocal)));
}

std::tuple<at::Tensor, at::Tensor> kv_cache_append(
    const at::Tensor& key, const at::Tensor& value, const at::Tensor& key_cache, const at::Tensor& value_cache,
    const at::Tensor& lengths, const std::optional<at::Tensor>& block_table, const std::optional<at::Tensor>& query,
    const std::optional<at::Tensor>& cos, const std::optional<at::Tensor>& sin, bool interleaved,
    const std::optional<at::Tensor>& key_scale, const std::optional<at::Tensor>& value_scale) {
  constexpr const char* kName = "kv_cache_append";
  const auto given = [](const std::optional<at::Tensor>& t) { return t.value_or(at::Tensor()); };
  const at::Tensor table = given(block_table), q_in = given(query), cosines = given(cos), sines = given(sin),
                   k_scale = given(key_scale), v_scale = given(value_scale);
  check_same_device(
      kName, {&key, &value, &key_cache, &value_cache, &lengths, &table, &q_in, &cosines, &sines, &k_scale, &v_scale});
  TORCH_CHECK(k_scale.defined() == v_scale.defined(), kName, ": expected both of key_scale and value_scale, or none");
  for (const auto& [name, t] : {std::pair{"key", &key}, std::pair{"value", &value}})
    TORCH_CHECK(t->dim() == 4, kName, ": expected ", name, " of shape [batch, tokens, heads, head size], but got ",
                t->sizes());
  check_caches(kName, key, value, key_cache, value_cache, k_scale, v_scale);
  const int64_t batch = key.size(0), tokens = key.size(1), heads = key.size(2), size = key.size(3);
  TORCH_CHECK(value.sizes().slice(0, 3) == key.sizes().slice(0, 3) && value.scalar_type() == key.scalar_type(), kName,
              ": expected value of shape [", batch, ", ", tokens, ", ", heads, ", head size] and dtype ",
              key.scalar_type(), " like key, but got ", value.sizes(), " of ", value.scalar_type());
  const auto type = lengths.scalar_type();
  TORCH_CHECK((type == at::kInt || type == at::kLong) && lengths.dim() == 1 && lengths.size(0) == batch, kName,
              ": expected lengths of int32 or int64, [", batch, "], but got ", lengths.sizes(), " of ", type);
  if (table.defined()) {
    TORCH_CHECK(table.scalar_type() == at::kInt && table.dim() == 2 && table.size(0) == batch, kName,
                ": expected block_table of int32, [", batch, ", pages], but got ", table.sizes(), " of ",
                table.scalar_type());
  } else {
    TORCH_CHECK(key_cache.size(0) >= batch, kName, ": expected caches of ", batch, " sequences, but got ",
                key_cache.sizes());
  }
  TORCH_CHECK(cosines.defined() == sines.defined(), kName, ": expected both of cos and sin, or none");
  const bool turns = cosines.defined();
  int64_t half = 0;
  if (turns) {
    const auto dtype = cosines.scalar_type();
    TORCH_CHECK(dtype == at::kFloat || dtype == at::kHalf || dtype == at::kBFloat16, kName,
                ": expected cos of float32, float16 or bfloat16, but got ", dtype);
    TORCH_CHECK(cosines.dim() == 2 && sines.sizes() == cosines.sizes() && sines.scalar_type() == dtype, kName,
                ": expected cos and sin of one dtype and one shape [rows, half], but got ", cosines.sizes(), " and ",
                sines.sizes());
    half = cosines.size(1);
    TORCH_CHECK(half > 0 && 2 * half <= size && size % 2 == 0, kName, ": tables of ", half,
                " columns turn twice as many elements, but heads have ", size);
  }
  if (q_in.defined())
    TORCH_CHECK(q_in.dim() == 4 && q_in.size(0) == batch && q_in.size(1) == tokens && q_in.size(3) == size &&
                    q_in.scalar_type() == key.scalar_type(),
                kName, ": expected query of shape [", batch, ", ", tokens, ", heads, ", size, "] and dtype ",
                key.scalar_type(), " like key, but got ", q_in.sizes(), " of ", q_in.scalar_type());

  const bool makes_q = q_in.defined() && turns;
  const at::Tensor k = dense(key), v = dense(value), q = makes_q ? dense(q_in) : at::Tensor();
  // Results are tensors of their own: an operator does not return its arguments.
  const at::Tensor q_out = makes_q          ? at::empty(q.sizes(), q.options())
                           : q_in.defined() ? q_in.clone()
                                            : at::empty({0}, key.options());
  const at::Tensor after = at::empty({batch}, lengths.options().dtype(at::kInt));
  if (batch == 0) return {q_out, after};
  if (tokens == 0) return {q_out, after.copy_(lengths)};
  const at::Tensor rows = lengths.contiguous(), pages = table.defined() ? table.contiguous() : table;
  const at::Tensor c = turns ? cosines.contiguous() : cosines, s = turns ? sines.contiguous() : sines;

  const bool int8 = k_scale.defined();
  // Sixteen bytes of elements, of both parts of what turns together; in 8 bits eight elements.
  const int64_t wide = int8 ? 8 : 16 / static_cast<int64_t>(k.element_size());
  bool blocks = size % (2 * wide) == 0 && v.size(3) % (2 * wide) == 0 && in_blocks(k) && in_blocks(v) &&
                in_blocks(key_cache) && in_blocks(value_cache) && (!makes_q || in_blocks(q));
  if (turns)
    blocks = blocks && half % wide == 0 && half * static_cast<int64_t>(c.element_size()) % 16 == 0 &&
             address_of(c) % 16 == 0 && address_of(s) % 16 == 0;
  const int64_t w = blocks ? wide : 1, in_task = int8 ? 8 : 2 * w;
  const int64_t tasks = ceil_div(size, in_task), v_tasks = ceil_div(v.size(3), in_task);
  const int64_t of_token = (makes_q ? q.size(2) * tasks : 0) + heads * (tasks + v_tasks);
  const int64_t total = batch * tokens * of_token, columns = table.defined() ? table.size(1) : 1;
  TORCH_CHECK(total <= 0xffffffffll && columns * key_cache.size(1) <= 0xffffffffll, kName,
              ": too many elements: ", key.sizes());
  if (total == 0) return {q_out, after.copy_(lengths).add_(tokens)};

  auto& stream = current(key);
  const auto set_common = [&](auto& p, TensorArgs& args) {
    if (makes_q) {
      p.q = args.read(q);
      p.q_out = args.write(q_out);
      set_units(p.q_stride, q, 1);
    }
    p.k = args.read(k);
    p.v = args.read(v);
    p.key_cache = args.read_write(key_cache);
    p.value_cache = args.read_write(value_cache);
    p.lengths = args.read(rows);
    p.lengths_after = args.write(after);
    if (pages.defined() && pages.numel() > 0) p.block_table = args.read(pages);
    if (turns) {
      p.cosines = args.read(c);
      p.sines = args.read(s);
      p.table_rows = static_cast<uint32_t>(std::min<int64_t>(c.size(0), 0xffffffffll));
    }
    p.error = error_address(stream);
    p.pages = key_cache.size(0);
    set_units(p.k_stride, k, 1);
    set_units(p.v_stride, v, 1);
    p.total = static_cast<uint32_t>(total);
    p.tokens = static_cast<uint32_t>(tokens);
    p.q_heads = makes_q ? static_cast<uint32_t>(q.size(2)) : 0;
    p.kv_heads = static_cast<uint32_t>(heads);
    p.size = static_cast<uint32_t>(size);
    p.v_size = static_cast<uint32_t>(v.size(3));
    p.page_rows = static_cast<uint32_t>(std::max<int64_t>(key_cache.size(1), 1));
    p.columns = static_cast<uint32_t>(key_cache.size(1) > 0 ? columns : 0);
    p.tag = error_tag(kName);
  };
  const auto set_spec = [&](auto spec) {
    spec.dtype = dtype_of(k, kName);
    spec.table_dtype = turns ? dtype_of(c, kName) : DType::f32;
    spec.length_dtype = dtype_of(rows, kName);
    spec.block_table = table.defined();
    spec.rotary = turns;
    spec.interleaved = interleaved;
    return spec;
  };
  const Grid grid = linear_grid(ceil_div(static_cast<uint32_t>(total), ReshapeAndCacheParams::kLocal));
  TensorArgs args;
  if (int8) {
    KvCacheAppendInt8Params p{};
    set_common(p, args);
    p.key_scale = args.read_write(k_scale);
    p.value_scale = args.read_write(v_scale);
    p.half_ = static_cast<uint32_t>(half);
    auto spec = set_spec(KvCacheAppendInt8Spec{});
    spec.wide = blocks;
    launch(stream, kernel::kv_cache_append_int8(), spec, p, args, grid);
  } else {
    KvCacheAppendParams p{};
    set_common(p, args);
    set_units(p.key_cache_stride, key_cache, 1);
    set_units(p.value_cache_stride, value_cache, 1);
    p.q_tasks = p.k_tasks = static_cast<uint32_t>(tasks);
    p.v_tasks = static_cast<uint32_t>(v_tasks);
    p.turning = static_cast<uint32_t>(half / w);
    auto spec = set_spec(KvCacheAppendSpec{});
    spec.w = static_cast<int>(w);
    launch(stream, kernel::kv_cache_append(), spec, p, args, grid);
  }
  return {q_out, after};
}

}  // namespace aule::ops
