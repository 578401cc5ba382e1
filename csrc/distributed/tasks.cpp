#include "distributed/tasks.h"

#include <thread>

#include "runtime/streams.h"

namespace aule::distributed {
namespace {

std::shared_timed_mutex& exit_mutex() {
  static auto* mutex = new std::shared_timed_mutex;  // threads wait for it after everything else is gone
  return *mutex;
}

}  // namespace

std::shared_lock<std::shared_timed_mutex> until_exit() { return std::shared_lock(exit_mutex()); }

void hold_threads(std::chrono::milliseconds longest) { static_cast<void>(exit_mutex().try_lock_for(longest)); }

Tasks::Tasks(int most_threads) : state_(std::make_shared<State>(most_threads)) {}

Tasks::~Tasks() {
  std::lock_guard lock(state_->mutex);
  state_->closed = true;
  state_->changed.notify_all();
}

void Tasks::push(std::function<void()> task) {
  std::lock_guard lock(state_->mutex);
  state_->queue.push_back(std::move(task));
  if (state_->idle < static_cast<int>(state_->queue.size()) && state_->threads < state_->most_threads) {
    std::thread([state = state_] { loop(state); }).detach();
    ++state_->threads;
  }
  state_->changed.notify_all();
}

void Tasks::drain() {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return state_->queue.empty() && state_->running == 0; });
}

bool Tasks::close(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(state_->mutex);
  state_->closed = true;
  state_->changed.notify_all();
  return state_->changed.wait_until(lock, deadline, [&] { return state_->queue.empty() && state_->threads == 0; });
}

void Tasks::loop(const std::shared_ptr<State>& state) {
  const runtime::Uninterrupted wait_to_the_end;  // no handlers of signals, and no notes of waits, on this thread
  std::unique_lock lock(state->mutex);
  for (;;) {
    ++state->idle;
    state->changed.wait(lock, [&] { return state->closed || !state->queue.empty(); });
    --state->idle;
    if (state->queue.empty()) break;
    std::function<void()> task = std::move(state->queue.front());
    state->queue.pop_front();
    ++state->running;
    lock.unlock();
    task();
    {
      const auto running = until_exit();
      task = nullptr;  // what it held may take locks when it goes
    }
    lock.lock();
    --state->running;
    state->changed.notify_all();
  }
  --state->threads;
  state->changed.notify_all();
}

}  // namespace aule::distributed
