#include "kernels/builtin.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/library.h"
#include "vulkan/check.h"

namespace aule::kernels {
namespace {

// Filled once. A call that throws leaves nothing, and the next one tries again.
const std::vector<KernelSource>& sources() {
  static const auto* const all = [] {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < kBuiltinKernelCount; ++i)
      bytes = std::max(bytes, uint64_t{kBuiltinKernels[i].spirv_offset} + kBuiltinKernels[i].spirv_bytes);
    const unsigned char* spirv = map_kernels_file(library_folder() + "kernels.bin", kBuiltinKernelsHash, bytes);
    auto* found = new std::vector<KernelSource>;
    found->reserve(kBuiltinKernelCount);
    for (uint32_t i = 0; i < kBuiltinKernelCount; ++i) {
      const BuiltinKernel& k = kBuiltinKernels[i];
      found->push_back({k.name, spirv + k.spirv_offset, k.spirv_bytes, k.features, k.params_bytes, k.params_ring});
    }
    return found;
  }();
  return *all;
}

}  // namespace

const unsigned char* map_kernels_file(const std::string& path, uint64_t wanted_hash, uint64_t wanted_bytes) {
  const MappedFile found = map_file(path);
  if (found.data == nullptr)
    throw vulkan::Error("the kernels cannot be read: " + path +
                        " is missing or not readable. Install torch_aule again");
  uint64_t hash = 0;
  if (found.bytes >= kKernelsFileHeaderBytes)
    for (uint32_t i = 0; i < 8; ++i) hash |= uint64_t{found.data[8 + i]} << (8 * i);
  if (found.bytes < kKernelsFileHeaderBytes + wanted_bytes || hash != wanted_hash ||
      std::memcmp(found.data, kKernelsFileMagic, 8) != 0)
    throw vulkan::Error("the kernels in " + path +
                        " are those of another build. Install torch_aule again, or build it");
  return found.data + kKernelsFileHeaderBytes;
}

const KernelSource& builtin(uint32_t number) { return sources()[number]; }

}  // namespace aule::kernels
