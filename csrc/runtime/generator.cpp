#include "runtime/generator.h"

#include <ATen/core/GeneratorForPrivateuseone.h>
#include <ATen/ops/empty.h>
#include <ATen/Utils.h>
#include <c10/core/GeneratorImpl.h>

#include <array>
#include <cstring>
#include <mutex>

#include "core/integer.h"
#include "core/per_device.h"
#include "runtime/generator_impl.h"
#include "runtime/streams.h"
#include "vulkan/device.h"

namespace aule::runtime {
namespace {

// A state that was read or set while a graph is captured would be that of the capture in every replay.
void refuse_capture(const char* what, c10::DeviceIndex device) {
  TORCH_CHECK(!vulkan::device_created(device) || !is_capturing(device), "aule generator: ", what,
              " is not possible while a graph is being captured on the current stream");
}

}  // namespace

GeneratorImpl::GeneratorImpl(c10::DeviceIndex device)
    : c10::GeneratorImpl(c10::Device(c10::DeviceType::PrivateUse1, device),
                         c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}

void GeneratorImpl::set_current_seed(uint64_t seed) {
  refuse_capture("setting a seed", device().index());
  seed_ = seed;
  offset_ = 0;
}
void GeneratorImpl::set_offset(uint64_t offset) {
  TORCH_CHECK(offset % 4 == 0, "aule generator: the offset must be a multiple of 4, got ", offset);
  offset_ = offset;
}
uint64_t GeneratorImpl::seed() {
  const uint64_t fresh = c10::detail::getNonDeterministicRandom();
  set_current_seed(fresh);
  return fresh;
}

// State: 8 bytes seed, 8 bytes offset, as torch.cuda's generator.
void GeneratorImpl::set_state(const c10::TensorImpl& state) {
  refuse_capture("setting its state", device().index());
  at::detail::check_rng_state(state);
  TORCH_CHECK(state.numel() == 16, "aule generator: RNG state must have 16 bytes, got ", state.numel());
  uint64_t words[2];
  std::memcpy(words, state.data(), sizeof words);
  seed_ = words[0];
  set_offset(words[1]);
}
c10::intrusive_ptr<c10::TensorImpl> GeneratorImpl::get_state() const {
  refuse_capture("reading its state", device().index());
  at::Tensor state = at::empty({16}, at::TensorOptions().dtype(at::kByte).device(at::kCPU));
  const uint64_t words[2] = {seed_, offset_};
  std::memcpy(state.mutable_data_ptr(), words, sizeof words);
  return state.getIntrusivePtr();
}
GeneratorImpl* GeneratorImpl::clone_impl() const {
  auto* copy = new GeneratorImpl(device().index());
  copy->seed_ = seed_;
  copy->offset_ = offset_;
  return copy;
}

PhiloxState GeneratorImpl::take(uint64_t increment) {
  increment = round_up(increment, 4);
  if (capture_ != nullptr && capture_->stream == &current_stream(device().index())) {
    PhiloxState state{0, capture_->offset, capture_->state_address};
    capture_->offset += increment;
    return state;
  }
  TORCH_CHECK(!is_capturing(device().index()),
              "aule generator: only the device's default generator draws while a graph is being captured; another one "
              "would repeat its numbers in every replay");
  PhiloxState state{seed_, offset_, 0};
  offset_ += increment;
  return state;
}

namespace {
struct Defaults {
  std::mutex mutex;
  PerDevice<at::Generator> generators;
};
Defaults& defaults() {
  static auto* d = new Defaults;
  return *d;
}
}  // namespace

at::Generator make_generator(c10::DeviceIndex device) {
  return at::make_generator<GeneratorImpl>(device < 0 ? current_device() : device);
}

const at::Generator& default_generator(c10::DeviceIndex device) {
  if (device < 0) device = current_device();
  TORCH_CHECK(device < vulkan::device_count(), "aule: no generator for device ", static_cast<int>(device), ": ",
              vulkan::device_count(), " device(s)");
  auto& d = defaults();
  std::lock_guard lock(d.mutex);
  auto& generator = d.generators[device];
  if (!generator.defined()) {
    generator = at::make_generator<GeneratorImpl>(device);
    generator.seed();
  }
  return generator;
}

PhiloxState philox_for(const std::optional<at::Generator>& generator, int device, uint64_t increment) {
  const auto index = static_cast<c10::DeviceIndex>(device);
  at::Generator used = generator.has_value() && generator->defined() ? *generator : default_generator(index);
  TORCH_CHECK(used.device().type() == c10::DeviceType::PrivateUse1,
              "Expected a 'aule' device type for generator but found '", used.device().type(), "'");
  TORCH_CHECK(used.device().index() == index || used.device().index() < 0,
              "Expected a generator of device aule:", device, " but found ", used.device());
  std::lock_guard lock(used.mutex());
  return static_cast<GeneratorImpl*>(used.unsafeGetGeneratorImpl())->take(increment);
}

}  // namespace aule::runtime
