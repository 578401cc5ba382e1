#include "kernels/kernel_table.h"

#include <array>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "kernels/caps.h"
#include "kernels/kernel_row.h"
#include "vulkan/check.h"
#include "vulkan/device.h"
#include "vulkan/device_impl.h"
#include "vulkan/pipeline.h"

namespace aule::kernels {
namespace {

struct Key {
  int device = -1;
  uint16_t row = 0;
  Spec spec;
  bool operator==(const Key& o) const {
    return device == o.device && row == o.row && spec.size() == o.spec.size() &&
           std::memcmp(spec.data(), o.spec.data(), spec.size() * sizeof(uint32_t)) == 0;
  }
};

uint64_t hash_of(int device, uint16_t row, const Spec& spec) {
  uint64_t h = (static_cast<uint64_t>(device) << 16 | row) * 0x9E3779B97F4A7C15ull;
  for (size_t i = 0; i < spec.size(); ++i) h = (h ^ spec.data()[i]) * 0xff51afd7ed558ccdull, h ^= h >> 32;
  return h;
}
struct Hash {
  size_t operator()(const Key& k) const { return hash_of(k.device, k.row, k.spec); }
};

struct Table {
  std::mutex mutex;
  std::unordered_map<Key, vulkan::Pipeline*, Hash> pipelines;
};
Table& table() {
  static auto* t = new Table;
  return *t;
}

}  // namespace

const vulkan::Pipeline& pipeline_for(vulkan::Device& device, uint16_t row, const Spec& spec) {
  struct Entry {
    Key key;
    const vulkan::Pipeline* pipeline = nullptr;
  };
  thread_local std::array<Entry, 256> recent;
  const uint64_t h = hash_of(device.index(), row, spec);
  Entry& entry = recent[h & 255];
  const Key key{device.index(), row, spec};
  if (entry.pipeline != nullptr && entry.key == key) return *entry.pipeline;

  Table& t = table();
  std::lock_guard lock(t.mutex);
  auto& slot = t.pipelines[key];
  if (slot == nullptr) {
    const KernelRow& r = kKernelRows[row];
    if ((r.features & ~feature_bits(device.caps())) != 0)
      throw vulkan::MissingFeature(std::string("kernel ") + r.name + " needs a feature that " + device.caps().name + " lacks");
    slot = device.impl().pipelines->create({r.name, r.spirv, r.spirv_bytes, r.params_ring, spec.data(), spec.size()});
  }
  entry = {key, slot};
  return *slot;
}

std::vector<std::string> active_pipelines(int device) { return vulkan::Device::get(device).impl().pipelines->labels(); }

}  // namespace aule::kernels
