#include "kernels/pipelines.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "core/caps.h"
#include "core/environment.h"
#include "core/per_device.h"
#include "kernels/registry.h"
#include "kernels/spec.h"
#include "vulkan/check.h"
#include "vulkan/device.h"
#include "vulkan/device_impl.h"
#include "vulkan/pipeline.h"

namespace aule::kernels {
namespace {

// A kernel and its constants, with their hash.
struct Key {
  uint64_t hash = 0;
  KernelId id{};
  uint32_t words = 0;
  std::array<uint32_t, kMaxSpecWords> spec{};

  Key() = default;
  Key(uint64_t its_hash, KernelId its_id, SpecWords constants)
      : hash(its_hash), id(its_id), words(static_cast<uint32_t>(constants.size())) {
    if (constants.size() > kMaxSpecWords) throw vulkan::Error("a kernel has too many specialization constants");
    std::copy(constants.begin(), constants.end(), spec.begin());
  }
  bool is(uint64_t other_hash, KernelId other_id, SpecWords constants) const {
    return hash == other_hash && id == other_id && words == constants.size() &&
           std::memcmp(spec.data(), constants.data(), constants.size_bytes()) == 0;
  }
};

using PipelinePtr = std::shared_ptr<const vulkan::Pipeline>;
struct Entry {
  Key key;
  uint64_t content;  // hash of SPIR-V and constants
  PipelinePtr pipeline;
};

// The table of built-in kernels, whose pipelines stay.
// Open addressing. Readers take the published table and never lock; writers copy it when it fills up and leak the old
// one (a reader may still be in it; all old ones together are smaller than the new one).
struct Table {
  explicit Table(size_t size) : mask(size - 1), slots(new std::atomic<const Entry*>[size]()) {}
  size_t mask;
  std::unique_ptr<std::atomic<const Entry*>[]> slots;
};

struct DeviceTable {
  std::mutex mutex;
  std::atomic<const Table*> table{new Table(256)};
  size_t used = 0;
  std::unordered_multimap<uint64_t, const Entry*> by_content;  // hash of SPIR-V and constants
  // Pipelines of kernels compiled at run time, under the mutex: most launches find theirs in a FixedKernel.
  std::unordered_map<uint32_t, std::vector<std::unique_ptr<const Entry>>> added;
};

DeviceTable& table_of(int device) {
  static const PerDevice<DeviceTable> tables;
  return tables[device];
}

const Entry* find_added(const DeviceTable& tables, uint64_t hash, KernelId id, SpecWords spec) {
  const auto found = tables.added.find(static_cast<uint32_t>(id));
  if (found == tables.added.end()) return nullptr;
  for (const auto& entry : found->second)
    if (entry->key.is(hash, id, spec)) return entry.get();
  return nullptr;
}

uint64_t mixed(uint64_t h, uint64_t more) {
  h = (h ^ more) * 0xff51afd7ed558ccdull;
  return h ^ h >> 32;
}

// `what`: a KernelId, or the hash of its SPIR-V.
uint64_t hash_of(uint64_t what, SpecWords spec) {
  uint64_t h = 0x9e3779b97f4a7c15ull ^ (what << 8 | spec.size());
  size_t i = 0;
  for (; i + 2 <= spec.size(); i += 2) {  // a kernel of attention has over 40: two at a time
    uint64_t pair;
    std::memcpy(&pair, spec.data() + i, sizeof(pair));
    h = mixed(h, pair);
  }
  return i < spec.size() ? mixed(h, spec[i]) : h;
}

const Entry* find(const Table& t, uint64_t hash, KernelId id, SpecWords spec) {
  for (size_t i = hash & t.mask;; i = (i + 1) & t.mask) {
    const Entry* e = t.slots[i].load(std::memory_order_acquire);
    if (!e) return nullptr;
    if (e->key.is(hash, id, spec)) return e;
  }
}

void insert(const Table& t, const Entry* entry) {
  size_t i = entry->key.hash & t.mask;
  while (t.slots[i].load(std::memory_order_relaxed)) i = (i + 1) & t.mask;
  t.slots[i].store(entry, std::memory_order_release);
}

// The pipeline of a kernel with the same SPIR-V under another name, or null.
PipelinePtr of_same_content(const DeviceTable& tables, uint64_t content, KernelId id, SpecWords spec) {
  const auto [first, last] = tables.by_content.equal_range(content);
  for (auto it = first; it != last; ++it) {
    const Key& other = it->second->key;
    if (other.is(other.hash, other.id, spec) && same_content(other.id, id)) return it->second->pipeline;
  }
  return nullptr;
}

// For the tests, which must dispatch every kernel (test/support/kernel_coverage.py). Lines of several processes do not
// mix, because each is one write at the end of the file.
void log_kernel(const char* name) {
  if (const auto& file = environment().kernel_log; file && !file->empty())
    std::ofstream(*file, std::ios::app) << std::string(name) + "\n";
}

// A row for the kernel, whose pipeline nobody compiles yet.
const vulkan::Pipeline& create(DeviceTable& tables, vulkan::Device& device, uint64_t hash, KernelId id,
                               SpecWords spec) {
  const KernelSource& r = source(id);
  if (uint32_t lacks = r.features & ~feature_bits(device.profile())) {
    vulkan::raise(FailureKind::missing_feature, std::string(r.name) + " needs " + names_of_features(lacks) +
                                                    ", which " + device.profile().name + " lacks");
  }
  // One driver hangs on more than it has.
  if (const uint64_t bytes = shared_bytes(id, spec); bytes > device.profile().shared_bytes) {
    throw vulkan::Error(std::string(r.name) + " wants " + std::to_string(bytes) + " bytes of shared memory, " +
                        device.profile().name + " has " + std::to_string(device.profile().shared_bytes));
  }
  // Some drivers take more, and run it wrong.
  const std::array<uint64_t, 3> size = shared_memory(id).workgroup(spec);
  const uint32_t* most = device.profile().max_workgroup_size;
  const uint64_t invocations = device.profile().max_workgroup_invocations;
  const bool fits = size[0] <= most[0] && size[1] <= most[1] && size[2] <= most[2];
  if (!fits || size[0] * size[1] * size[2] > invocations) {
    throw vulkan::Error(std::string(r.name) + " wants a workgroup of " + std::to_string(size[0]) + " x " +
                        std::to_string(size[1]) + " x " + std::to_string(size[2]) + " invocations, " +
                        device.profile().name + " has " + std::to_string(invocations));
  }
  const uint64_t content = hash_of(content_hash(id), spec);
  std::lock_guard lock(tables.mutex);
  const Entry* there = is_builtin(id) ? find(*tables.table.load(std::memory_order_acquire), hash, id, spec)
                                      : find_added(tables, hash, id, spec);
  if (there != nullptr) return *there->pipeline;
  PipelinePtr pipeline = of_same_content(tables, content, id, spec);
  if (pipeline == nullptr) {
    const bool temporary = !is_builtin(id);
    pipeline = device.impl().pipelines->create({r.name, r.spirv, r.spirv_bytes, temporary ? find_source(id) : nullptr,
                                                r.params_ring, r.params_bytes, spec.data(), spec.size(), temporary});
  }
  auto made = std::make_unique<const Entry>(Entry{Key(hash, id, spec), content, pipeline});
  const Entry* entry = made.get();
  tables.by_content.emplace(content, entry);
  log_kernel(r.name);
  if (!is_builtin(id)) {
    tables.added[static_cast<uint32_t>(id)].push_back(std::move(made));
    return *pipeline;
  }
  (void)made.release();  // the table's
  const Table* t = tables.table.load(std::memory_order_acquire);
  if ((tables.used + 1) * 2 > t->mask) {
    auto* larger = new Table((t->mask + 1) * 2);
    for (size_t i = 0; i <= t->mask; ++i) {
      if (const Entry* e = t->slots[i].load(std::memory_order_relaxed)) insert(*larger, e);
    }
    insert(*larger, entry);
    tables.table.store(larger, std::memory_order_release);
  } else {
    insert(*t, entry);
  }
  ++tables.used;
  return *pipeline;
}

}  // namespace

const vulkan::Pipeline& pipeline_for(vulkan::Device& device, KernelId id, SpecWords spec) {
  DeviceTable& tables = table_of(device.index());
  uint64_t hash = hash_of(static_cast<uint32_t>(id), spec);
  if (!is_builtin(id)) {
    {
      std::lock_guard lock(tables.mutex);
      if (const Entry* e = find_added(tables, hash, id, spec)) return *e->pipeline;
    }
  } else if (const Entry* e = find(*tables.table.load(std::memory_order_acquire), hash, id, spec)) {
    return *e->pipeline;
  }
  const vulkan::Pipeline& made = create(tables, device, hash, id, spec);
  made.start();
  return made;
}

void compile_pipeline(vulkan::Device& device, KernelId id, SpecWords spec) {
  const vulkan::Pipeline& pipeline = pipeline_for(device, id, spec);
  pipeline.start();
  pipeline.wait();
}

void drop_pipelines(KernelId id) {
  for (int device = 0; device < kMaxDevices; ++device) {
    DeviceTable& tables = table_of(device);
    std::vector<std::unique_ptr<const Entry>> gone;  // destroyed without the lock
    std::lock_guard lock(tables.mutex);
    const auto found = tables.added.find(static_cast<uint32_t>(id));
    if (found == tables.added.end()) continue;
    gone = std::move(found->second);
    tables.added.erase(found);
    for (const auto& entry : gone) {
      const auto [first, last] = tables.by_content.equal_range(entry->content);
      for (auto it = first; it != last; ++it) {
        if (it->second != entry.get()) continue;
        tables.by_content.erase(it);
        break;
      }
    }
  }
}

uint64_t shared_bytes(KernelId id, SpecWords spec) {
  // A planner asks the same again at every call; evaluating some hundred constants would be a tenth of its time.
  struct Answer {
    Key key;
    uint64_t bytes = 0;
  };
  thread_local std::array<Answer, 32> answers;
  const uint64_t hash = hash_of(static_cast<uint32_t>(id), spec);
  Answer& answer = answers[hash >> 59];
  if (!answer.key.is(hash, id, spec)) answer = {Key(hash, id, spec), shared_memory(id).bytes(spec)};
  return answer.bytes;
}

void save_pipelines(int device) {
  vulkan::finish_compilations();
  vulkan::Device::get(device).impl().pipelines->save();
}

CompileTimes compile_times(int device) {
  const vulkan::CompileTimes times = vulkan::Device::get(device).impl().pipelines->times();
  return {times.pipelines, times.driver_seconds};
}

std::vector<std::string> active_pipelines(int device) { return vulkan::Device::get(device).impl().pipelines->labels(); }

}  // namespace aule::kernels
