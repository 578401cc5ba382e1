// torch.profiler and torch.autograd.profiler on this device.
#pragma once
#include <map>
#include <string>

namespace aule::runtime {

// Once, when the extension is loaded.
void register_profiler();
void register_profiler_stubs();

// Rates that a device can reach, by measurement: kernels of later traces say their share of it. Rates are by dtype's
// name.
struct Roof {
  double bytes_per_second = 0;  // 0: unknown
  std::map<std::string, double> flops_per_second;
};
void set_roof(int device, Roof roof);

// A label around what this thread's current stream records in between, for debuggers of GPUs.
void push_label(const char* name);
void pop_label();

}  // namespace aule::runtime
