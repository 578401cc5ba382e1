#include "ops/tensor/overlap.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/clone.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <numeric>
#include <string_view>

#include "ops/tensor/one_device.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

// Multiples of a stride, from `least` to `most` times it.
struct Multiples {
  int64_t stride, least, most;
};

// Looks for a sum of one multiple of each that lies in an interval.
class SumSearch {
 public:
  explicit SumSearch(c10::SmallVector<Multiples, 12> terms) : terms_(std::move(terms)) {
    std::sort(terms_.begin(), terms_.end(), [](const Multiples& a, const Multiples& b) { return a.stride > b.stride; });
    rest_.resize(terms_.size() + 1);
    for (size_t i = terms_.size(); i-- > 0;) {
      const auto [stride, least, most] = terms_[i];
      rest_[i] = {std::gcd(rest_[i + 1].divisor, stride), rest_[i + 1].low + least * stride,
                  rest_[i + 1].high + most * stride};
    }
  }

  // Looks at the terms from i on. Also true after too many steps.
  bool finds(int64_t low, int64_t high, size_t i = 0) {
    if (++steps_ > kMostSteps) return true;
    low = std::max(low, rest_[i].low);
    high = std::min(high, rest_[i].high);
    if (low > high) return false;
    if (i == terms_.size()) return true;  // 0 is in the interval
    const int64_t divisor = rest_[i].divisor;
    if (floor_div(high, divisor) * divisor < low) return false;
    const auto [stride, least, most] = terms_[i];
    const int64_t first = std::max(least, -floor_div(rest_[i + 1].high - low, stride));
    const int64_t last = std::min(most, floor_div(high - rest_[i + 1].low, stride));
    for (int64_t k = first; k <= last; ++k)
      if (finds(low - k * stride, high - k * stride, i + 1)) return true;
    return false;
  }

 private:
  static constexpr int kMostSteps = 200;
  static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

  struct Rest {
    int64_t divisor = 0;  // of all strides from a term on
    int64_t low = 0, high = 0;
  };
  c10::SmallVector<Multiples, 12> terms_;
  c10::SmallVector<Rest, 13> rest_;
  int steps_ = 0;
};

// Repeated elements get one value.
bool writes_one_value(std::string_view op) {
  return op == "aten::fill_.Scalar" || op == "aten::fill_.Tensor" || op == "aten::zero_";
}

// Operators that PyTorch's CPU runs although part of an operand is what they write.
bool takes_parts(std::string_view op) {
  static constexpr std::string_view kPrefixes[] = {
      "aten::linalg_",     "aten::_linalg_",      "aten::cholesky",  "aten::triangular_solve",
      "aten::geqrf",       "aten::ormqr",         "aten::lu_unpack", "aten::mm.",
      "aten::addmm",       "aten::_addmm",        "aten::bmm",       "aten::baddbmm",
      "aten::addbmm",      "aten::addmv",         "aten::_int_mm",   "aten::_scaled_mm",
      "aten::_softmax.",   "aten::_log_softmax.", "aten::_cummax",   "aten::_cummin",
      "aten::avg_pool2d.", "aten::avg_pool3d.",   "aten::fill_.",
  };
  return std::any_of(std::begin(kPrefixes), std::end(kPrefixes), [&](std::string_view p) { return op.starts_with(p); });
}

bool has_elements(const at::Tensor& t) { return t.defined() && t.layout() == at::kStrided && t.numel() > 0; }

// Most calls: what they write is whole, and its storage is no other operand's.
bool are_plainly_apart(std::initializer_list<Operand> operands) {
  for (const Operand& w : operands) {
    if (!w.written || !w.tensor->defined()) continue;
    const c10::TensorImpl* written = w.tensor->unsafeGetTensorImpl();
    if (!written->has_storage() || !written->is_non_overlapping_and_dense()) return false;
    for (const Operand& r : operands) {
      if (r.written || r.tensor == nullptr || r.tensor->unsafeGetTensorImpl() == written) continue;
      const c10::TensorImpl* read = r.tensor->unsafeGetTensorImpl();
      if (read->has_storage() &&
          written->unsafe_storage().unsafeGetStorageImpl() == read->unsafe_storage().unsafeGetStorageImpl())
        return false;
    }
  }
  return true;
}

// Both have elements, and `written` is on aule.
bool crosses(const at::Tensor& written, const at::Tensor& read) {
  return read.device() == written.device() && may_meet(written, read) && !same_places(written, read);
}

}  // namespace

ByteRange range_of(const at::Tensor& t) {
  const uint64_t begin = address_of(t);
  if (t.numel() == 0) return {begin, begin};
  if (t.is_non_overlapping_and_dense()) return {begin, begin + static_cast<uint64_t>(t.numel()) * t.element_size()};
  int64_t last = 0;
  for (int64_t d = 0; d < t.dim(); ++d) last += (t.size(d) - 1) * t.stride(d);
  return {begin, begin + static_cast<uint64_t>(last + 1) * t.element_size()};
}

bool apart(std::vector<ByteRange> written, const std::vector<ByteRange>& read) {
  std::erase_if(written, [](const ByteRange& r) { return r.begin == r.end; });
  const auto before = [](const ByteRange& a, const ByteRange& b) { return a.begin < b.begin; };
  // As a program allocates the parameters of a model.
  if (!std::is_sorted(written.begin(), written.end(), before)) std::sort(written.begin(), written.end(), before);
  for (size_t i = 1; i < written.size(); ++i)
    if (written[i].begin < written[i - 1].end) return false;
  return std::none_of(read.begin(), read.end(), [&](const ByteRange& r) {
    if (r.begin == r.end) return false;
    const auto after = std::upper_bound(written.begin(), written.end(), r.begin,
                                        [](uint64_t at, const ByteRange& x) { return at < x.end; });
    return after != written.end() && after->begin < r.end;
  });
}

bool may_meet(const at::Tensor& a, const at::Tensor& b) {
  const ByteRange x = range_of(a), y = range_of(b);
  if (x.begin == x.end || y.begin == y.end || x.end <= y.begin || y.end <= x.begin) return false;
  c10::SmallVector<Multiples, 12> terms;
  const auto add = [&](const at::Tensor& t, int64_t sign) {
    const auto bytes = static_cast<int64_t>(t.element_size());
    for (int64_t d = 0; d < t.dim(); ++d) {
      const int64_t stride = t.stride(d) * bytes, last = sign * (t.size(d) - 1);
      if (stride == 0 || last == 0) continue;
      auto* same = std::find_if(terms.begin(), terms.end(), [&](const Multiples& m) { return m.stride == stride; });
      if (same == terms.end()) same = &terms.emplace_back(Multiples{stride, 0, 0});
      (sign < 0 ? same->least : same->most) += last;
    }
  };
  add(a, -1);
  add(b, 1);
  // From an element of `a` to one of `b`, where they share a byte.
  const auto distance = static_cast<int64_t>(y.begin - x.begin);
  const auto a_bytes = static_cast<int64_t>(a.element_size()), b_bytes = static_cast<int64_t>(b.element_size());
  return SumSearch(std::move(terms)).finds(1 - b_bytes - distance, a_bytes - 1 - distance);
}

bool same_places(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes() || a.element_size() != b.element_size() || address_of(a) != address_of(b)) return false;
  for (int64_t d = 0; d < a.dim(); ++d)
    if (a.size(d) > 1 && a.stride(d) != b.stride(d)) return false;
  return true;
}

bool reads_what_it_writes(const char* op, std::initializer_list<Operand> operands) {
  if (are_plainly_apart(operands)) return false;
  bool meets = false;
  for (const Operand& w : operands) {
    if (!w.written || !has_elements(*w.tensor) || w.tensor->device().type() != c10::DeviceType::PrivateUse1) continue;
    const at::Tensor& written = *w.tensor;
    if (!written.is_non_overlapping_and_dense() && !writes_one_value(op)) at::assert_no_internal_overlap(written);
    for (const Operand& r : operands) {
      if (r.written || r.tensor == nullptr || !has_elements(*r.tensor)) continue;
      switch (at::get_overlap_status(written, *r.tensor)) {
        case at::MemOverlapStatus::Partial:
          if (!takes_parts(op)) at::assert_no_partial_overlap(written, *r.tensor);
          [[fallthrough]];
        case at::MemOverlapStatus::TooHard: meets = meets || crosses(written, *r.tensor); break;
        default: break;
      }
    }
  }
  return meets;
}

void run_with_copies(const char* op, torch::jit::Stack* stack) {
  const c10::OperatorHandle handle = find_operator(op);
  const auto& arguments = handle.schema().arguments();
  const size_t first = stack->size() - arguments.size();
  const auto is_written = [&](size_t i) {
    return arguments[i].alias_info() != nullptr && arguments[i].alias_info()->isWrite();
  };
  for (size_t i = 0; i < arguments.size(); ++i) {
    c10::IValue& value = (*stack)[first + i];
    if (is_written(i) || !value.isTensor() || !has_elements(value.toTensor())) continue;
    for (size_t k = 0; k < arguments.size(); ++k) {
      const c10::IValue& other = (*stack)[first + k];
      if (!is_written(k) || !other.isTensor() || !has_elements(other.toTensor())) continue;
      if (!crosses(other.toTensor(), value.toTensor())) continue;
      value = value.toTensor().clone();
      break;
    }
  }
  handle.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), stack);
}

}  // namespace aule::ops
