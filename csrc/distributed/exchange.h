// Collectives through memory that the ranks of one host share (segment.h). A rank's part goes through its slots in
// rounds: copied there by its device, copied from there by the devices of the ranks that need it, and reduced on those,
// in the order of the ranks. A device writes rounds to come while the others read the last ones.
//
// Large parts travel on the streams of transfers, in both directions at a time and beside kernels. What they bring is
// reduced by few kernels, on the stream of the exchange. Small parts are on that stream alone, and are reduced from
// where they are: queues that take turns cost more than the copies (an H100 needs 170 microseconds to turn from one to
// another).
//
// Two ranks that reduce exchange all they have. More of them scatter sums and gather these, so that a device reads
// 2 (n - 1) / n of the size.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "distributed/segment.h"
#include "runtime/host_allocator.h"

namespace aule::distributed {

struct Exchange {
  enum class Kind : uint32_t { all_reduce, reduce, reduce_scatter, all_gather, gather, broadcast, scatter };
  Kind kind = Kind::all_reduce;
  at::Tensor sent, received;  // flat device memory of bytes; one of them undefined where this rank has none
  int64_t bytes = 0;          // of one rank's block, or of the whole if there are none
  int root = 0;
  c10d::ReduceOp::RedOpType op = c10d::ReduceOp::SUM;
  at::ScalarType dtype = at::kByte;  // of what is reduced
  std::chrono::milliseconds timeout{};
};

class SharedExchange {
 public:
  explicit SharedExchange(std::shared_ptr<SharedSegment> segment);
  ~SharedExchange();

  // Called by one thread. Returns when all is recorded: `received` is there behind what the stream then has.
  void run(const Exchange& exchange, c10::Stream stream);
  SharedSegment& segment() { return *segment_; }

 private:
  struct Pass;
  struct Reading {
    uint32_t round;
    std::optional<c10::Event> done;
  };
  void passes(const Exchange& exchange);
  void pass(const Pass& pass);
  bool write(const Pass& pass, int64_t offset, int64_t pitch, uint32_t round, bool wait);
  void read(const Pass& pass, int64_t offset, int64_t pitch);
  void sum_up(const Pass& pass, int64_t offset, int64_t bytes);
  bool beside() const { return to_host_ != *stream_; }
  void join() noexcept;
  at::Tensor staged(size_t source, int64_t offset, int64_t bytes) const;
  void retire(uint32_t until);  // gives back slots that were read: those of rounds before that for certain
  at::Tensor slot(int rank, uint32_t round, int64_t begin, int64_t bytes) const;            // of the CPU
  at::Tensor slot_on_device(int rank, uint32_t round, int64_t begin, int64_t bytes) const;  // if it is imported
  const std::optional<runtime::ImportedHost>& imported() const { return imported_.at(stream_->device_index()); }
  void import();

  const std::shared_ptr<SharedSegment> segment_;
  const int rank_, ranks_;
  std::map<c10::DeviceIndex, std::optional<runtime::ImportedHost>> imported_;
  uint32_t round_ = 0;  // the next
  std::deque<Reading> reading_;
  std::vector<std::optional<c10::Event>> written_;  // of each slot
  // State of the collective under way.
  std::optional<c10::Stream> stream_, to_host_, to_device_;
  SharedSegment::Deadline deadline_;
  Header header_;
  at::Tensor others_;        // device memory for what other ranks sent, if it is not read where it is: a ring of groups
  at::Tensor sum_;           // so far, of more than two ranks
  int64_t group_bytes_ = 0;  // of a part, that are reduced at a time
  std::vector<std::optional<c10::Event>> summed_;  // of each group of the ring
};

}  // namespace aule::distributed
