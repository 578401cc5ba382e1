// Running estimates of a device's time, so that one submission stays under the time budget. Pure.
//
// Samples are kept per pipeline and size class (the logarithm of the workgroup count). Within a class time is
// proportional to the count. A class without samples is extrapolated from the next smaller one.
//
// Every estimate is a number between kLeastNs and kMostNs. A pipeline that shares a batch with one whose estimate is
// far too high gets a tiny part of the batch's time. Without a limit a few such batches would bring it to 0, the next
// batch, if it is alone there, to infinity, and then to what is no number.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace aule::stream {

class CostModel {
 public:
  static constexpr float kLeastNs = 1, kMostNs = 1e12f;

  struct Work {
    uint32_t pipeline;
    uint64_t groups, bytes;
    float predicted_ns;
  };

  float predict(uint32_t pipeline, uint64_t groups, uint64_t bytes) const {
    if (pipeline >= table_.size()) return unknown(groups);
    const Entry& entry = table_[pipeline];
    int c = size_class(groups);
    if (entry.sample[c].ns > 0) {
      const Sample& s = entry.sample[c];
      return limited(s.ns * std::max(ratio(groups, s.groups), ratio(bytes, s.bytes)));
    }
    for (int k = c - 1; k >= 0; --k) {
      const Sample& s = entry.sample[k];
      if (s.ns <= 0) continue;
      // A copy's time grows with the groups, attention's with their square. Groups times bytes covers both.
      float g = ratio(groups, s.groups);
      return limited(std::max(s.ns, 1000.f) * g * std::clamp(ratio(bytes, s.bytes), 1.f, 16.f));
    }
    return unknown(groups);
  }

  // True if this size class of the pipeline has a sample.
  bool knows(uint32_t pipeline, uint64_t groups) const {
    return pipeline < table_.size() && table_[pipeline].sample[size_class(groups)].ns > 0;
  }

  // `total_ns` is the time of all of `work`. Each part gets a share in proportion to its prediction.
  void learn(const std::vector<Work>& work, double total_ns) {
    double sum = 0;
    for (const Work& w : work) sum += w.predicted_ns;
    if (sum <= 0 || total_ns <= 0) return;
    const double scale = std::min(total_ns, double{kMostNs}) / sum;
    ++calls_;
    for (const Work& w : work) {
      if (w.pipeline >= table_.size()) table_.resize(w.pipeline + 64);
      Sample& s = table_[w.pipeline].sample[size_class(w.groups)];
      const float seen = limited(w.predicted_ns * scale);
      // Estimates rise quickly and fall slowly, once for a batch: one that is too low makes a submission too long. But
      // a kernel's first run may have its compilation in it, or its way to the device, and the second replaces it.
      const bool is_new = s.call != calls_;
      if (is_new) s.seen = std::min(s.seen + 1, 3);
      s.call = calls_;
      if (!is_new && seen <= s.ns) continue;
      const float blend = s.seen <= 2 || seen > s.ns ? 1.f : 0.25f;
      s.ns += (seen - s.ns) * blend;
      s.groups = w.groups;
      s.bytes = w.bytes;
    }
  }

 private:
  // A small GPU's speed. On a faster one only the first submissions are shorter than needed.
  static float unknown(uint64_t groups) { return limited(20e3 + 30e3 * static_cast<double>(groups)); }
  static float limited(double ns) { return static_cast<float>(std::clamp(ns, double{kLeastNs}, double{kMostNs})); }
  struct Sample {
    float ns = 0;
    int seen = 0;       // how often, up to 3
    uint64_t call = 0;  // the last one of `learn` that saw it
    uint64_t groups = 1, bytes = 1;
  };
  struct Entry {
    Sample sample[24];
  };
  static int size_class(uint64_t groups) { return std::min(23, static_cast<int>(std::bit_width(groups))); }
  static float ratio(uint64_t now, uint64_t then) {
    return static_cast<float>(static_cast<double>(std::max<uint64_t>(now, 1)) /
                              static_cast<double>(std::max<uint64_t>(then, 1)));
  }
  std::vector<Entry> table_;
  uint64_t calls_ = 0;  // of `learn`
};

}  // namespace aule::stream
