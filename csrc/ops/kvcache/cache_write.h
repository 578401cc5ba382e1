// Rows of keys and values into a cache of pages.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace aule::ops {

// key [T, Hkv, D], value [T, Hkv, Dv]; caches [pages, rows of a page, Hkv, D or Dv], written in place; slot_mapping
// [T], int64 or int32: page * rows + row, negative: skipped. One that is out of range is an IndexError at the next
// synchronisation.
void reshape_and_cache(const at::Tensor& key, const at::Tensor& value, const at::Tensor& key_cache,
                       const at::Tensor& value_cache, const at::Tensor& slot_mapping);

// k [B, n, Hkv, D] and v [B, n, Hkv, Dv] into rows lengths[b], lengths[b] + 1, ... of each sequence's cache, in place:
// caches [B, rows, Hkv, D or Dv], or pages with block_table [B, most pages of a sequence]. With cos and sin [rows,
// half] k is turned by the angles of its rows first, and q [B, n, H, D] too. Returns q turned (q itself without tables,
// empty without q), and the new lengths, int32 [B]. With key_scale and value_scale, bfloat16, the caches are int8
// (attention/int8_cache.h), and the scales are written in place, too.
std::tuple<at::Tensor, at::Tensor> kv_cache_append(
    const at::Tensor& key, const at::Tensor& value, const at::Tensor& key_cache, const at::Tensor& value_cache,
    const at::Tensor& lengths, const std::optional<at::Tensor>& block_table, const std::optional<at::Tensor>& query,
    const std::optional<at::Tensor>& cos, const std::optional<at::Tensor>& sin, bool interleaved,
    const std::optional<at::Tensor>& key_scale, const std::optional<at::Tensor>& value_scale);

}  // namespace aule::ops
