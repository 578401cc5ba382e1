// Backward in five products instead of seven: the pass for dK and dV stores dS, of which dQ = dS K is then a plain
// product.
//
// A pair of queries and keys costs 2 bytes, so the heads go through a workspace of bounded size in chunks. It has two
// halves: while dQ reads one, dK and dV of the next chunk write the other.
#pragma once
#include "ops/attention/call.h"

namespace aule::ops {

struct StoredScores {
  int64_t heads = 0;       // key heads of a chunk; 0: not served, or too little memory
  int64_t head_bytes = 0;  // of a key head: dS of all its query heads
  int halves = 2;
  int key_blocks = 0;                    // of the matrix's rows
  bool pairs = false, triangle = false;  // of StoredScoresMode
  FlashCoopMatPlan dq;                   // of flash_attn_bwd_dq_stored; v_dim is its block of queries
};

// The override attention_workspace, in MiB, is the most that it takes; 0: none, dQ computes S and dS again.
StoredScores plan_stored_scores(const AttentionCall& call, const FlashCoopMatPlan& dq, const FlashCoopMatPlan& dkdv,
                                const Overrides& overrides);
// The workspace, one tensor per half; none when memory is short, and later calls then ask for less.
std::vector<at::Tensor> stored_scores_workspace(const AttentionCall& call, StoredScores& plan);

}  // namespace aule::ops
