// torch.profiler and torch.autograd.profiler on this device.
#pragma once

namespace aule::runtime {

// Once, when the extension is loaded.
void register_profiler();
void register_profiler_stubs();

}  // namespace aule::runtime
