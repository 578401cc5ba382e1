#include "ops/attention/cache_write.h"

#include <ATen/MemoryOverlap.h>

#include <algorithm>

#include "kernels_attention.gen.h"
#include "ops/tensor/device_assert.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

constexpr const char* kName = "reshape_and_cache";

void check_pair(const char* name, const char* cache_name, const at::Tensor& x, const at::Tensor& cache) {
  TORCH_CHECK(x.dim() == 3, kName, ": expected ", name, " of shape [tokens, heads, head size], but got ", x.sizes());
  TORCH_CHECK(cache.dim() == 4 && cache.size(2) == x.size(1) && cache.size(3) == x.size(2), kName, ": expected ",
              cache_name, " of shape [pages, rows of a page, ", x.size(1), ", ", x.size(2), "], but got ",
              cache.sizes());
  const auto dtype = x.scalar_type();
  TORCH_CHECK(dtype == at::kFloat || dtype == at::kHalf || dtype == at::kBFloat16, kName, ": expected ", name,
              " of dtype float32, float16 or bfloat16, but got ", dtype);
  TORCH_CHECK(cache.scalar_type() == dtype, kName, ": expected ", cache_name, " of dtype ", dtype, " like ", name,
              ", but got ", cache.scalar_type());
  TORCH_CHECK(cache.stride(-1) == 1 || cache.size(-1) == 1, kName, ": expected ", cache_name,
              " dense in its last dimension, but its strides are ", cache.strides());
  at::assert_no_internal_overlap(cache);
  at::assert_no_overlap(cache, x);
}

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
  check_same_device(kName, {&key, &value, &key_cache, &value_cache, &slot_mapping});
  check_pair("key", "key_cache", key, key_cache);
  check_pair("value", "value_cache", value, value_cache);
  at::assert_no_overlap(key_cache, value_cache);
  TORCH_CHECK(value.size(0) == key.size(0) && value.size(1) == key.size(1), kName, ": expected value of ", key.size(0),
              " tokens and ", key.size(1), " heads like key, but got ", value.sizes());
  TORCH_CHECK(value.scalar_type() == key.scalar_type(), kName, ": expected value of dtype ", key.scalar_type(),
              " like key, but got ", value.scalar_type());
  TORCH_CHECK(value_cache.size(0) == key_cache.size(0) && value_cache.size(1) == key_cache.size(1), kName,
              ": expected value_cache of ", key_cache.size(0), " pages of ", key_cache.size(1),
              " rows like key_cache, but got ", value_cache.sizes());
  const auto type = slot_mapping.scalar_type();
  TORCH_CHECK(type == at::kLong || type == at::kInt, kName, ": expected slot_mapping of dtype int64 or int32, but got ",
              type);
  TORCH_CHECK(slot_mapping.dim() == 1 && slot_mapping.size(0) == key.size(0), kName,
              ": expected slot_mapping of shape [", key.size(0), "], a slot for each token, but got ",
              slot_mapping.sizes());
  if (key.numel() == 0 && value.numel() == 0) return;
  const auto dense = [](const at::Tensor& t) { return t.stride(-1) == 1 || t.size(-1) == 1 ? t : t.contiguous(); };
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
         linear_grid(ceil_div(p.total, 64)));
}

}  // namespace aule::ops
