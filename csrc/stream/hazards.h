// Is a barrier due before the next piece of work? Pure bookkeeping of what has been read and written since the last one.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/launch.h"

namespace aule::stream {

class Hazards {
 public:
  // A read of something written, or a write of something read or written.
  bool conflicts(const Access* accesses, size_t count) const {
    for (size_t i = 0; i < count; ++i) {
      const Access& a = accesses[i];
      if (overlaps(writes_, a) || (a.write && overlaps(reads_, a))) return true;
    }
    // Past this many ranges a barrier is cheaper than the search.
    return reads_.size() + writes_.size() > kMax;
  }
  void add(const Access* accesses, size_t count) {
    for (size_t i = 0; i < count; ++i) insert(accesses[i].write ? writes_ : reads_, accesses[i]);
  }
  void clear() {
    reads_.clear();
    writes_.clear();
  }
  bool empty() const { return reads_.empty() && writes_.empty(); }

 private:
  static constexpr size_t kMax = 192;
  struct Range {
    uint64_t begin, end;
  };
  static bool overlaps(const std::vector<Range>& ranges, const Access& a) {
    for (const Range& r : ranges)
      if (a.begin < r.end && r.begin < a.end) return true;
    return false;
  }
  static void insert(std::vector<Range>& ranges, const Access& a) {
    for (Range& r : ranges) {
      if (a.begin >= r.begin && a.end <= r.end) return;
      if (a.begin == r.end) {
        r.end = a.end;
        return;
      }
    }
    ranges.push_back({a.begin, a.end});
  }
  std::vector<Range> reads_, writes_;
};

}  // namespace aule::stream
