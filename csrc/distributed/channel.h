// A gloo context, what the ranks share, and the threads that feed them, in the order of the calls.
#pragma once
#include <c10/core/Stream.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "distributed/exchange.h"
#include "distributed/tasks.h"
#include "distributed/work.h"

namespace aule::distributed {

class Channel : public std::enable_shared_from_this<Channel> {
 public:
  Channel(c10::intrusive_ptr<c10d::Backend> gloo, std::shared_ptr<SharedSegment> segment);

  c10d::Backend& gloo() { return *gloo_; }
  SharedExchange* shared() { return shared_ ? &*shared_ : nullptr; }  // null: gloo does everything
  void submit(const c10::intrusive_ptr<StagedWork>& work);
  // Collectives under way that write what `call` reads or writes: it must come after them.
  std::vector<c10::intrusive_ptr<StagedWork>> before(const Call& call) const;
  void call_back(std::function<void()> task) { callbacks_.push(std::move(task)); }
  void drain() { starting_.drain(); }  // until gloo has all that was submitted
  // Waits for what is pending, not longer than that, and fails what is left. Returns whether nothing was.
  bool close(std::chrono::milliseconds longest);
  void failed(std::exception_ptr error);  // a collective's: gloo's connections are of no use any more
  std::exception_ptr failure() const;
  // Streams of the channel's own: copies back wait for no later copies to the host, which wait for the program.
  enum class Direction { to_host, from_host };
  c10::Stream stream(c10::DeviceIndex device, Direction direction);
  std::string who() const;

 private:
  void finish(const c10::intrusive_ptr<StagedWork>& work);

  const c10::intrusive_ptr<c10d::Backend> gloo_;
  std::optional<SharedExchange> shared_;  // which runs on the second thread
  mutable std::mutex mutex_;
  std::map<std::pair<c10::DeviceIndex, Direction>, c10::Stream> streams_;
  std::vector<c10::intrusive_ptr<StagedWork>> pending_;
  std::exception_ptr failure_;
  Tasks starting_{1};
  Tasks finishing_{1};
  Tasks peers_{1 << 16};      // sends and receives: any of them may wait for a later one
  Tasks callbacks_{1 << 16};  // a callback may wait for the future of another collective
};

}  // namespace aule::distributed
