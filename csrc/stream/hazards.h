// Read and write sets since the last barrier. Pure: knows neither Vulkan nor streams.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/access.h"

namespace aule::stream {

// Disjoint, sorted, half-open ranges; neighbours are merged.
class RangeSet {
 public:
  bool overlaps(uint64_t begin, uint64_t end) const;
  void add(uint64_t begin, uint64_t end);
  void clear() { ranges_.clear(); }
  size_t size() const { return ranges_.size(); }

 private:
  struct Range {
    uint64_t begin, end;
  };
  std::vector<Range> ranges_;
};

enum Stage : uint8_t { kCompute = 1, kTransfer = 2 };

// The barrier that the next command needs. None if `needed` is false.
struct BarrierNeed {
  bool needed = false;
  uint8_t before = 0, after = 0;  // Stage bits
};

class Hazards {
 public:
  // Returns the barrier that a command of `stage` with these accesses needs, and adds the accesses to the sets.
  BarrierNeed step(Stage stage, const Access* accesses, size_t count);
  // As if a command of every stage had read and written everything (a replayed graph).
  void touch_everything() { everything_ = true; }
  // A barrier over all stages was recorded by other means.
  void clear();

 private:
  bool conflicts(const Access* accesses, size_t count) const;

  static constexpr size_t kMaxRanges = 4096;  // past this a barrier is cheaper than the search
  RangeSet reads_, writes_;
  uint8_t stages_ = 0;  // of commands since the last barrier
  // Stages that have not yet waited (uncovered_dst_) for work of these stages (uncovered_src_).
  uint8_t uncovered_dst_ = 0, uncovered_src_ = 0;
  bool everything_ = false;
};

}  // namespace aule::stream
