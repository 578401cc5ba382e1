#include "distributed/channel.h"

#include <algorithm>

#include "runtime/streams.h"

namespace aule::distributed {

Channel::Channel(c10::intrusive_ptr<c10d::Backend> gloo, std::shared_ptr<SharedSegment> segment)
    : gloo_(std::move(gloo)) {
  if (segment) shared_.emplace(std::move(segment));
}

void Channel::submit(const c10::intrusive_ptr<StagedWork>& work) {
  {
    std::lock_guard lock(mutex_);
    pending_.push_back(work);
  }
  starting_.push([channel = shared_from_this(), work] {
    work->start(*channel->gloo_);
    (work->one_peer() ? channel->peers_ : channel->finishing_).push([channel, work] { channel->finish(work); });
  });
}

std::vector<c10::intrusive_ptr<StagedWork>> Channel::before(const Call& call) const {
  std::vector<c10::intrusive_ptr<StagedWork>> works;
  std::lock_guard lock(mutex_);
  for (const auto& work : pending_)
    if (!work->one_peer() && (work->results_in(call.reads) || work->results_in(call.writes))) works.push_back(work);
  return works;
}

void Channel::finish(const c10::intrusive_ptr<StagedWork>& work) {
  work->complete();
  std::lock_guard lock(mutex_);
  std::erase(pending_, work);
}

bool Channel::close(std::chrono::milliseconds longest) {
  const auto deadline = std::chrono::steady_clock::now() + longest;
  // In this order: each hands on to the next.
  const bool all =
      starting_.close(deadline) && finishing_.close(deadline) && peers_.close(deadline) && callbacks_.close(deadline);
  if (shared_) shared_->segment().leave();
  if (all) return true;
  if (shared_) shared_->segment().abort();
  std::vector<c10::intrusive_ptr<StagedWork>> left;
  {
    std::lock_guard lock(mutex_);
    left = pending_;
  }
  for (const auto& work : left) {
    work->fail("the process group was shut down before it was done");
    work->abort();
  }
  return false;
}

void Channel::failed(std::exception_ptr error) {
  if (shared_) shared_->segment().leave();  // the others need not wait for their timeout
  std::lock_guard lock(mutex_);
  if (!failure_) failure_ = std::move(error);
}

std::exception_ptr Channel::failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

c10::Stream Channel::stream(c10::DeviceIndex device, Direction direction) {
  std::lock_guard lock(mutex_);
  const std::pair key{device, direction};
  const auto found = streams_.find(key);
  if (found != streams_.end()) return found->second;
  return streams_.emplace(key, runtime::private_stream(device)).first->second;
}

std::string Channel::who() const {
  return "rank " + std::to_string(gloo_->getRank()) + " of " + std::to_string(gloo_->getSize());
}

}  // namespace aule::distributed
