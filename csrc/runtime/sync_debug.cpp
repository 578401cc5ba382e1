#include "runtime/sync_debug.h"

#include <c10/util/Exception.h>

#include <atomic>

#include "stream/wait_notes.h"

namespace aule::runtime {
namespace {

std::atomic<int> current_mode{0};

void note() {
  TORCH_CHECK(current_mode.load() < 2, "called a synchronizing aule operation");
  TORCH_WARN("called a synchronizing aule operation");
}

}  // namespace

void set_sync_debug_mode(int mode) {
  current_mode.store(mode);
  stream::set_wait_note(mode == 0 ? nullptr : &note);
}

int sync_debug_mode() { return current_mode.load(); }

}  // namespace aule::runtime
