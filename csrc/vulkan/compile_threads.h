// Threads that compile pipelines, so that those which a program launches before the host has to wait are compiled on
// all cores at once. They start with the first pipeline, sleep without one, and are joined when the process ends.
//
// They take no lock that is held while somebody waits for a pipeline: neither a stream's nor the interpreter's.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace aule::vulkan {

class Pipeline;

class CompileThreads {
 public:
  static CompileThreads& of_process();
  bool allowed() const { return limit_ > 0; }  // not without `compile_threads` (TORCH_AULE_DISABLE)
  // Compiles it later; false if no thread will, so that the caller must.
  bool take(std::shared_ptr<const Pipeline> pipeline);
  void finish();        // waits until nothing is left to compile
  void end() noexcept;  // drops what has not begun, waits for the rest; nothing is taken afterwards

 private:
  CompileThreads();
  bool start_thread();  // needs the lock
  void work();

  const size_t limit_;
  std::mutex mutex_;
  std::condition_variable work_, idle_;
  std::deque<std::shared_ptr<const Pipeline>> waiting_;
  std::vector<std::thread> threads_;
  size_t busy_ = 0;
  bool ended_ = false;
};

}  // namespace aule::vulkan
