// Every kernel of this process: the built-in ones, and those that are compiled at run time. Nothing is ever removed, so
// a KernelId and what it names stay valid. Any thread may ask and add.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/kernel_source.h"
#include "kernels/shared_memory.h"

namespace aule::kernels {

// Throws for an id that nobody gave out.
const KernelSource& source(KernelId id);
std::optional<KernelId> find_kernel(const std::string& name);
uint32_t kernel_count();  // their ids are all below

struct NewKernel {
  std::string name;
  std::vector<uint32_t> spirv;
  uint32_t features;
  uint16_t params_bytes;
  bool params_ring;
};
// The same name and SPIR-V as before give the same id.
KernelId add_kernel(NewKernel kernel);

// The bits of capabilities that a kernel may ask for (`#pragma aule feature <name>`). Throws std::invalid_argument.
uint32_t feature_bits_named(const std::vector<std::string>& names);

uint64_t content_hash(KernelId id);  // of the SPIR-V
bool same_content(KernelId a, KernelId b);
const SharedMemory& shared_memory(KernelId id);

}  // namespace aule::kernels
