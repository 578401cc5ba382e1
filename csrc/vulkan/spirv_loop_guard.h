// Detects loops that a driver ended early (loop_probe.h). Such a driver counts the iterations of an invocation. Beyond
// its limit it ends every loop after one iteration, so a canary at the end of main() is enough. The entry point of a
// rewritten module calls the old main() and then runs a few iterations of a loop of its own. If these do not run, the
// kernel's loops were cut, too, and the kernel writes its id to a record. The kernel's own loops do not change.
//
// (Flags in each loop do not work: the driver's compiler assumes that loops end by their condition, and folds a flag.)
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
  std::vector<uint32_t> words;  // empty if the module does not change
  uint32_t loops = 0;
  std::string not_understood;  // why a module with loops does not change
};

// `kernel` is what the guard writes to the record, not 0.
GuardedModule guard_loops(const uint32_t* words, size_t word_count, uint32_t kernel);

// Binding 0 of set 0, as guarded modules read it.
struct LoopGuardBuffer {
  uint64_t record;                       // address of the word that a cut kernel writes its id to
  uint32_t turns = 2, seed = 1;          // of the canary
  uint32_t expected = step(step(seed));  // the state after `turns` steps from `seed`
  uint32_t unused = 0;
  static constexpr uint32_t kFactor = 1664525, kTerm = 1013904223;
  static constexpr uint32_t step(uint32_t state) { return state * kFactor + kTerm; }
};

// The id of a kernel: a hash of its label, so that it is the same in every process.
uint32_t kernel_hash(const std::string& label);

}  // namespace aule::vulkan
