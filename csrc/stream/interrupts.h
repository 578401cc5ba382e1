// Signals that arrive while the host waits. The layer above installs what asks its interpreter; without that, waits
// are not interrupted. The functions take the interpreter's lock, so nothing that a thread with that lock may want is
// held where a wait can be interrupted.
#pragma once
#include <functional>

namespace aule::stream {

struct InterruptHooks {
  void (*check)();    // runs the handlers of signals that have arrived; may throw, which ends the wait
  bool (*pending)();  // whether a signal that would throw has arrived; leaves it for later
  void (*unlocked)(const std::function<void()>& wait);  // calls it without the interpreter's lock
};
void set_interrupt_hooks(const InterruptHooks* hooks);  // lives until process exit

void check_interrupts();   // nothing while this thread has an Uninterrupted
bool interrupt_pending();  // likewise
// Calls what waits for another thread, which may want the interpreter's lock.
void wait_unlocked(const std::function<void()>& wait);

// While one lives, no wait of this thread is interrupted: it holds a lock, or must not end halfway.
class Uninterrupted {
 public:
  Uninterrupted() noexcept;
  ~Uninterrupted();
  Uninterrupted(const Uninterrupted&) = delete;
  Uninterrupted& operator=(const Uninterrupted&) = delete;
};

}  // namespace aule::stream
