// The built-in kernels. Extensions for several versions of Torch lie in one folder: their SPIR-V, two thirds of what an
// extension would be, lies there once, in the file kernels.bin, which is mapped into memory.
#pragma once
#include <string>

#include "core/kernel_source.h"

namespace aule::kernels {

// Maps the file when it is first called; throws vulkan::Error where that is missing, or belongs to another build.
const KernelSource& builtin(uint32_t number);

// The file begins with this text of 8 bytes and kBuiltinKernelsHash, least byte first. SPIR-V follows.
inline constexpr char kKernelsFileMagic[] = "AULEKRN1";
inline constexpr uint64_t kKernelsFileHeaderBytes = 16;

// Maps `path` for the life of the process and returns where its SPIR-V begins; throws as `builtin` does.
const unsigned char* map_kernels_file(const std::string& path, uint64_t wanted_hash, uint64_t wanted_bytes);

}  // namespace aule::kernels
