// The mode of torch.aule.set_sync_debug_mode: 0 nothing, 1 a warning, 2 an error where an operator waits.
#pragma once

namespace aule::runtime {

void set_sync_debug_mode(int mode);
int sync_debug_mode();

}  // namespace aule::runtime
