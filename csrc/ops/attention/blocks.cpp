#include "ops/attention/blocks.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>

#include "ops/tensor/loop_limit.h"
#include "runtime/streams.h"

namespace aule::ops {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Iterations that the family simt makes for one tile of columns (simt.glsl), with the smallest workgroup.
uint64_t tile_walk(const FlashSimtPlan& plan, const AttentionProblem& problem, AttentionPass pass) {
  const auto count = [](int value) { return static_cast<uint64_t>(value); };
  const SimtShape& tiles = plan.shape;
  const uint64_t lanes = count(tiles.lanes), columns = count(tiles.columns), depth = count(tiles.depth),
                 strip = count(tiles.strip), stages = count(tiles.stages), unroll_scores = count(tiles.unroll_scores),
                 unroll_result = count(tiles.unroll_result), local = 4 * lanes, rows = count(tiles.rows);
  const uint64_t chunks = depth / 4,
                 loads = ceil_div(4 * rows * chunks, local) + ceil_div(columns * lanes * chunks, local);
  const uint64_t step = 1 + chunks / unroll_scores + (stages == 1 ? loads : 0);
  const uint64_t wide = strip * lanes,
                 strip_loads = ceil_div(wide * static_cast<uint64_t>(plan.result_columns) / 4, local);
  const uint64_t result = columns / strip * (1 + wide / unroll_result + (stages == 1 ? strip_loads : 0));
  const uint64_t scores = ceil_div(static_cast<uint64_t>(problem.head_dim), depth) * step,
                 values = ceil_div(static_cast<uint64_t>(problem.v_dim), depth) * step;
  switch (pass) {
    case AttentionPass::forward: return 1 + scores + result;
    case AttentionPass::dq: return 1 + scores + values + result;
    default: return 1 + scores + values + 2 * result;
  }
}

const AttentionPlan& plan_of(const BlocksProblem& problem, AttentionPass pass) {
  return *problem.plans[static_cast<size_t>(pass)];
}

// Iterations for `length` keys, in dK/dV queries of all heads that share a key head.
uint64_t walk(const BlocksProblem& problem, AttentionPass pass, uint64_t length) {
  uint64_t iterations = length;
  if (const auto* simt = std::get_if<FlashSimtPlan>(&plan_of(problem, pass))) {
    const auto width = static_cast<uint64_t>(simt->shape.lanes * simt->shape.columns);
    iterations = (ceil_div(length, width) + 1) * tile_walk(*simt, problem.attention, pass);
  }
  if (problem.attention.mask.has_blocks()) iterations *= 2;  // the mask is read on the way
  return problem.has_dropout ? iterations + iterations / 2 + 64 : iterations;
}

int block_rows(const AttentionPlan& plan) {
  return std::visit(
      [](const auto& p) {
        if constexpr (requires { p.block; })
          return p.block;
        else
          return 0;
      },
      plan);
}

// As many of `all` rows as may be walked, where `per_row` heads are walked one after the other.
std::optional<int64_t> rows_within(const Caps& caps, const BlocksProblem& problem, AttentionPass pass, int64_t all,
                                   int64_t per_row) {
  const auto fits = [&](int64_t rows) {
    return may_walk(caps, walk(problem, pass, static_cast<uint64_t>(rows * per_row)));
  };
  // A block sees what its windows reach, however long the sequence is.
  if (problem.reach < kUnbounded && !problem.attention.ragged) {
    const int64_t seen = problem.reach + 1 + 2 * block_rows(plan_of(problem, pass));
    if (seen < all && fits(seen)) return all;
  }
  int64_t rows = all;
  while (rows > 1 && !fits(rows)) rows = ceil_div(rows, 2);
  if (!fits(rows)) return {};
  return rows;
}

at::Tensor block_mask_of_elements(const AttentionCall& call, int64_t q0, int64_t queries, int64_t k0, int64_t keys) {
  const AttentionMask& mask = call.problem.mask;
  const auto ints = call.mask.options().dtype(at::kLong);
  const at::Tensor rows = at::arange(q0, q0 + queries, ints).div_(mask.block_q, "floor"),
                   columns = at::arange(k0, k0 + keys, ints).div_(mask.block_k, "floor");
  return call.mask.index_select(2, rows).index_select(3, columns);
}

// A block of the call: `queries` rows from `q0` on, `keys` from `k0` on, operands as `wide` makes them.
template <class Wide>
AttentionCall block_of(const AttentionCall& call, int64_t q0, int64_t queries, int64_t k0, int64_t keys,
                       const Wide& wide) {
  AttentionCall part = call;
  part.query = wide(call.query.narrow(2, q0, queries));
  part.key = wide(call.key.narrow(2, k0, keys));
  part.value = wide(call.value.narrow(2, k0, keys));
  if (call.problem.mask.has_blocks()) {  // blocks are cut anywhere: a mask of elements
    part.mask = block_mask_of_elements(call, q0, queries, k0, keys);
    part.problem.mask = {AttentionMask::Kind::boolean};
  } else if (call.mask.defined()) {
    part.mask = call.mask.narrow(2, q0, queries).narrow(3, k0, keys);
  }
  part.problem.q_len = queries;
  part.problem.k_len = keys;
  part.problem.dtype = dtype_of(part.query, call.op);
  part.diagonal = static_cast<int>(call.diagonal + q0 - k0);
  describe_operands(part);
  return part;
}

at::Tensor as_float(const at::Tensor& t) { return t.to(at::kFloat); }

template <class Visit>
void each_block(const AttentionCall& call, const AttentionBlocks& blocks, const Visit& visit) {
  uint64_t index = 0;
  for (int64_t q0 = 0; q0 < call.problem.q_len; q0 += blocks.queries)
    for (int64_t k0 = 0; k0 < call.problem.k_len; k0 += blocks.keys)
      visit(q0, std::min(blocks.queries, call.problem.q_len - q0), k0, std::min(blocks.keys, call.problem.k_len - k0),
            call.philox.offset + 4 * index++);
}

// Two results over different keys, put together in place of the first.
void merge(const at::Tensor& out, const at::Tensor& logsumexp, const at::Tensor& more, const at::Tensor& more_lse) {
  const at::Tensor both = at::logaddexp(logsumexp, more_lse);
  const at::Tensor reference = both.masked_fill(both.eq(-kInfinity), 0);  // nothing seen yet: weights of 0
  out.mul_(logsumexp.sub(reference).exp_().unsqueeze(-1));
  out.add_(more.mul(more_lse.sub(reference).exp_().unsqueeze(-1)));
  logsumexp.copy_(both);
}

void forward_in_blocks(const AttentionCall& call, const AttentionBlocks& blocks, const at::Tensor& out,
                       const at::Tensor& logsumexp) {
  const bool whole_rows = blocks.keys >= call.problem.k_len;
  const auto wide = [&](const at::Tensor& t) { return whole_rows ? t : as_float(t); };
  const auto floats = call.query.options().dtype(at::kFloat);
  at::Tensor sum, sum_lse;
  each_block(call, blocks, [&](int64_t q0, int64_t queries, int64_t k0, int64_t keys, uint64_t offset) {
    AttentionCall part = block_of(call, q0, queries, k0, keys, wide);
    part.philox.offset = offset;
    const at::Tensor rows = at::empty({out.size(0), out.size(1), queries, out.size(3)}, part.query.options()),
                     lse = at::empty({out.size(0), out.size(1), queries}, floats);
    launch_forward_block(part, rows, lse);
    if (k0 == 0) {
      sum = rows;
      sum_lse = lse;
    } else {
      merge(sum, sum_lse, rows, lse);
    }
    if (k0 + keys < call.problem.k_len) return;
    out.narrow(2, q0, queries).copy_(sum);
    logsumexp.view({out.size(0), out.size(1), -1}).narrow(2, q0, queries).copy_(sum_lse);
  });
}

void backward_in_blocks(const AttentionBackward& b, const AttentionBlocks& blocks) {
  const AttentionCall& call = b.call;
  const auto floats = call.query.options().dtype(at::kFloat);
  const int64_t batch = b.out.size(0), heads = b.out.size(1), q_len = call.problem.q_len;
  // 16 bits round the output, and so delta: it is made once more.
  at::Tensor out = b.out, logsumexp = b.logsumexp.view({batch, heads, q_len});
  if (call.problem.dtype != DType::f32) {
    out = at::empty(b.out.sizes(), floats);
    logsumexp = at::empty(logsumexp.sizes(), floats);
    forward_in_blocks(block_of(call, 0, q_len, 0, call.problem.k_len, as_float), blocks, out, logsumexp);
  }
  const at::Tensor grad_query = at::zeros(b.grad_query.sizes(), floats),
                   grad_key = at::zeros(b.grad_key.sizes(), floats),
                   grad_value = at::zeros(b.grad_value.sizes(), floats);
  each_block(call, blocks, [&](int64_t q0, int64_t queries, int64_t k0, int64_t keys, uint64_t offset) {
    AttentionCall part = block_of(call, q0, queries, k0, keys, as_float);
    part.philox.offset = offset;
    const auto rows = [&](const at::Tensor& t) { return t.narrow(2, q0, queries); };
    AttentionBackward block{part, as_float(rows(b.grad_out)), rows(out), rows(logsumexp).contiguous(), {}, {}, {}, {},
                            {}};
    if (b.grad_logsumexp.defined()) block.grad_logsumexp = rows(b.grad_logsumexp.view(logsumexp.sizes())).contiguous();
    block.grad_query = at::empty(part.query.sizes(), floats);
    block.grad_key = at::empty(part.key.sizes(), floats);
    block.grad_value = at::empty(part.value.sizes(), floats);
    if (b.grad_bias.defined()) block.grad_bias = at::zeros({batch, heads, queries, keys}, floats);
    block.whole_rows = keys == call.problem.k_len;
    launch_backward_block(block);
    rows(grad_query).add_(block.grad_query);
    grad_key.narrow(2, k0, keys).add_(block.grad_key);
    grad_value.narrow(2, k0, keys).add_(block.grad_value);
    if (b.grad_bias.defined()) rows(b.grad_bias).narrow(3, k0, keys).copy_(block.grad_bias);
  });
  b.grad_query.copy_(grad_query);
  b.grad_key.copy_(grad_key);
  b.grad_value.copy_(grad_value);
}

// One sequence of a ragged batch: its first query, queries, first key, keys (sequences.glsl).
struct Sequence {
  int64_t batch, first_query, queries, first_key, keys;
};

std::vector<Sequence> host_sequences(const AttentionCall& call) {
  TORCH_CHECK_NOT_IMPLEMENTED(!runtime::is_capturing(call.query.device().index()), call.op,
                              ": sequences that are longer than this device's driver lets a loop be (",
                              longest_walk(caps_of(call.query)), " keys) cannot be captured in a graph");
  const RaggedBatch& ragged = call.ragged;
  const auto read = [](const at::Tensor& list) { return list.defined() ? list.to(at::kCPU) : list; };
  const at::Tensor cu_q = read(ragged.cu_seq_q), cu_k = read(ragged.cu_seq_k), used = read(ragged.seqused_k);
  const auto at = [](const at::Tensor& list, int64_t i) { return int64_t{list.const_data_ptr<int>()[i]}; };
  const int64_t q_len = call.problem.q_len;
  std::vector<Sequence> sequences;
  for (int64_t b = 0; b < call.problem.batch; ++b) {
    Sequence s{b, b * q_len, q_len, 0, ragged.total_k};
    if (cu_q.defined()) {
      s.first_query = std::clamp<int64_t>(at(cu_q, b), 0, ragged.total_q);
      s.queries =
          std::clamp(at(cu_q, b + 1), s.first_query, std::min(s.first_query + q_len, ragged.total_q)) - s.first_query;
    }
    if (cu_k.defined()) {
      s.first_key = std::clamp<int64_t>(at(cu_k, b), 0, ragged.total_k);
      s.keys = std::clamp(at(cu_k, b + 1), s.first_key, ragged.total_k) - s.first_key;
    }
    if (used.defined()) s.keys = std::clamp<int64_t>(at(used, b), 0, s.keys);
    if (s.queries > 0 && s.keys > 0) sequences.push_back(s);
  }
  return sequences;
}

// The keys or values of a sequence as [1, Hkv, keys, D].
at::Tensor rows_of(const AttentionCall& call, const at::Tensor& cache, const Sequence& s) {
  const at::Tensor& pages = call.ragged.pages;
  if (!pages.defined()) {
    const at::Tensor own = cache.size(0) == 1 ? cache : cache.narrow(0, s.batch, 1);
    return own.narrow(2, s.first_key, s.keys);
  }
  const int64_t rows = cache.size(2), count = ceil_div(s.keys, rows);
  const at::Tensor list = pages.select(0, s.batch).narrow(0, 0, count).clamp(0, cache.size(0) - 1);
  return at::index_select(cache, 0, list)
      .transpose(0, 1)
      .reshape({1, cache.size(1), count * rows, cache.size(3)})
      .narrow(2, 0, s.keys);
}

AttentionCall call_of(const AttentionCall& call, const Sequence& s) {
  AttentionCall one = call;
  one.ragged = {};
  one.query = call.query.narrow(2, s.first_query, s.queries);
  one.key = rows_of(call, call.key, s);
  one.value = rows_of(call, call.value, s);
  if (call.problem.mask.kind == AttentionMask::Kind::alibi)
    one.mask = call.mask.narrow(0, s.batch, 1).narrow(2, 0, 1).narrow(3, 0, 1).expand({1, -1, s.queries, s.keys});
  one.problem.batch = 1;
  one.problem.q_len = s.queries;
  one.problem.k_len = s.keys;
  one.problem.ragged = false;
  one.diagonal = static_cast<int>(s.keys - s.queries);
  describe_operands(one);
  return one;
}

}  // namespace

std::optional<AttentionBlocks> plan_blocks(const Caps& caps, const BlocksProblem& given) {
  const AttentionProblem& problem = given.attention;
  const auto forward = rows_within(caps, given, AttentionPass::forward, problem.k_len, 1),
             dq = rows_within(caps, given, AttentionPass::dq, problem.k_len, 1),
             dkdv = rows_within(caps, given, AttentionPass::dkdv, problem.q_len, problem.heads / problem.kv_heads);
  if (!forward || !dq || !dkdv) return {};
  AttentionBlocks blocks{*dkdv, std::min(*forward, *dq), 1};
  blocks.count =
      static_cast<int64_t>(ceil_div(static_cast<uint64_t>(problem.q_len), static_cast<uint64_t>(blocks.queries)) *
                           ceil_div(static_cast<uint64_t>(problem.k_len), static_cast<uint64_t>(blocks.keys)));
  return blocks;
}

AttentionBlocks attention_blocks(const AttentionCall& call) {
  const AttentionProblem& problem = call.problem;
  const Caps& caps = caps_of(call.query);
  if (!walks_limited(caps) || problem.kv_heads == 0 || problem.q_len == 0 || problem.k_len == 0)
    return {problem.q_len, problem.k_len, 1};
  const BlocksProblem given{
      problem,
      {&plan_of(call, AttentionPass::forward), &plan_of(call, AttentionPass::dq), &plan_of(call, AttentionPass::dkdv)},
      int64_t{call.left} + call.right,
      call.dropout_steps > 0};
  const auto blocks = plan_blocks(caps, given);
  TORCH_CHECK_NOT_IMPLEMENTED(blocks.has_value(), call.op, ": heads of ", problem.head_dim, " and ", problem.v_dim,
                              ", ", problem.heads / problem.kv_heads, " to a key head, need a longer loop than the ",
                              caps.max_loop_iterations, " iterations after which this device's driver ends loops (",
                              caps.driver_name, " ", caps.driver_info, ")");
  return *blocks;
}

bool long_forward(const AttentionCall& call, const at::Tensor& out, const at::Tensor& logsumexp) {
  const AttentionBlocks blocks = attention_blocks(call);
  // Queries are cut for the backward: without dropout the forward need not know.
  const bool whole = blocks.keys >= call.problem.k_len && (call.dropout_steps == 0 || blocks.count == 1);
  if (!whole) forward_in_blocks(call, blocks, out, logsumexp);
  return !whole;
}

bool long_backward(const AttentionBackward& backward) {
  const AttentionBlocks blocks = attention_blocks(backward.call);
  if (blocks.count > 1) backward_in_blocks(backward, blocks);
  return blocks.count > 1;
}

bool long_ragged_forward(const AttentionCall& call, const at::Tensor& out, const at::Tensor& logsumexp) {
  if (attention_blocks(call).keys >= call.problem.k_len) return false;
  const std::vector<Sequence> sequences = host_sequences(call);
  out.zero_();
  logsumexp.fill_(-kInfinity);
  const at::Tensor all = logsumexp.view({1, call.problem.heads, -1});
  for (const Sequence& s : sequences) {
    const at::Tensor lse = at::empty({1, call.problem.heads, s.queries}, all.options()),
                     rows = out.narrow(2, s.first_query, s.queries);
    const AttentionCall one = call_of(call, s);
    if (!long_forward(one, rows, lse)) launch_forward_block(one, rows, lse);
    all.narrow(2, s.first_query, s.queries).copy_(lse);
  }
  return true;
}

bool long_ragged_backward(const AttentionBackward& b) {
  if (attention_blocks(b.call).count == 1) return false;
  const std::vector<Sequence> sequences = host_sequences(b.call);
  for (const at::Tensor& grad : {b.grad_query, b.grad_key, b.grad_value}) grad.zero_();
  const at::Tensor all = b.logsumexp.view({1, b.call.problem.heads, -1});
  for (const Sequence& s : sequences) {
    const auto queries = [&](const at::Tensor& t) { return t.narrow(2, s.first_query, s.queries); };
    const auto keys = [&](const at::Tensor& t) { return t.narrow(2, s.first_key, s.keys); };
    const AttentionCall one = call_of(b.call, s);
    const AttentionBackward part{one, queries(b.grad_out),   queries(b.out),   queries(all).contiguous(),
                                 {},  queries(b.grad_query), keys(b.grad_key), keys(b.grad_value),
                                 {}};
    if (!long_backward(part)) launch_backward_block(part);
  }
  return true;
}

}  // namespace aule::ops
