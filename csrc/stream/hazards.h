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

// What the barrier before the next command must cover; `needed` false: none.
struct BarrierNeed {
  bool needed = false;
  uint8_t before = 0, after = 0;  // Stage bits
};

class Hazards {
 public:
  // The barrier due before a command of `stage` with these accesses; also takes the accesses into the sets.
  BarrierNeed step(Stage stage, const Access* accesses, size_t count);
  // As if a command of every stage had read and written everything (a replayed graph).
  void touch_everything() { everything_ = true; }
  // A barrier over all stages was recorded by other means.
  void clear();

 private:
  bool conflicts(const Access* accesses, size_t count) const;

  static constexpr size_t kMaxRanges = 4096;  // past this a barrier is cheaper than the search
  RangeSet reads_, writes_;
  uint8_t stages_ = 0;         // of commands since the last barrier
  uint8_t unseen_ = 0;         // stages that some earlier barrier did not cover on its right side...
  uint8_t unseen_before_ = 0;  // ...and the stages that were on its left
  bool everything_ = false;
};

}  // namespace aule::stream
