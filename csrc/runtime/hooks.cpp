// PrivateUse1 hooks: what PyTorch asks a device that it has no code for.
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/StorageImpl.h>

#include "runtime/allocator.h"
#include "runtime/generator.h"
#include "runtime/host_allocator.h"
#include "runtime/streams.h"
#include "stream/command_stream.h"
#include "vulkan/device.h"

namespace aule::runtime {
namespace {

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return vulkan::device_count() > 0; }
  bool hasPrimaryContext(c10::DeviceIndex device) const override { return vulkan::device_created(device); }
  void init() const override { check_not_forked(); }

  c10::DeviceIndex deviceCount() const override { return static_cast<c10::DeviceIndex>(vulkan::device_count()); }
  void setCurrentDevice(c10::DeviceIndex device) const override { set_device(device); }
  c10::DeviceIndex getCurrentDevice() const override { return current_device(); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override { return exchange_device(device); }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override { return exchange_device(device); }

  const at::Generator& getDefaultGenerator(c10::DeviceIndex device) const override { return default_generator(device); }
  at::Generator getNewGenerator(c10::DeviceIndex device) const override { return make_generator(device); }

  at::Device getDeviceFromPtr(void* data) const override {
    const auto address = reinterpret_cast<uint64_t>(data);
    for (int i = 0; i < vulkan::device_count(); ++i) {
      if (vulkan::device_created(i) && vulkan::Device::get(i).memory().find(address) != nullptr)
        return {at::kPrivateUse1, static_cast<c10::DeviceIndex>(i)};
    }
    TORCH_CHECK(false, "aule: ", data, " is not an address of any aule device");
  }
  // Beside CUDA, `pin_memory=True` gives CUDA's pinned memory, and PyTorch asks here whether it is pinned.
  bool isPinnedPtr(const void* data) const override {
    const auto& cuda = at::detail::getCUDAHooks();
    return is_pinned(data) || (cuda.hasCUDA() && cuda.isPinnedPtr(data));
  }
  at::Allocator* getPinnedMemoryAllocator() const override { return host_allocator(); }

  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    c10::StorageImpl* impl = storage.unsafeGetStorageImpl();
    TORCH_CHECK(impl->resizable(), "Trying to resize storage that is not resizable");
    const void* old = storage.data();  // of newer Torch refuses a storage whose values wait on the host
    TORCH_CHECK(old != nullptr || storage.nbytes() == 0,
                "aule: the values of this storage wait on the host (torch_aule.scheduler): it cannot be resized");
    const c10::DeviceIndex before = exchange_device(storage.device().index());
    c10::DataPtr fresh = bytes == 0 ? c10::DataPtr(nullptr, storage.device()) : device_allocator()->allocate(bytes);
    const size_t keep = std::min(bytes, storage.nbytes());
    if (keep != 0) {
      current_stream().copy(reinterpret_cast<uint64_t>(fresh.get()), reinterpret_cast<uint64_t>(old), keep);
    }
    impl->set_data_ptr_noswap(std::move(fresh));
    impl->set_nbytes(bytes);
    exchange_device(before);
  }
};

[[maybe_unused]] const bool g_registered = [] {
  at::RegisterPrivateUse1HooksInterface(new Hooks);  // leaked by design, as PyTorch's own are
  return true;
}();

}  // namespace
}  // namespace aule::runtime
