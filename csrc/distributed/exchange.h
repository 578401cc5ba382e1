// Collectives through memory that the ranks of one host share (segment.h). A rank's part goes through its slots in
// rounds: copied there by its device, copied from there by the devices of the ranks that need it, and reduced on those,
// in the order of the ranks. A device writes rounds to come while the others read the last ones.
//
// Large parts travel on the streams of transfers where these have queues of their own, in both directions at a time and
// beside kernels. What has come is reduced on the stream of the exchange, and not before it has come: on a device
// without async compute queues this stream has the default stream's queue, which must not wait. Small parts are on the
// stream of the exchange alone, and are reduced from where they are.
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
  const c10::Event* ready = nullptr;  // behind which both tensors are; null: they are behind what the stream has
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
  struct Group {                 // rounds that are reduced at a time
    int64_t begin = 0, end = 0;  // bytes of the part
    uint32_t round = 0;          // the first
    int64_t place = -1;          // in device memory; -1: it is reduced from where it is
    std::optional<c10::Event> come = std::nullopt;
  };
  struct Place {  // device memory for a group, if it is not read where it is
    at::Tensor memory = {};
    std::optional<c10::Event> summed = std::nullopt;  // behind the kernels that read it last
  };
  struct Reading {
    uint32_t round;
    std::optional<c10::Event> done;
  };
  void passes(const Exchange& exchange);
  void pass(const Pass& pass);
  bool write(const Pass& pass, int64_t offset, int64_t pitch, uint32_t round, bool wait);
  void read(const Pass& pass, const Group& group, int64_t offset, int64_t pitch);
  Group begin_group(const Pass& pass, int64_t offset);
  int64_t take_place(const Pass& pass);
  void give_places_back();
  int64_t most_staged() const;  // bytes of device memory for what comes
  void end_group(Group group, int64_t end);
  void sum_up(const Pass& pass, const Group& group);
  void settle(const Pass& pass, bool all);  // reduces the groups that have come, or all of them
  bool travels_beside(int64_t bytes) const;
  void join() noexcept;
  at::Tensor staged(int64_t place, size_t source, int64_t begin, int64_t bytes) const;
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
  const c10::Event* ready_ = nullptr;
  bool beside_ = false;       // the copies are on other streams than the stream of the exchange
  at::Tensor sum_;            // so far, of more than two ranks
  std::deque<Group> coming_;  // that are not reduced yet, of this pass
  int64_t group_bytes_ = 0;   // of a part, that are reduced at a time
  std::vector<Place> places_;
  size_t next_place_ = 0;    // if all are taken, the one that waits longest
  int64_t place_bytes_ = 0;  // that a group of this pass needs; 0: it is read where it is
};

}  // namespace aule::distributed
