#include "kernels/registry.h"

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <unordered_map>

#include "core/caps.h"
#include "kernels/builtin.h"
#include "kernels/pipelines.h"
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
  uint64_t content = 0;
  uint32_t holders = 0;
};

struct Registry {
  std::mutex mutex;
  std::map<uint32_t, std::shared_ptr<Added>> added;  // by id
  std::unordered_multimap<uint64_t, uint32_t> by_content;
  uint32_t next = kBuiltinKernelCount;
};

Registry& registry() {
  static auto* const r = new Registry;  // threads may outlive static objects
  return *r;
}

std::shared_ptr<const Added> find_added(KernelId id) {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  const auto found = r.added.find(static_cast<uint32_t>(id));
  return found == r.added.end() ? nullptr : found->second;
}

const Added& added(KernelId id) {
  const auto found = find_added(id);
  if (found == nullptr) throw vulkan::Error("kernel " + std::to_string(static_cast<uint32_t>(id)) + " does not exist");
  return *found;  // whoever asks holds it
}

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
  return is_builtin(id) ? builtin(static_cast<uint32_t>(id)) : added(id).source;
}

bool is_builtin(KernelId id) { return static_cast<uint32_t>(id) < kBuiltinKernelCount; }

std::shared_ptr<const KernelSource> find_source(KernelId id) {
  if (is_builtin(id)) return {std::shared_ptr<void>(), &builtin(static_cast<uint32_t>(id))};
  const auto found = find_added(id);
  return found == nullptr ? nullptr : std::shared_ptr<const KernelSource>(found, &found->source);
}

std::vector<KernelId> kernel_ids() {
  std::vector<KernelId> ids;
  for (uint32_t i = 0; i < kBuiltinKernelCount; ++i) ids.push_back(KernelId{i});
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  for (const auto& [id, kernel] : r.added) ids.push_back(KernelId{id});
  return ids;
}

std::optional<KernelId> find_kernel(const std::string& name) {
  for (const KernelId id : kernel_ids())
    if (const auto found = find_source(id); found != nullptr && name == found->name) return id;
  return std::nullopt;
}

uint32_t kernel_count() {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  return kBuiltinKernelCount + static_cast<uint32_t>(r.added.size());
}

KernelId add_kernel(NewKernel kernel) {
  auto candidate = std::make_shared<Added>(std::move(kernel));
  const KernelSource& own = candidate->source;
  const uint64_t hash = hash_of(own.spirv, own.spirv_bytes);
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  const auto [first, last] = r.by_content.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    Added& other = *r.added.at(it->second);
    if (other.name == candidate->name && other.source.features == own.features && equal(other.source, own)) {
      ++other.holders;
      return KernelId{it->second};
    }
  }
  candidate->content = hash;
  candidate->holders = 1;
  r.added.emplace(r.next, std::move(candidate));
  r.by_content.emplace(hash, r.next);
  return KernelId{r.next++};
}

HeldKernel::~HeldKernel() {
  const auto number = static_cast<uint32_t>(id_);
  Registry& r = registry();
  std::shared_ptr<Added> gone;  // freed without the lock
  {
    std::lock_guard lock(r.mutex);
    const auto found = r.added.find(number);
    if (found == r.added.end() || --found->second->holders > 0) return;
    gone = found->second;
    r.added.erase(found);
    const auto [first, last] = r.by_content.equal_range(gone->content);
    for (auto it = first; it != last; ++it) {
      if (it->second != number) continue;
      r.by_content.erase(it);
      break;
    }
  }
  drop_pipelines(id_);
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

std::string names_of_features(uint32_t bits) {
  std::string names;
#define AULE_CAPABILITY(capability, lack) \
  if ((bits & feature::capability) != 0) names += (names.empty() ? "" : ", ") + std::string(#capability);
#include "core/capabilities.def"
  return names;
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
