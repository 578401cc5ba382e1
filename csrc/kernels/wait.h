// For operators that wait for the device by other means than download_bytes, which says so itself.
#pragma once

namespace aule {

// Told before such a wait; may throw, which refuses it (torch.aule.set_sync_debug_mode).
void note_wait();

}  // namespace aule
