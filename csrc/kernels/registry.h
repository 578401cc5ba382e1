// Every kernel of this process: the built-in ones, and those that are compiled at run time, which live as long as
// someone holds them. An id names the same kernel for ever and is not given out again. Any thread may ask and add.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/kernel_source.h"
#include "kernels/shared_memory.h"

namespace aule::kernels {

// Throws for an id that nobody gave out, or whose kernel is gone. Of a kernel that somebody holds.
const KernelSource& source(KernelId id);
std::shared_ptr<const KernelSource> find_source(KernelId id);  // for others: null if it is gone
std::optional<KernelId> find_kernel(const std::string& name);
std::vector<KernelId> kernel_ids();
uint32_t kernel_count();
bool is_builtin(KernelId id);

struct NewKernel {
  std::string name;
  std::vector<uint32_t> spirv;
  uint32_t features;
  uint16_t params_bytes;
  bool params_ring;
};
// The same name and SPIR-V as those of a kernel that is there give the same id. Held for ever.
KernelId add_kernel(NewKernel kernel);

// Holds a kernel. With the last holder its SPIR-V and its pipelines go, these when no recorded work names them.
class HeldKernel {
 public:
  explicit HeldKernel(NewKernel kernel) : id_(add_kernel(std::move(kernel))) {}
  ~HeldKernel();
  HeldKernel(const HeldKernel&) = delete;
  HeldKernel& operator=(const HeldKernel&) = delete;
  KernelId id() const { return id_; }

 private:
  KernelId id_;
};

// The bits of capabilities that a kernel may ask for (`#pragma aule feature <name>`). Throws std::invalid_argument.
uint32_t feature_bits_named(const std::vector<std::string>& names);
std::string names_of_features(uint32_t bits);  // "float16, float64"

uint64_t content_hash(KernelId id);  // of the SPIR-V
bool same_content(KernelId a, KernelId b);
const SharedMemory& shared_memory(KernelId id);

}  // namespace aule::kernels
