// Rows of keys and values into a cache of pages.
#pragma once
#include <ATen/core/Tensor.h>

namespace aule::ops {

// key [T, Hkv, D], value [T, Hkv, Dv]; caches [pages, rows of a page, Hkv, D or Dv], written in place; slot_mapping
// [T], int64 or int32: page * rows + row, negative: skipped. One that is out of range is an IndexError at the next
// synchronisation.
void reshape_and_cache(const at::Tensor& key, const at::Tensor& value, const at::Tensor& key_cache,
                       const at::Tensor& value_cache, const at::Tensor& slot_mapping);

}  // namespace aule::ops
