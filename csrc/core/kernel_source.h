// The parts of a kernel before it is compiled. The built-in ones are generated (build/gen/kernels.gen.cpp): one for
// each variant of every shader. kernels/registry.h adds those that are compiled at run time.
#pragma once
#include <cstdint>

namespace aule {

// Names a kernel for the life of the process. Built-in ones come first, in the order of the generated table.
enum class KernelId : uint32_t {};

struct KernelSource {
  const char* name;            // "softmax<C=float>": labels, errors, the profiler
  const unsigned char* spirv;  // 4-byte aligned
  uint32_t spirv_bytes;
  uint32_t features;      // Feature bits that this kernel needs
  uint16_t params_bytes;  // sizeof the params struct
  bool params_ring;       // the block travels through the stream's parameter ring
};

// A row of the generated table. Its SPIR-V lies in the file kernels.bin beside this library (kernels/builtin.h).
struct BuiltinKernel {
  const char* name;
  uint32_t spirv_offset, spirv_bytes;
  uint32_t features;
  uint16_t params_bytes;
  bool params_ring;
};

extern const BuiltinKernel kBuiltinKernels[];
extern const uint32_t kBuiltinKernelCount;
extern const uint64_t kBuiltinKernelsHash;  // of their names, features and SPIR-V: what kernels.bin must state

}  // namespace aule
