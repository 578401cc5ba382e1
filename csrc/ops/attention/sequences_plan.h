// Launches of flash_attn_sequences.comp: a pure function of sizes and what is known of the device.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "core/caps.h"

namespace aule::ops {

struct SequencesProblem {
  // A packed result, whose rows after the last sequence are filled with zeros.
  struct Tail {
    uint64_t rows = 0, heads = 0, dim = 0;
  };
  uint64_t batch = 0;
  std::array<Tail, 3> tails;
};

struct SequencesPlan {
  uint32_t groups = 0, local = 0;
};
// Nothing if all of a tail's rows may be padding, and no loop may be so long.
std::optional<SequencesPlan> sequences_plan(const Caps& caps, const SequencesProblem& problem);
std::string text_of(const SequencesPlan& plan);

}  // namespace aule::ops
