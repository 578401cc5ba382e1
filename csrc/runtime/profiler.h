// torch.profiler and torch.autograd.profiler on this device.
#pragma once

namespace aule::runtime {

// Once, when the extension is loaded.
void register_profiler();
void register_profiler_stubs();

// A label around what this thread's current stream records in between, for debuggers of GPUs.
void push_label(const char* name);
void pop_label();

}  // namespace aule::runtime
