// Backward in five products instead of seven: the pass for dK and dV writes dS to a workspace, and dQ = dS K is a plain
// product of it.
//
// A pair of queries and keys costs 2 bytes, so the heads go through a workspace of bounded size in chunks. It has two
// halves: while dQ reads one, dK and dV of the next chunk write the other.
#pragma once
#include "ops/attention/call.h"

namespace aule::ops {

struct DsWorkspacePlan {
  int64_t heads = 0;       // key heads of a chunk, at least 1
  int64_t head_bytes = 0;  // of a key head: dS of all its query heads
  int halves = 2;
  int key_blocks = 0;                    // of the matrix's rows
  bool pairs = false, triangle = false;  // of DsMode
  FlashCoopMatPlan dq;                   // of flash_attn_bwd_dq_from_ds; v_dim is its block of queries
};

struct DsWorkspaceProblem {
  const AttentionProblem& attention;
  const FlashCoopMatPlan &dq, &dkdv;  // plans of the passes that compute S and dS again
  bool is_lower_triangle = false;     // causal without an offset, as many queries as keys
  int64_t failed_bytes = 0;           // of the last workspace whose allocation failed, 0 if none has
};
DsWorkspaceProblem ds_workspace_problem(const AttentionCall& call, const FlashCoopMatPlan& dq,
                                        const FlashCoopMatPlan& dkdv);

// Pure. Nothing if dQ is to compute S and dS again: no kernel serves the problem, or one key head is larger than the
// workspace may be. The override attention_workspace is the most that it takes, in MiB; 0: none; negative: the planner
// decides, and takes 1/64 of the device's memory, at most 2 GiB.
std::optional<DsWorkspacePlan> plan_ds_workspace(const DeviceProfile& profile, const DsWorkspaceProblem& problem,
                                                 const Overrides& overrides);
std::string text_of(const DsWorkspacePlan& plan);  // "member=number ... dq of its kernel"
// The workspace, one tensor per half; none if memory is short. Later calls then ask for less.
std::vector<at::Tensor> allocate_ds_workspace(const AttentionCall& call, const DsWorkspacePlan& plan);

}  // namespace aule::ops
