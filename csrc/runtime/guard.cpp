// Device guard: devices, streams and events as c10 sees them.
#include <c10/core/DeviceCapability.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>

#include "runtime/allocator.h"
#include "runtime/streams.h"
#include "stream/command_stream.h"
#include "vulkan/device.h"

namespace aule::runtime {
namespace {

constexpr c10::DeviceType kAule = c10::DeviceType::PrivateUse1;

// The content of a c10 event: a point of one stream, re-recorded at will.
struct Event {
  stream::Marker marker;
  c10::DeviceIndex device = -1;
};

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  Guard() = default;
  explicit Guard(c10::DeviceType type) { TORCH_INTERNAL_ASSERT(type == kAule); }
  c10::DeviceType type() const override { return kAule; }

  c10::Device exchangeDevice(c10::Device device) const override { return {kAule, exchange_device(device.index())}; }
  c10::Device getDevice() const override { return {kAule, current_device()}; }
  void setDevice(c10::Device device) const override { set_device(device.index()); }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    try {
      if (device.index() >= 0) set_device(device.index());
    } catch (...) {  // noexcept by contract; the next checked call reports
    }
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    return static_cast<c10::DeviceIndex>(vulkan::device_count());
  }

  c10::Stream getStream(c10::Device device) const override { return current_c10_stream(device.index()); }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT,
                       c10::Device(kAule, device.index() < 0 ? current_device() : device.index()));
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool high_priority) const override {
    return getNewStream(device, high_priority ? -1 : 0);
  }
  c10::Stream getNewStream(c10::Device device, int priority) const override {
    const c10::DeviceIndex index = device.index() < 0 ? current_device() : device.index();
    check_not_forked();
    return c10::Stream(c10::Stream::UNSAFE, c10::Device(kAule, index),
                       stream::CommandStream::next_pool_id(index, priority));
  }
  c10::Stream exchangeStream(c10::Stream stream) const override { return exchange_stream(stream); }
  void* getStreamNativeHandle(const c10::Stream stream) const override { return &command_stream(stream); }
  bool queryStream(const c10::Stream& stream) const override { return command_stream(stream).idle(); }
  void synchronizeStream(const c10::Stream& stream) const override { command_stream(stream).synchronize(); }
  void synchronizeDevice(const c10::DeviceIndex device) const override { stream::synchronize_device(device); }
  bool isStreamCapturing(const c10::Stream& stream) const { return command_stream(stream).capturing(); }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex device,
              const c10::EventFlag flag) const override {
    auto* e = static_cast<Event*>(*event);
    if (e == nullptr)
      *event = e = new Event;
    else if (e->marker.stream != nullptr)
      e->marker.stream->release(e->marker);
    e->device = device < 0 ? stream.device_index() : device;
    e->marker = command_stream(stream).record(/*timing=*/flag == c10::EventFlag::BACKEND_DEFAULT, /*submit=*/true);
  }
  void block(void* event, const c10::Stream& stream) const override {
    const auto* e = static_cast<const Event*>(event);
    if (e != nullptr && e->marker.stream != nullptr) command_stream(stream).wait_for(e->marker);
  }
  bool queryEvent(void* event) const override {
    const auto* e = static_cast<const Event*>(event);
    return e == nullptr || e->marker.stream == nullptr || e->marker.stream->done(e->marker.value);
  }
  void synchronizeEvent(void* event) const override {
    const auto* e = static_cast<const Event*>(event);
    if (e != nullptr && e->marker.stream != nullptr) e->marker.stream->wait(e->marker.value);
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    auto* e = static_cast<Event*>(event);
    if (e == nullptr) return;
    try {
      if (e->marker.stream != nullptr && !in_bad_fork()) e->marker.stream->release(e->marker);
    } catch (...) {  // a lost device cannot take the slot back
    }
    delete e;
  }
  double elapsedTime(void* start, void* end, const c10::DeviceIndex) const override {
    TORCH_CHECK(start != nullptr && end != nullptr, "elapsed_time: both events must have been recorded");
    return stream::CommandStream::elapsed_ms(static_cast<Event*>(start)->marker, static_cast<Event*>(end)->marker);
  }
  void recordDataPtrOnStream(const c10::DataPtr& ptr, const c10::Stream& stream) const override {
    device_allocator()->recordStream(ptr, stream);
  }

  c10::DeviceCapability getDeviceCapability(c10::Device device) const override {
    c10::DeviceCapability capability;
    const auto& caps = vulkan::device_profile(device.index() < 0 ? current_device() : device.index());
    // Dtypes with arithmetic on the device; others (complex, quantized) can be stored and copied.
    capability.capability_data.capability_bits = 0;
    auto& types = capability.capability_data.supported_scalar_types;
    types.has_Byte = types.has_Char = types.has_Short = types.has_Int = types.has_Long = types.has_Bool = 1;
    types.has_Half = types.has_BFloat16 = types.has_Float = 1;
    types.has_Double = caps.float64 ? 1 : 0;
    return capability;
  }
};

}  // namespace

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

}  // namespace aule::runtime
