// Philox generator of one device. A random op takes a slice of the counter:
//
//   PhiloxState s = philox_for(generator, n);   // n: 128-bit Philox outputs each thread may draw at most
//   s.put_into(p);                              // p.seed, p.offset and p.state of common/philox.glsl's philox_begin
//
// `state_address` is 0 except while a graph is captured: then kernels add {seed, offset} read from it, so that each
// replay draws anew.
#pragma once
#include <ATen/core/Generator.h>

#include <cstdint>
#include <optional>

namespace aule::runtime {

struct PhiloxState {
  uint64_t seed = 0, offset = 0, state_address = 0;

  template <class Params>
  void put_into(Params& p) const {
    p.seed = seed;
    p.offset = offset;
    p.state = state_address;
  }
};

// Reserves `increment` counter steps (rounded up to a multiple of 4) of the given or the device's default generator.
PhiloxState philox_for(const std::optional<at::Generator>& generator, int device, uint64_t increment);
const at::Generator& default_generator(c10::DeviceIndex device);
at::Generator make_generator(c10::DeviceIndex device);

}  // namespace aule::runtime
