#include "stream/interrupts.h"

#include <atomic>

#include "stream/wait_notes.h"

namespace aule::stream {
namespace {

std::atomic<const InterruptHooks*> installed{nullptr};
std::atomic<void (*)()> wait_note{nullptr};
thread_local int uninterrupted = 0;

const InterruptHooks* hooks() { return uninterrupted > 0 ? nullptr : installed.load(std::memory_order_acquire); }

}  // namespace

void set_interrupt_hooks(const InterruptHooks* hooks) { installed.store(hooks, std::memory_order_release); }

void set_wait_note(void (*note)()) { wait_note.store(note, std::memory_order_release); }

void note_wait() {
  if (auto* note = wait_note.load(std::memory_order_acquire); note != nullptr && uninterrupted == 0) note();
}

void check_interrupts() {
  if (const auto* ask = hooks()) ask->check();
}

bool interrupt_pending() {
  const auto* ask = hooks();
  return ask != nullptr && ask->pending();
}

void wait_unlocked(const std::function<void()>& wait) {
  if (const auto* ask = installed.load(std::memory_order_acquire))
    ask->unlocked(wait);
  else
    wait();
}

Uninterrupted::Uninterrupted() noexcept { ++uninterrupted; }
Uninterrupted::~Uninterrupted() { --uninterrupted; }

}  // namespace aule::stream
