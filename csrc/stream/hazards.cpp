#include "stream/hazards.h"

#include <algorithm>

namespace aule::stream {

bool RangeSet::overlaps(uint64_t begin, uint64_t end) const {
  // The first range that ends after `begin` overlaps if it starts before `end`.
  auto at =
      std::upper_bound(ranges_.begin(), ranges_.end(), begin, [](uint64_t v, const Range& r) { return v < r.end; });
  return at != ranges_.end() && at->begin < end;
}

void RangeSet::add(uint64_t begin, uint64_t end) {
  if (ranges_.empty() || ranges_.back().end < begin) {
    ranges_.push_back({begin, end});
    return;
  }
  // [first, last) touch the new range.
  auto first =
      std::lower_bound(ranges_.begin(), ranges_.end(), begin, [](const Range& r, uint64_t v) { return r.end < v; });
  auto last = std::upper_bound(first, ranges_.end(), end, [](uint64_t v, const Range& r) { return v < r.begin; });
  if (first == last) {
    ranges_.insert(first, {begin, end});
    return;
  }
  first->begin = std::min(first->begin, begin);
  first->end = std::max(std::prev(last)->end, end);
  ranges_.erase(std::next(first), last);
}

bool Hazards::conflicts(const Access* accesses, size_t count) const {
  if (everything_ && count > 0) return true;
  for (size_t i = 0; i < count; ++i) {
    const Access& a = accesses[i];
    if (writes_.overlaps(a.begin, a.end)) return true;
    if (a.write && reads_.overlaps(a.begin, a.end)) return true;
  }
  return reads_.size() + writes_.size() > kMaxRanges;
}

BarrierNeed Hazards::step(Stage stage, const Access* accesses, size_t count) {
  BarrierNeed need;
  // A compute-only barrier clears the sets, although it orders no later copy. The next copy's barrier covers that.
  bool uncovered = (uncovered_dst_ & stage) != 0 && count > 0;
  if (uncovered || conflicts(accesses, count)) {
    need.needed = true;
    need.before =
        static_cast<uint8_t>(stages_ | (everything_ ? kCompute | kTransfer : 0) | (uncovered ? uncovered_src_ : 0));
    // With a transfer on one side (rare), the barrier covers transfers and compute on both. Else it is compute only.
    need.after = stage == kCompute && need.before == kCompute ? static_cast<uint8_t>(kCompute)
                                                              : static_cast<uint8_t>(kCompute | kTransfer);
    if (need.after & kTransfer) {
      need.before = static_cast<uint8_t>(need.before | uncovered_src_);
      uncovered_dst_ = 0;
      uncovered_src_ = 0;
    } else {
      uncovered_dst_ = kTransfer;
      uncovered_src_ = static_cast<uint8_t>(uncovered_src_ | need.before);
    }
    reads_.clear();
    writes_.clear();
    stages_ = 0;
    everything_ = false;
  }
  stages_ = static_cast<uint8_t>(stages_ | stage);
  for (size_t i = 0; i < count; ++i) {
    (accesses[i].write ? writes_ : reads_).add(accesses[i].begin, accesses[i].end);
  }
  return need;
}

void Hazards::clear() {
  reads_.clear();
  writes_.clear();
  stages_ = uncovered_dst_ = uncovered_src_ = 0;
  everything_ = false;
}

}  // namespace aule::stream
