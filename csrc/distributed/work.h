// One collective over device tensors: its copies to the host, gloo's work on them, its copies back.
//
// Lifetime: the calling thread records the copies to the host, a thread of the channel waits for them and starts gloo's
// work, another waits for that and records the copies back. From then on the work is complete: wait() makes the
// caller's stream wait for the copies. It blocks the host until they have been submitted: with one queue, a stream that
// waited for a later submission would stop it. Where the ranks share memory, the second thread does all of this, and
// wait() on a stream other than the default one does not block: the host waits when that stream is used next, so that
// FSDP records a layer's kernels while the next one's parameters come.
#pragma once
#include <ATen/core/ivalue.h>
#include <c10/core/Event.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "distributed/exchange.h"
#include "distributed/staging.h"

namespace aule::distributed {

class Channel;

struct Call {
  const char* name = nullptr;
  c10d::OpType type = c10d::OpType::UNKNOWN;
  std::vector<Part> reads = {}, writes = {};
  std::vector<at::Tensor> outputs = {};                                           // of result() and of the future
  std::function<c10::intrusive_ptr<c10d::Work>(c10d::Backend&)> start = nullptr;  // gloo's part; may return null
  std::optional<Exchange> exchange = std::nullopt;  // in place of that; reads and writes are then in device memory
  std::optional<Factor> factor = std::nullopt;
  int64_t divisor = 1;    // of the results (AVG)
  bool one_peer = false;  // a send or a receive: it is in no order with others
};

class StagedWork final : public c10d::Work {
 public:
  StagedWork(std::shared_ptr<Channel> channel, Call call, c10::Device device, int rank, uint64_t sequence);

  void start(c10d::Backend& gloo) noexcept;  // the channel's first thread
  void complete() noexcept;                  // its second, which always follows and lets go of what the work held
  void fail(const std::string& reason) noexcept;
  bool one_peer() const { return call_.one_peer; }
  bool results_in(const std::vector<Part>& parts) const;  // whether they share memory with the results

  bool wait(std::chrono::milliseconds timeout) override;
  bool isCompleted() override;
  bool isSuccess() const override;
  void synchronize() override;
  void abort() override;
  int sourceRank() const override;
  std::vector<at::Tensor> result() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  uint64_t getSequencenumber() const override { return sequence_; }

 private:
  bool on_device() const { return !device_.is_cpu(); }
  void copy_in();
  void copy_back();
  void run_exchange();
  void end(std::exception_ptr error) noexcept;  // a second end changes nothing
  void mark_future();
  std::exception_ptr described(std::exception_ptr error) const;

  void release() noexcept;
  bool has_ended();
  void wait_for_end(std::chrono::milliseconds timeout);  // blocks the host, and throws the error

  std::shared_ptr<Channel> channel_;  // until it is released
  Call call_;
  const c10::Device device_;
  const uint64_t sequence_;
  const std::string who_;
  c10::Event called_, copied_in_, copied_back_;
  std::optional<c10::Stream> back_;  // of the copies back
  c10::intrusive_ptr<c10d::Work> inner_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  bool future_marked_ = false;
};

class CoalescedWork final : public c10d::Work {
 public:
  explicit CoalescedWork(std::vector<c10::intrusive_ptr<c10d::Work>> works, int rank);
  bool wait(std::chrono::milliseconds timeout) override;
  bool isCompleted() override;
  bool isSuccess() const override;
  void synchronize() override;
  std::vector<at::Tensor> result() override;

 private:
  std::vector<c10::intrusive_ptr<c10d::Work>> works_;
};

}  // namespace aule::distributed
