#include "kernels/registry.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <unordered_map>

#include "core/caps.h"
#include "vulkan/check.h"

namespace aule::kernels {
namespace {

struct Added {
  explicit Added(NewKernel k)
      : name(std::move(k.name)),
        spirv(std::move(k.spirv)),
        shared(std::make_unique<SharedMemory>(spirv)),
        source{name.c_str(),
               reinterpret_cast<const unsigned char*>(spirv.data()),
               static_cast<uint32_t>(spirv.size() * 4),
               k.features,
               k.params_bytes,
               k.params_ring} {}
  const std::string name;
  const std::vector<uint32_t> spirv;
  const std::unique_ptr<const SharedMemory> shared;
  const KernelSource source;
};

struct Registry {
  std::mutex mutex;
  std::vector<std::unique_ptr<const Added>> added;
  std::unordered_multimap<uint64_t, uint32_t> by_content;
};

Registry& registry() {
  static auto* const r = new Registry;  // threads may outlive static objects
  return *r;
}

const Added& added(KernelId id) {
  Registry& r = registry();
  const uint32_t at = static_cast<uint32_t>(id) - kBuiltinKernelCount;
  std::lock_guard lock(r.mutex);
  if (at >= r.added.size())
    throw vulkan::Error("kernel " + std::to_string(static_cast<uint32_t>(id)) + " does not exist");
  return *r.added[at];
}

bool is_builtin(KernelId id) { return static_cast<uint32_t>(id) < kBuiltinKernelCount; }

uint64_t hash_of(const unsigned char* bytes, size_t count) {  // whole words, as SPIR-V is
  uint64_t h = 0x9e3779b97f4a7c15ull ^ count;
  for (size_t i = 0; i + 4 <= count; i += 4) {
    uint32_t word;
    std::memcpy(&word, bytes + i, sizeof word);
    h = (h ^ word) * 0xff51afd7ed558ccdull;
    h ^= h >> 32;
  }
  return h;
}

bool equal(const KernelSource& a, const KernelSource& b) {
  return a.spirv_bytes == b.spirv_bytes && a.params_ring == b.params_ring && a.params_bytes == b.params_bytes &&
         std::memcmp(a.spirv, b.spirv, a.spirv_bytes) == 0;
}

}  // namespace

const KernelSource& source(KernelId id) {
  return is_builtin(id) ? kBuiltinKernels[static_cast<uint32_t>(id)] : added(id).source;
}

std::optional<KernelId> find_kernel(const std::string& name) {
  for (uint32_t i = 0; i < kernel_count(); ++i)
    if (name == source(KernelId{i}).name) return KernelId{i};
  return std::nullopt;
}

uint32_t kernel_count() {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  return kBuiltinKernelCount + static_cast<uint32_t>(r.added.size());
}

KernelId add_kernel(NewKernel kernel) {
  auto candidate = std::make_unique<const Added>(std::move(kernel));
  const KernelSource& own = candidate->source;
  const uint64_t hash = hash_of(own.spirv, own.spirv_bytes);
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  const auto [first, last] = r.by_content.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    const Added& other = *r.added[it->second];
    if (other.name == candidate->name && other.source.features == own.features && equal(other.source, own))
      return KernelId{kBuiltinKernelCount + it->second};
  }
  const auto at = static_cast<uint32_t>(r.added.size());
  r.added.push_back(std::move(candidate));
  r.by_content.emplace(hash, at);
  return KernelId{kBuiltinKernelCount + at};
}

uint32_t feature_bits_named(const std::vector<std::string>& names) {
  uint32_t bits = 0;
  for (const std::string& name : names) {
    uint32_t bit = 0;
#define AULE_CAPABILITY(capability, lack) \
  if (name == #capability) bit = feature::capability;
#include "core/capabilities.def"
    if (bit == 0) throw std::invalid_argument("no kernel can ask for the feature " + name);
    bits |= bit;
  }
  return bits;
}

uint64_t content_hash(KernelId id) {
  const KernelSource& s = source(id);
  return hash_of(s.spirv, s.spirv_bytes);
}

bool same_content(KernelId a, KernelId b) { return equal(source(a), source(b)); }

const SharedMemory& shared_memory(KernelId id) {
  if (!is_builtin(id)) return *added(id).shared;
  static auto* const read = new std::atomic<const SharedMemory*>[kBuiltinKernelCount]();
  auto& place = read[static_cast<uint32_t>(id)];
  const SharedMemory* memory = place.load(std::memory_order_acquire);
  if (memory == nullptr) {
    const KernelSource& s = source(id);
    memory = new SharedMemory({reinterpret_cast<const uint32_t*>(s.spirv), s.spirv_bytes / 4});
    const SharedMemory* other = nullptr;
    if (!place.compare_exchange_strong(other, memory, std::memory_order_acq_rel)) {
      delete memory;
      memory = other;
    }
  }
  return *memory;
}

}  // namespace aule::kernels
