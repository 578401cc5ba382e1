#include "ops/tensor/arrivals.h"

#include <ATen/ops/zeros.h>

#include <mutex>
#include <unordered_map>

#include "ops/tensor/private_stream.h"
#include "ops/tensor/tensor_arg.h"
#include "runtime/streams.h"

namespace aule::ops {

// One tensor for all calls on a stream, since they run one after the other there. A captured graph may run on any
// stream, so the calls in one share another, which is filled while the graph is captured and not by each replay.
at::Tensor arrival_counters(const at::Tensor& like, int64_t count) {
  constexpr int64_t kKept = 4096;
  const auto ints = like.options().dtype(at::kInt);
  if (count > kKept) return at::zeros({count}, ints);
  if (at::Tensor* captured = runtime::zeros_of_capture(like.device().index())) {
    if (!captured->defined())
      on_private_stream(like.device().index(), [&] {
        *captured = at::zeros({kKept}, ints);
        runtime::finish_current_stream(like.device().index());
      });
    return *captured;
  }
  static std::mutex mutex;
  static auto& of_streams = *new std::unordered_map<const CommandStream*, at::Tensor>;  // devices are gone at exit
  const runtime::Uninterrupted whole;                                                   // with the lock
  std::lock_guard lock(mutex);
  at::Tensor& counters = of_streams[&current(like)];
  if (!counters.defined()) counters = at::zeros({kKept}, ints);
  return counters;
}

}  // namespace aule::ops
