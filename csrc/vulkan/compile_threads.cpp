#include "vulkan/compile_threads.h"

#include <algorithm>
#include <system_error>

#include "core/environment.h"
#include "vulkan/pipeline.h"

#ifndef _WIN32
#include <pthread.h>
#include <signal.h>
#endif

namespace aule::vulkan {
namespace {

constexpr unsigned kMostThreads = 16;  // a compilation takes some MB, and drivers share locks

size_t limit_of_threads() {
  if (environment().disabled.compile_threads) return 0;
  return std::clamp(std::thread::hardware_concurrency(), 1u, kMostThreads);
}

#ifdef _WIN32
struct NoSignals {};
#else
// Signals go to the program's own threads: one that waits must be woken by them.
class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSignals(const NoSignals&) = delete;

 private:
  sigset_t before_;
};
#endif

}  // namespace

CompileThreads& CompileThreads::of_process() {
  static auto* const threads = new CompileThreads;  // launches may come until the process is gone
  return *threads;
}

CompileThreads::CompileThreads() : limit_(limit_of_threads()) {}

bool CompileThreads::take(std::shared_ptr<const Pipeline> pipeline) {
  if (!allowed()) return false;
  {
    std::lock_guard lock(mutex_);
    if (ended_) return false;
    if (waiting_.size() + busy_ >= threads_.size() && threads_.size() < limit_ && !start_thread() && threads_.empty())
      return false;
    waiting_.push_back(std::move(pipeline));
  }
  work_.notify_one();
  return true;
}

bool CompileThreads::start_thread() {
  try {
    [[maybe_unused]] const NoSignals meanwhile;  // the new thread inherits that
    threads_.emplace_back([this] { work(); });
    return true;
  } catch (const std::system_error&) {  // a limit on threads
    return false;
  }
}

void CompileThreads::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [&] { return ended_ || !waiting_.empty(); });
    if (ended_) return;
    std::shared_ptr<const Pipeline> pipeline = std::move(waiting_.front());
    waiting_.pop_front();
    ++busy_;
    lock.unlock();
    pipeline->compile();
    pipeline.reset();
    lock.lock();
    --busy_;
    if (busy_ == 0 && waiting_.empty()) idle_.notify_all();
  }
}

void CompileThreads::finish() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [&] { return busy_ == 0 && waiting_.empty(); });
}

void CompileThreads::end() noexcept {
  std::deque<std::shared_ptr<const Pipeline>> dropped;
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
    dropped.swap(waiting_);
  }
  work_.notify_all();
  for (const auto& pipeline : dropped) pipeline->give_up();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  idle_.notify_all();
}

}  // namespace aule::vulkan
