// Kinds of failure that a program may want to tell apart, and the mark by which any exception carries its kind. Python
// and the C interface have names and codes for them (torch_aule/errors.py, torch_aule/include/aule.h).
#pragma once
#include <cstdint>

namespace aule {

// The first five have exceptions of ours in Python.
enum class FailureKind : uint8_t {
  vulkan_init,
  no_compute_queue,
  out_of_memory,
  shader_compile,
  device_lost,
  index,
  missing_feature
};

// The second base of an exception. What is thrown depends on who is there to catch it, Torch or Python, so code that
// handles a kind catches this, not a type of one of them.
struct Failure {
  FailureKind kind;
};

}  // namespace aule
