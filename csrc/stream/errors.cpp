#include "stream/errors.h"

#include <atomic>
#include <cstring>
#include <string>

#include "core/dtype.h"
#include "vulkan/check.h"
#include "vulkan/device_impl.h"
#include "vulkan/loop_guard.h"
#include "vulkan/memory.h"

namespace aule::stream {
namespace {

std::atomic<const char* (*)(uint32_t)> tag_names{nullptr};

struct Record {  // shaders/common/errors.glsl
  uint32_t code, kernel;
  int64_t value, bound;
};

std::string describe(const Record& r) {
  auto names = tag_names.load();
  const char* op = names ? names(r.kernel) : nullptr;
  std::string text = std::string(op ? op : "kernel") + ": ";
  std::string value = std::to_string(r.value), bound = std::to_string(r.bound);
  switch (r.code) {
    case AULE_ERR_INDEX_OUT_OF_RANGE:
      return text + "index " + value + " is out of bounds for dimension with size " + bound;
    case AULE_ERR_CLASS_OUT_OF_RANGE: return text + "target " + value + " is out of bounds for " + bound + " classes";
    case AULE_ERR_INVALID_PROBABILITY:
      return text + "probability tensor contains either `inf`, `nan` or element < 0, or sums to zero";
    case AULE_ERR_ASSERT: return text + "assertion failed on the device (value " + value + ", bound " + bound + ")";
    default: return text + "reported error " + std::to_string(r.code) + " (value " + value + ", bound " + bound + ")";
  }
}

}  // namespace

void set_error_tag_names(const char* (*name_of)(uint32_t tag)) { tag_names.store(name_of); }

void raise_recorded_error(int device) {
  const vulkan::DeviceImpl& impl = vulkan::Device::get(device).impl();
  if (impl.loop_guard) {
    if (const std::string report = impl.loop_guard->take_report(); !report.empty()) throw vulkan::Error(report);
  }
  auto* shared = static_cast<Record*>(impl.error_record->mapped);
  std::atomic_ref<uint32_t> code(shared->code);
  if (code.load(std::memory_order_acquire) == 0) return;
  Record copy;
  std::memcpy(&copy, shared, sizeof copy);
  if (code.exchange(0) == 0) return;  // another thread throws it
  const bool index = copy.code == AULE_ERR_INDEX_OUT_OF_RANGE || copy.code == AULE_ERR_CLASS_OUT_OF_RANGE;
  if (index) vulkan::raise(FailureKind::index, describe(copy));
  throw vulkan::Error(describe(copy));  // a bad value: RuntimeError in Python, as from PyTorch's CPU kernels
}

}  // namespace aule::stream
