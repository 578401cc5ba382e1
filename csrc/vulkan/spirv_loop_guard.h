// Notices loops that a driver ended early (loop_probe.h). Such a driver counts what one invocation loops, and when the
// count is used up, it ends every loop after one turn. So a canary at the end of main() is enough: a rewritten module's
// entry point calls the old main() and then takes a few turns of a loop of its own. If they were not taken, the
// kernel's loops were cut, too, and the kernel writes its id to a record. Nothing in the kernel's own loops changes,
// and nothing about them need be understood.
//
// (Flags within each loop do not work: the driver's compiler believes in its loops and finds each flag cleared.)
//
// The record's address, and the numbers that a compiler must not know, come from a uniform buffer in descriptor set 0:
// push constants may be full, and an address in the code would be another one in each process, so that no pipeline
// cache would ever hit.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace aule::vulkan {

struct GuardedModule {
  std::vector<uint32_t> words;  // empty: the module stays as it is
  uint32_t loops = 0;
  std::string not_understood;  // why a module with loops stays as it is
};

// `kernel` is what the guard writes to the record, not 0.
GuardedModule guard_loops(const uint32_t* words, size_t word_count, uint32_t kernel);

// Binding 0 of set 0, as guarded modules read it.
struct LoopGuardBuffer {
  uint64_t record;                      // address of the word that a cut kernel writes its id to
  uint32_t turns = 2, seed = 1;         // of the canary
  uint32_t expected = step(step(seed));  // what `turns` turns make of `seed`
  uint32_t unused = 0;
  static constexpr uint32_t kFactor = 1664525, kTerm = 1013904223;
  static constexpr uint32_t step(uint32_t state) { return state * kFactor + kTerm; }
};

// The id of a kernel: a hash of its label, so that it is the same in every process.
uint32_t kernel_hash(const std::string& label);

}  // namespace aule::vulkan
