// Attention over more keys or queries than one invocation may walk (loop_limit.h): in blocks of queries by keys. Of
// the forward's results over blocks of keys each counts by its log-sum-exp; gradients add up. Arithmetic between blocks
// is float32, and dropout draws anew for each block, in both directions alike. Sequences of a ragged batch are taken
// one by one, and for that the host reads their lengths.
#pragma once
#include "ops/attention/backward.h"

namespace aule::ops {

struct AttentionBlocks {
  int64_t queries = 0, keys = 0;  // of a block
  int64_t count = 1;              // of blocks
};
struct BlocksProblem {
  const AttentionProblem& attention;
  std::array<const AttentionPlan*, 3> plans;  // by AttentionPass
  int64_t reach = kUnbounded;                 // keys that a query sees beside one; from kUnbounded on all
  bool has_dropout = false;
};
// Pure. Blocks that every pass may walk; nothing where one row is too long.
std::optional<AttentionBlocks> plan_blocks(const Caps& caps, const BlocksProblem& problem);
// The call's; one, of everything, on devices without a limit. Raises where there is no plan.
AttentionBlocks attention_blocks(const AttentionCall& call);

// True when the call was too long and has been served; false, and nothing done, otherwise.
bool long_forward(const AttentionCall& call, const at::Tensor& out, const at::Tensor& logsumexp);
bool long_backward(const AttentionBackward& backward);
// Before make_sequences(), which then has nothing to do.
bool long_ragged_forward(const AttentionCall& call, const at::Tensor& out, const at::Tensor& logsumexp);
bool long_ragged_backward(const AttentionBackward& backward);

// One block, by the kernels.
void launch_forward_block(const AttentionCall& call, const at::Tensor& out, const at::Tensor& logsumexp);
void launch_backward_block(const AttentionBackward& backward);

}  // namespace aule::ops
