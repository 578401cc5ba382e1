// Running estimates of GPU time, so that one submission stays under the time budget. Pure.
//
// Samples are kept per pipeline and per size class (the logarithm of the workgroup count): a class answers in
// proportion, an empty class is guessed from the next smaller one, cautiously, until its own first sample.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace aule::stream {

class CostModel {
 public:
  struct Work {
    uint32_t pipeline;
    uint64_t groups, bytes;
    float predicted_ns;
  };

  float predict(uint32_t pipeline, uint64_t groups, uint64_t bytes) const {
    if (pipeline >= table_.size()) return unknown(groups);
    const Row& row = table_[pipeline];
    int c = size_class(groups);
    if (row.sample[c].ns > 0) {
      const Sample& s = row.sample[c];
      return s.ns * std::max(ratio(groups, s.groups), ratio(bytes, s.bytes));
    }
    for (int k = c - 1; k >= 0; --k) {
      const Sample& s = row.sample[k];
      if (s.ns <= 0) continue;
      // Attention grows with the square of the groups, a copy does not: between the two, and on the safe side.
      float g = ratio(groups, s.groups);
      return std::max(s.ns, 1000.f) * g * std::clamp(ratio(bytes, s.bytes), 1.f, 16.f);
    }
    return unknown(groups);
  }

  // Has this size of it been timed?
  bool knows(uint32_t pipeline, uint64_t groups) const {
    return pipeline < table_.size() && table_[pipeline].sample[size_class(groups)].ns > 0;
  }

  // `total_ns` is what all of `work` took together; each part gets its share by what was predicted for it.
  void learn(const std::vector<Work>& work, double total_ns) {
    double sum = 0;
    for (const Work& w : work) sum += w.predicted_ns;
    if (sum <= 0 || total_ns <= 0) return;
    float scale = static_cast<float>(total_ns / sum);
    for (const Work& w : work) {
      if (w.pipeline >= table_.size()) table_.resize(w.pipeline + 64);
      Sample& s = table_[w.pipeline].sample[size_class(w.groups)];
      float seen = w.predicted_ns * scale;
      // Quick to rise, slow to fall: too low an estimate is the dangerous one.
      float blend = s.ns <= 0 || seen > s.ns ? 1.f : 0.25f;
      s.ns += (seen - s.ns) * blend;
      s.groups = w.groups;
      s.bytes = w.bytes;
    }
  }

 private:
  // Slow enough for a small GPU; it only makes first submissions shorter.
  static float unknown(uint64_t groups) { return 20e3f + 30e3f * static_cast<float>(groups); }
  struct Sample {
    float ns = 0;
    uint64_t groups = 1, bytes = 1;
  };
  struct Row {
    Sample sample[24];
  };
  static int size_class(uint64_t groups) { return std::min(23, static_cast<int>(std::bit_width(groups))); }
  static float ratio(uint64_t now, uint64_t then) {
    return static_cast<float>(static_cast<double>(std::max<uint64_t>(now, 1)) /
                              static_cast<double>(std::max<uint64_t>(then, 1)));
  }
  std::vector<Row> table_;
};

}  // namespace aule::stream
