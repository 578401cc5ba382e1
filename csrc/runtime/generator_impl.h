// The generator object behind runtime/generator.h, for the runtime's own files.
#pragma once
#include <c10/core/GeneratorImpl.h>

#include "runtime/generator.h"

namespace aule::stream {
class CommandStream;
}

namespace aule::runtime {

// While a graph is captured on `stream`, draws there are numbered from 0, and the kernels add the base that each replay
// writes to `state_address` ({seed, offset} in device memory).
struct PhiloxCapture {
  const stream::CommandStream* stream = nullptr;
  uint64_t state_address = 0, offset = 0;
};

class GeneratorImpl final : public c10::GeneratorImpl {
 public:
  explicit GeneratorImpl(c10::DeviceIndex device);
  static c10::DeviceType device_type() { return c10::DeviceType::PrivateUse1; }

  void set_current_seed(uint64_t seed) override;
  void set_offset(uint64_t offset) override;
  uint64_t get_offset() const override { return offset_; }
  uint64_t current_seed() const override { return seed_; }
  uint64_t seed() override;
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;

  PhiloxState take(uint64_t increment);  // the caller holds mutex_
  PhiloxCapture* capture_ = nullptr;

 private:
  GeneratorImpl* clone_impl() const override;
  uint64_t seed_ = c10::default_rng_seed_val, offset_ = 0;
};

}  // namespace aule::runtime
