// Threads that run tasks: one, in order, or as many as there are tasks that block. They start with the first task.
#pragma once
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>

namespace aule::distributed {

class Tasks {
 public:
  explicit Tasks(int most_threads);
  ~Tasks();  // the threads end after the tasks they have; nobody waits for them
  Tasks(const Tasks&) = delete;
  Tasks& operator=(const Tasks&) = delete;

  void push(std::function<void()> task);                       // which must not throw
  void drain();                                                // until nothing is queued or running
  bool close(std::chrono::steady_clock::time_point deadline);  // the same, and the threads end; false: too late

 private:
  // Shared with the threads, which are detached: one of them may be what destroys this object.
  struct State {
    const int most_threads;
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::function<void()>> queue;
    int threads = 0, idle = 0, running = 0;
    bool closed = false;
  };
  static void loop(const std::shared_ptr<State>& state);

  std::shared_ptr<State> state_;
};

// A thread of a group holds it while it lets go of tensors, whose Python objects need Python's lock. When the
// interpreter ends `hold_threads` takes it for good, and whoever asks for it then stops there: Python 3.13 and older
// unwinds a thread that wants its lock so late, and destructors do not bear that.
std::shared_lock<std::shared_timed_mutex> until_exit();
void hold_threads(std::chrono::milliseconds longest);

}  // namespace aule::distributed
