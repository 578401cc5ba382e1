#include "ops/fallback/host_copies.h"

#include <ATen/ops/alias.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>

#include "ops/copy/copy.h"
#include "ops/factory/storage.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

bool ours(const at::Tensor& t) {
  return t.defined() && t.device().type() == c10::DeviceType::PrivateUse1 && t.layout() == at::kStrided;
}

// Elements from the first to the last one, gaps included.
int64_t extent(const at::Tensor& t) {
  if (t.numel() == 0) return 0;
  int64_t last = 0;
  for (int64_t d = 0; d < t.dim(); ++d) last += (t.size(d) - 1) * t.stride(d);
  return last + 1;
}
// True if a copy of the whole range, gaps included, is cheap enough.
bool compact(const at::Tensor& t) { return extent(t) <= 4 * t.numel(); }

bool has_bits(const at::Tensor& t) { return t.is_conj() || t.is_neg(); }
void set_bits(const at::Tensor& t, const at::Tensor& like) {
  if (like.is_conj() != t.is_conj()) t._set_conj(like.is_conj());
  if (like.is_neg() != t.is_neg()) t._set_neg(like.is_neg());
}
// The memory behind the bits.
at::Tensor plain(const at::Tensor& t) {
  if (!has_bits(t)) return t;
  at::Tensor view = at::alias(t);
  if (view.is_conj()) view._set_conj(false);
  if (view.is_neg()) view._set_neg(false);
  return view;
}

at::ScalarType wider(at::ScalarType type) {
  if (type == at::kHalf || type == at::kBFloat16) return at::kFloat;
  return type == at::kComplexHalf ? at::kComplexFloat : type;
}

at::Tensor download_alone(const at::Tensor& t) {
  at::Tensor host = at::empty_strided(t.sizes(), t.strides(), t.options().device(at::kCPU));
  if (t.numel() > 0) {
    if (compact(t)) {
      download_bytes(current(t), host.data_ptr(), address_of(t),
                     static_cast<uint64_t>(extent(t)) * static_cast<uint64_t>(t.element_size()));
    } else {
      host.copy_(plain(t));
    }
  }
  set_bits(host, t);
  return host;
}

}  // namespace

void HostCopies::add(const at::Tensor& t, bool written) {
  if (!ours(t)) return;
  for (Pair& pair : pairs_)
    if (pair.original.is_same(t)) {
      pair.written = pair.written || written;
      return;
    }
  pairs_.push_back({t, {}, written});
}

void HostCopies::make_all() {
  for (Pair& pair : pairs_) {
    if (pair.copy.defined()) continue;
    const at::Tensor& t = pair.original;
    const c10::OptionalDeviceGuard guard(t.device());
    std::vector<Pair*> group;
    bool written = false;
    for (Pair& other : pairs_)
      if (other.original.numel() > 0 && other.original.is_alias_of(t)) {
        group.push_back(&other);
        written = written || other.written;
      }
    if (group.size() < 2 || !written) {
      pair.copy = download_alone(t);
      continue;
    }
    // One piece of host memory for all, aligned for any of their dtypes.
    int64_t begin = INT64_MAX, end = 0;
    for (const Pair* member : group) {
      const at::Tensor& m = member->original;
      begin = std::min(begin, m.storage_offset() * m.element_size());
      end = std::max(end, (m.storage_offset() + extent(m)) * m.element_size());
    }
    begin -= begin % 16;
    at::Tensor bytes = at::empty({end - begin}, at::TensorOptions().dtype(at::kByte).device(at::kCPU));
    const uint64_t base = reinterpret_cast<uint64_t>(t.storage().data()) + static_cast<uint64_t>(begin);
    download_bytes(current(t), bytes.data_ptr(), base, static_cast<uint64_t>(end - begin));
    for (Pair* member : group) {
      const at::Tensor& m = member->original;
      member->copy = at::empty({0}, m.options().device(at::kCPU));
      member->copy.set_(bytes.storage(), m.storage_offset() - begin / m.element_size(), m.sizes(), m.strides());
      set_bits(member->copy, m);
    }
  }
}

at::Tensor HostCopies::copy_of(const at::Tensor& t) const {
  for (const Pair& pair : pairs_)
    if (pair.original.is_same(t)) return pair.copy;
  return ours(t) || !t.defined() || t.device().type() != c10::DeviceType::PrivateUse1 ? t : t.cpu();
}

std::optional<at::Tensor> HostCopies::original_of(const at::Tensor& host) const {
  for (const Pair& pair : pairs_)
    if (pair.copy.is_same(host)) return pair.original;
  return std::nullopt;
}

bool HostCopies::widen() {
  bool found = false, single = false;
  for (const Pair& pair : pairs_) {
    const at::ScalarType type = pair.copy.scalar_type();
    found = found || wider(type) != type;
    single = single || type == at::kFloat || type == at::kComplexFloat;
    for (const Pair& other : pairs_)
      if (&other != &pair && other.copy.is_alias_of(pair.copy)) return false;
  }
  if (!found) return false;
  for (Pair& pair : pairs_) {
    const at::Tensor narrow = pair.copy;
    const at::ScalarType type = narrow.scalar_type();
    if (wider(type) == type) continue;
    if (!single) narrow_real_ = type == at::kBFloat16 ? at::kBFloat16 : at::kHalf;
    pair.copy = at::empty_strided(narrow.sizes(), narrow.strides(), narrow.options().dtype(wider(type)));
    pair.copy.copy_(plain(narrow));
    set_bits(pair.copy, narrow);
  }
  return true;
}

at::Tensor HostCopies::narrowed(const at::Tensor& result) const {
  if (!narrow_real_.has_value()) return result;  // a float32 tensor was in the call, so the result is float32
  if (result.scalar_type() == at::kFloat) return result.to(*narrow_real_);
  if (result.scalar_type() == at::kComplexFloat && *narrow_real_ == at::kHalf) return result.to(at::kComplexHalf);
  return result;
}

void HostCopies::write_back() {
  for (const Pair& pair : pairs_) {
    if (!pair.written) continue;
    const at::Tensor &t = pair.original, &host = pair.copy;
    const c10::OptionalDeviceGuard guard(t.device());
    if (t.sizes() != host.sizes() || t.strides() != host.strides()) {
      at::Tensor resized = t;
      set_source_storage_offset(resized, t.storage(), t.storage_offset(), host.sizes(), host.strides());
    }
    copy_from(plain(host), plain(t), /*non_blocking=*/false);
  }
}

std::optional<c10::Device> HostCopies::device() const {
  if (pairs_.empty()) return std::nullopt;
  return pairs_.front().original.device();
}

at::Tensor device_copy(const at::Tensor& host, c10::Device device) {
  if (!host.is_cpu() || host.layout() != at::kStrided) return host.to(device);
  const c10::OptionalDeviceGuard guard(device);
  at::Tensor t = at::empty_strided(host.sizes(), host.strides(), host.options().device(device).pinned_memory(false));
  if (host.numel() > 0) {
    if (compact(host)) {
      upload_bytes(current(t), address_of(t), host.const_data_ptr(),
                   static_cast<uint64_t>(extent(host)) * static_cast<uint64_t>(host.element_size()));
    } else {
      copy_from(plain(host), t, /*non_blocking=*/false);
    }
  }
  set_bits(t, host);
  return t;
}

}  // namespace aule::ops
