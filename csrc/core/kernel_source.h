// The generated kernel table (build/gen/kernels.gen.cpp): one row per SPIR-V variant of every shader.
#pragma once
#include <cstdint>

namespace aule {

struct KernelRow {
  const char* name;            // "softmax_fwd<C=float>": labels, errors, the profiler
  const unsigned char* spirv;  // 4-byte aligned
  uint32_t spirv_bytes;
  uint32_t features;      // Feature bits that this variant needs
  uint16_t params_bytes;  // sizeof the params struct
  bool params_ring;       // the block travels through the stream's parameter ring
};

extern const KernelRow kKernelRows[];
extern const uint16_t kKernelRowCount;
extern const uint64_t kKernelTableHash;  // of all rows and their SPIR-V: the key of the pipeline cache

}  // namespace aule
