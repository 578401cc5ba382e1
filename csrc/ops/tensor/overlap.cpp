#include "ops/tensor/overlap.h"

#include <c10/util/SmallVector.h>

#include <algorithm>
#include <numeric>

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

  // Of the terms from i on. Also true after too many steps.
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

}  // namespace

ByteRange range_of(const at::Tensor& t) {
  const uint64_t begin = address_of(t);
  if (t.numel() == 0) return {begin, begin};
  int64_t last = 0;
  for (int64_t d = 0; d < t.dim(); ++d) last += (t.size(d) - 1) * t.stride(d);
  return {begin, begin + static_cast<uint64_t>(last + 1) * t.element_size()};
}

bool apart(std::vector<ByteRange> written, const std::vector<ByteRange>& read) {
  std::erase_if(written, [](const ByteRange& r) { return r.begin == r.end; });
  std::sort(written.begin(), written.end(), [](const ByteRange& a, const ByteRange& b) { return a.begin < b.begin; });
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

}  // namespace aule::ops
