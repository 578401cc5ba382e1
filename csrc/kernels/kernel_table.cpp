#include "kernels/kernel_table.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>

#include "core/caps.h"
#include "core/kernel_source.h"
#include "vulkan/check.h"
#include "vulkan/device.h"
#include "vulkan/device_impl.h"
#include "vulkan/pipeline.h"

namespace aule::kernels {
namespace {

struct Entry {
  uint64_t hash;
  uint16_t row;
  Spec spec;
  const vulkan::Pipeline* pipeline;
};

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
};

DeviceTable& table_of(int device) {
  static auto* tables = new DeviceTable[64];
  return tables[device];
}

uint64_t hash_of(uint16_t row, const Spec& spec) {
  uint64_t h = 0x9e3779b97f4a7c15ull ^ (uint64_t{row} << 8 | spec.size());
  for (size_t i = 0; i < spec.size(); ++i) {
    h = (h ^ spec.data()[i]) * 0xff51afd7ed558ccdull;
    h ^= h >> 32;
  }
  return h;
}

const Entry* find(const Table& t, uint64_t hash, uint16_t row, const Spec& spec) {
  for (size_t i = hash & t.mask;; i = (i + 1) & t.mask) {
    const Entry* e = t.slots[i].load(std::memory_order_acquire);
    if (!e) return nullptr;
    if (e->hash == hash && e->row == row && e->spec.size() == spec.size() &&
        std::memcmp(e->spec.data(), spec.data(), 4 * spec.size()) == 0) {
      return e;
    }
  }
}

void insert(const Table& t, const Entry* entry) {
  size_t i = entry->hash & t.mask;
  while (t.slots[i].load(std::memory_order_relaxed)) i = (i + 1) & t.mask;
  t.slots[i].store(entry, std::memory_order_release);
}

const vulkan::Pipeline& create(DeviceTable& tables, vulkan::Device& device, uint64_t hash, uint16_t row,
                               const Spec& spec) {
  if (row >= kKernelRowCount) throw vulkan::Error("kernel row " + std::to_string(row) + " does not exist");
  const KernelRow& r = kKernelRows[row];
  if (uint32_t lacks = r.features & ~feature_bits(device.caps())) {
    throw vulkan::MissingFeature(std::string(r.name) + " needs features that " + device.caps().name + " lacks (bits " +
                                 std::to_string(lacks) + ")");
  }
  // The lock is held while the driver compiles: two threads that want the same kernel must not both build it.
  std::lock_guard lock(tables.mutex);
  const Table* t = tables.table.load(std::memory_order_acquire);
  if (const Entry* e = find(*t, hash, row, spec)) return *e->pipeline;
  const auto* entry = new Entry{hash, row, spec,
                                device.impl().pipelines->create({r.name, r.spirv, r.spirv_bytes, r.params_ring,
                                                                 r.params_bytes, spec.data(), spec.size()})};
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
  return *entry->pipeline;
}

}  // namespace

const vulkan::Pipeline& pipeline_for(vulkan::Device& device, uint16_t row, const Spec& spec) {
  DeviceTable& tables = table_of(device.index());
  uint64_t hash = hash_of(row, spec);
  if (const Entry* e = find(*tables.table.load(std::memory_order_acquire), hash, row, spec)) return *e->pipeline;
  return create(tables, device, hash, row, spec);
}

std::vector<std::string> active_pipelines(int device) { return vulkan::Device::get(device).impl().pipelines->labels(); }

}  // namespace aule::kernels
