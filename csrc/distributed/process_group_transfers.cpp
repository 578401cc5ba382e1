// Collectives that move elements and do no arithmetic: gloo sees bytes, so any dtype goes.
#include <functional>
#include <numeric>

#include "distributed/checks.h"
#include "distributed/layout.h"
#include "distributed/process_group.h"

namespace aule::distributed {
namespace {

using Tensors = std::vector<at::Tensor>;

int64_t bytes_of(const at::Tensor& t) { return t.numel() * static_cast<int64_t>(t.element_size()); }

// The blocks of a buffer, one for each rank.
Tensors blocks_of(const at::Tensor& buffer, int ranks) {
  Tensors blocks;
  const int64_t bytes = buffer.numel() / ranks;
  for (int rank = 0; rank < ranks; ++rank) blocks.push_back(buffer.narrow(0, rank * bytes, bytes));
  return blocks;
}

using Start = std::function<c10::intrusive_ptr<c10d::Work>(c10d::Backend&)>;

// Gloo's part of a gathering on all ranks.
Start gathering(const at::Tensor& sent, const at::Tensor& received, const c10d::AllgatherOptions& opts) {
  return [sent, received, opts](c10d::Backend& gloo) -> c10::intrusive_ptr<c10d::Work> {
    if (sent.numel() == 0) return {};
    at::Tensor output = received, input = sent;
    return gloo._allgather_base(output, input, opts);
  };
}

// Gloo's part of an exchange: bytes of each rank.
Start exchanging(const at::Tensor& sent, const at::Tensor& received, std::vector<int64_t> to, std::vector<int64_t> from,
                 const c10d::AllToAllOptions& opts) {
  return [sent, received, to, from, opts](c10d::Backend& gloo) mutable {
    at::Tensor all = received, mine = sent;
    return gloo.alltoall_base(all, mine, from, to, opts);
  };
}

// Rows of the first dimension as bytes.
std::vector<int64_t> in_bytes(const std::vector<int64_t>& splits, const at::Tensor& t, int ranks, const char* which) {
  const int64_t rows = t.dim() == 0 ? 1 : t.size(0);
  const int64_t row = rows == 0 ? 0 : bytes_of(t) / rows;
  if (splits.empty()) {
    TORCH_CHECK(rows % ranks == 0, "all_to_all_single: the first dimension of the ", which, ", ", rows,
                ", is not a multiple of the group's size, ", ranks);
    return std::vector<int64_t>(static_cast<size_t>(ranks), rows / ranks * row);
  }
  TORCH_CHECK(
      static_cast<int>(splits.size()) == ranks && std::accumulate(splits.begin(), splits.end(), int64_t{0}) == rows,
      "all_to_all_single: expected ", ranks, " split sizes of the ", which, " that add up to ", rows);
  std::vector<int64_t> bytes;
  for (const int64_t split : splits) bytes.push_back(split * row);
  return bytes;
}

}  // namespace

c10::intrusive_ptr<c10d::Work> ProcessGroupAule::broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) {
  if (!on_device(tensors)) return on_host(&c10d::Backend::broadcast, tensors, opts);
  check_one("broadcast", tensors);
  check_results("broadcast", tensors);
  const Layout layout(place(), tensors, 1);
  const at::Tensor buffer = layout.buffer(1, tensors);
  Call call{.name = "broadcast", .type = c10d::OpType::BROADCAST, .outputs = tensors};
  (opts.rootRank == rank_ ? call.reads : call.writes) = layout.parts(tensors, buffer);
  call.exchange =
      exchange(Exchange::Kind::broadcast, buffer, buffer, layout.block_bytes(), opts.timeout, opts.rootRank);
  if (!call.exchange)
    call.start = [buffer, opts](c10d::Backend& gloo) -> WorkPtr {
      if (buffer.numel() == 0) return {};
      Tensors one{buffer};
      return gloo.broadcast(one, opts);
    };
  return submit(std::move(call), tensors[0].device());
}

c10::intrusive_ptr<c10d::Work> ProcessGroupAule::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                                           const c10d::AllgatherOptions& opts) {
  if (!on_device(inputs)) return on_host(&c10d::Backend::allgather, outputs, inputs, opts);
  check_one("all_gather", inputs);
  check_one_list("all_gather", outputs, size_);
  std::vector<Tensors> lists;
  for (const at::Tensor& output : outputs[0]) lists.push_back({output});
  return allgather_coalesced(lists, inputs, opts);
}

c10::intrusive_ptr<c10d::Work> ProcessGroupAule::allgather_coalesced(std::vector<Tensors>& lists, Tensors& inputs,
                                                                     const c10d::AllgatherOptions& opts) {
  constexpr const char* kName = "all_gather";
  if (!on_device(inputs)) return on_host(&c10d::Backend::allgather_coalesced, lists, inputs, opts);
  check_tensors(kName, inputs);
  TORCH_CHECK(static_cast<int>(lists.size()) == size_, kName, ": expected outputs for ", size_, " ranks, got ",
              lists.size());
  const Layout layout(place(), inputs, 1);
  const at::Tensor sent = layout.buffer(1, inputs), received = layout.buffer(size_);
  Call call{.name = kName, .type = c10d::OpType::ALLGATHER, .reads = layout.parts(inputs, sent)};
  for (int rank = 0; rank < size_; ++rank) {
    const Tensors& list = lists[static_cast<size_t>(rank)];
    TORCH_CHECK(list.size() == inputs.size(), kName, ": expected as many outputs as inputs");
    check_results(kName, list);
    for (size_t i = 0; i < list.size(); ++i) {
      check_elements(kName, list[i], inputs[i].numel(), inputs[i].scalar_type());
      call.writes.push_back({list[i], {layout.share(received, i, rank)}});
      call.outputs.push_back(list[i]);
    }
  }
  call.exchange = exchange(Exchange::Kind::all_gather, sent, received, layout.block_bytes(), opts.timeout);
  if (!call.exchange) call.start = gathering(sent, received, opts);
  return submit(std::move(call), inputs[0].device());
}

c10::intrusive_ptr<c10d::Work> ProcessGroupAule::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                                 const c10d::AllgatherOptions& opts) {
  if (!on_device({input})) return on_host(&c10d::Backend::_allgather_base, output, input, opts);
  Tensors outputs{output}, inputs{input};
  return allgather_into_tensor_coalesced(outputs, inputs, opts);
}

c10::intrusive_ptr<c10d::Work> ProcessGroupAule::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                                                 const c10d::AllgatherOptions& opts) {
  constexpr const char* kName = "all_gather_into_tensor";
  if (!on_device(inputs)) return on_host(&c10d::Backend::allgather_into_tensor_coalesced, outputs, inputs, opts);
  check_tensors(kName, inputs);
  check_results(kName, outputs);
  TORCH_CHECK(outputs.size() == inputs.size(), kName, ": expected as many outputs as inputs");
  for (size_t i = 0; i < inputs.size(); ++i)
    check_elements(kName, outputs[i], inputs[i].numel() * size_, inputs[i].scalar_type());
  const Layout mine(place(), inputs, 1), all(place(), outputs, size_);
  const at::Tensor sent = mine.buffer(1, inputs), received = all.buffer(size_, outputs);
  Call call{.name = kName,
            .type = c10d::OpType::_ALLGATHER_BASE,
            .reads = mine.parts(inputs, sent),
            .writes = all.parts(outputs, received),
            .outputs = outputs};
  call.exchange = exchange(Exchange::Kind::all_gather, sent, received, mine.block_bytes(), opts.timeout);
  if (!call.exchange) call.start = gathering(sent, received, opts);
  return submit(std::move(call), inputs[0].device());
}

c10::intrusive_ptr<c10d::Work> ProcessGroupAule::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                                                        const c10d::GatherOptions& opts) {
  if (!on_device(inputs)) return on_host(&c10d::Backend::gather, outputs, inputs, opts);
  check_one("gather", inputs);
  check_tensors("gather", inputs);
  const Layout layout(place(), inputs, 1);
  const at::Tensor sent = layout.buffer(1, inputs);
  Call call{.name = "gather", .type = c10d::OpType::GATHER, .reads = layout.parts(inputs, sent)};
  std::vector<Tensors> lists;
  at::Tensor received;
  if (opts.rootRank == rank_) {
    check_one_list("gather", outputs, size_);
    check_results("gather", outputs[0]);
    received = layout.buffer(size_);
    for (int rank = 0; rank < size_; ++rank) {
      const at::Tensor& output = outputs[0][static_cast<size_t>(rank)];
      check_elements("gather", output, inputs[0].numel(), inputs[0].scalar_type());
      call.writes.push_back({output, {layout.share(received, 0, rank)}});
    }
    call.outputs = outputs[0];
    lists.push_back(blocks_of(received, size_));
  }
  call.exchange = exchange(Exchange::Kind::gather, sent, received, layout.block_bytes(), opts.timeout, opts.rootRank);
  if (!call.exchange)
    call.start = [sent, lists, opts](c10d::Backend& gloo) mutable -> WorkPtr {
      if (sent.numel() == 0) return {};
      Tensors one{sent};
      return gloo.gather(lists, one, opts);
    };
  return submit(std::move(call), inputs[0].device());
}

c10::intrusive_ptr<c10d::Work> ProcessGroupAule::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                                         const c10d::ScatterOptions& opts) {
  if (!on_device(outputs)) return on_host(&c10d::Backend::scatter, outputs, inputs, opts);
  check_one("scatter", outputs);
  check_results("scatter", outputs);
  const Layout layout(place(), outputs, 1);
  const at::Tensor received = layout.buffer(1, outputs);
  Call call{
      .name = "scatter", .type = c10d::OpType::SCATTER, .writes = layout.parts(outputs, received), .outputs = outputs};
  std::vector<Tensors> lists;
  at::Tensor sent;
  if (opts.rootRank == rank_) {
    check_one_list("scatter", inputs, size_);
    check_tensors("scatter", inputs[0]);
    sent = layout.buffer(size_);
    for (int rank = 0; rank < size_; ++rank) {
      const at::Tensor& input = inputs[0][static_cast<size_t>(rank)];
      check_elements("scatter", input, outputs[0].numel(), outputs[0].scalar_type());
      call.reads.push_back({input, {layout.share(sent, 0, rank)}});
    }
    lists.push_back(blocks_of(sent, size_));
  }
  call.exchange = exchange(Exchange::Kind::scatter, sent, received, layout.block_bytes(), opts.timeout, opts.rootRank);
  if (!call.exchange)
    call.start = [received, lists, opts](c10d::Backend& gloo) mutable -> WorkPtr {
      if (received.numel() == 0) return {};
      Tensors one{received};
      return gloo.scatter(one, lists, opts);
    };
  return submit(std::move(call), outputs[0].device());
}

c10::intrusive_ptr<c10d::Work> ProcessGroupAule::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                               std::vector<int64_t>& output_splits,
                                                               std::vector<int64_t>& input_splits,
                                                               const c10d::AllToAllOptions& opts) {
  constexpr const char* kName = "all_to_all_single";
  if (!on_device({input}))
    return on_host(&c10d::Backend::alltoall_base, output, input, output_splits, input_splits, opts);
  check_tensors(kName, {input, output});
  check_results(kName, {output});
  check_one_dtype(kName, {input, output});
  const Layout in(Place::host, {input}, 1), out(Place::host, {output}, 1);
  const at::Tensor sent = in.buffer(1), received = out.buffer(1);
  Call call{.name = kName,
            .type = c10d::OpType::ALLTOALL_BASE,
            .reads = {in.part(input, sent, 0)},
            .writes = {out.part(output, received, 0)},
            .outputs = {output}};
  call.start = exchanging(sent, received, in_bytes(input_splits, input, size_, "input"),
                          in_bytes(output_splits, output, size_, "output"), opts);
  return submit(std::move(call), input.device());
}

c10::intrusive_ptr<c10d::Work> ProcessGroupAule::alltoall(Tensors& outputs, Tensors& inputs,
                                                          const c10d::AllToAllOptions& opts) {
  if (!on_device(inputs)) return on_host(&c10d::Backend::alltoall, outputs, inputs, opts);
  TORCH_CHECK(static_cast<int>(inputs.size()) == size_ && static_cast<int>(outputs.size()) == size_,
              "all_to_all: expected ", size_, " inputs and outputs, got ", inputs.size(), " and ", outputs.size());
  check_tensors("all_to_all", inputs);
  check_results("all_to_all", outputs);
  check_one_dtype("all_to_all", inputs);
  check_one_dtype("all_to_all", {inputs[0], outputs[0]});
  check_one_dtype("all_to_all", outputs);
  const Layout in(Place::host, inputs, 1), out(Place::host, outputs, 1);
  const at::Tensor sent = in.buffer(1), received = out.buffer(1);
  std::vector<int64_t> to, from;
  for (const at::Tensor& t : inputs) to.push_back(bytes_of(t));
  for (const at::Tensor& t : outputs) from.push_back(bytes_of(t));
  Call call{.name = "all_to_all",
            .type = c10d::OpType::ALLTOALL,
            .reads = in.parts(inputs, sent),
            .writes = out.parts(outputs, received),
            .outputs = outputs};
  call.start = exchanging(sent, received, std::move(to), std::move(from), opts);
  return submit(std::move(call), inputs[0].device());
}

c10::intrusive_ptr<c10d::Work> ProcessGroupAule::send(Tensors& tensors, int to, int tag) {
  if (!on_device(tensors)) return on_host(&c10d::Backend::send, tensors, to, tag);
  check_one("send", tensors);
  check_tensors("send", tensors);
  const Layout layout(Place::host, tensors, 1);
  const at::Tensor buffer = layout.buffer(1);
  Call call{.name = "send", .type = c10d::OpType::SEND, .reads = layout.parts(tensors, buffer)};
  call.one_peer = true;
  call.start = [buffer, to, tag](c10d::Backend& gloo) {
    Tensors one{buffer};
    return gloo.send(one, to, tag);
  };
  return submit(std::move(call), tensors[0].device());
}

c10::intrusive_ptr<c10d::Work> ProcessGroupAule::receive(Tensors& tensors, c10d::OpType type, int from, int tag) {
  check_one("recv", tensors);
  check_results("recv", tensors);
  const Layout layout(Place::host, tensors, 1);
  const at::Tensor buffer = layout.buffer(1);
  Call call{.name = "recv", .type = type, .writes = layout.parts(tensors, buffer), .outputs = tensors};
  call.one_peer = true;
  call.start = [buffer, type, from, tag](c10d::Backend& gloo) {
    Tensors one{buffer};
    return type == c10d::OpType::RECV ? gloo.recv(one, from, tag) : gloo.recvAnysource(one, tag);
  };
  return submit(std::move(call), tensors[0].device());
}

c10::intrusive_ptr<c10d::Work> ProcessGroupAule::recv(Tensors& tensors, int from, int tag) {
  if (!on_device(tensors)) return on_host(&c10d::Backend::recv, tensors, from, tag);
  return receive(tensors, c10d::OpType::RECV, from, tag);
}

c10::intrusive_ptr<c10d::Work> ProcessGroupAule::recvAnysource(Tensors& tensors, int tag) {
  if (!on_device(tensors)) return on_host(&c10d::Backend::recvAnysource, tensors, tag);
  return receive(tensors, c10d::OpType::RECVANYSOURCE, -1, tag);
}

}  // namespace aule::distributed
