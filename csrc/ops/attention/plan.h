// Plans of attention: the kernel family that serves a problem, and its sizes. Pure: a function of a profile, a problem
// and overrides, which reads no device, file or variable. test/plans/test_attention_plan.py has a table of plans.
//
//   simd            a lane owns rows, operands pass by shuffles, no barrier: software devices, head sizes to 128
//   simt            register blocks over tiles in shared memory: every device, head sizes to 512
//   splitkv         few queries over many keys: forward split along the keys, heads / kv_heads * q_len <= 16
//   splitkv_shared  the same with barriers between keys and half as fast, for devices whose push constants are few
//   coopmat         cooperative matrices of known layout, 16-bit types, head sizes to 256: asked first
//   (opaque)        the same with an unknown layout: scores pass through shared memory
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "core/device_profile.h"
#include "core/dtype.h"
#include "core/environment.h"
#include "kernels_attention.gen.h"
#include "ops/coopmat/layout.h"

namespace aule::ops {

struct AttentionProblem {
  int64_t batch = 0, heads = 0, kv_heads = 0, q_len = 0, k_len = 0, head_dim = 0, v_dim = 0;
  DType dtype = DType::f32;
  bool masked = false;            // causal or windowed
  bool ragged = false;            // sequences of their own lengths; q_len and k_len are the longest
  bool block_mask = false;        // tiles of blocks that are not kept are skipped
  bool float_bias = false;        // of numbers, but not ALiBi's: the backward has two numbers of each log-sum-exp
  bool unmodified_scores = true;  // scale * q k with scale > 0: no bias but ALiBi's, no soft cap
  bool fits_i32 = false;          // strides have 32 bits
  bool vec16b = false;            // query, key and value are 16-bit and can be loaded 16 bytes at a time
  bool int8 = false;              // keys and values are int8 with scales, which split-KV alone reads
  int64_t num_splits = 0;         // of the keys: 0: the planner chooses; 1: none, whatever the rest of the batch is
  MatrixLayout layout;            // of the device's matrices for `dtype`; not usable: plan without them
};

enum class AttentionPass : uint8_t { forward, dq, dkdv };

struct FlashSimdPlan {
  int local = 0;           // invocations of a workgroup, one subgroup
  int dim = 0, v_dim = 0;  // padded head sizes
  int lane_rows = 0;       // rows that a lane owns
  int block = 0;           // rows of a workgroup
};

struct SimtShape {
  int local = 0, lanes = 0;   // invocations of a workgroup; of them side by side in a row
  int rows = 0, columns = 0;  // of an invocation's scores
  int depth = 0, strip = 0;   // of a step: elements of the scores' operands; columns of scores for the result
  int stages = 1;             // steps in shared memory; 1: loads go straight there
  int unroll_scores = 1, unroll_result = 1;  // groups of four elements; rows
  int most = 128;                            // columns of the result of one workgroup
};
struct FlashSimtPlan {
  SimtShape shape;
  int result_columns = 0;  // of one workgroup
  int result_parts = 1;    // workgroups that share a block of rows, each with its own columns of the result
  bool shuffles = false;   // the lanes of a row are in one subgroup
  int block = 0;           // rows of a workgroup
};

struct FlashCoopMatPlan {
  bool opaque = false;     // the layout is unknown: scores pass through shared memory
  int local = 0;           // invocations of a workgroup
  int dim = 0, v_dim = 0;  // padded head sizes
  int row_blocks = 0, tile = 0, blocks_in_flight = 0, stages = 0;
  int role_split = 1;   // subgroups that share rows; 2: one has S, one dP, and each a result
  int from_global = 0;  // stationary operands come straight from memory if so many rows pass; 0: never
  int motion_barriers = 0;
  bool acc_is_a_operand = false;  // accumulators become A operands within a lane
  int block = 0;                  // rows of a workgroup
};

struct FlashSplitKvPlan {
  int local = 0;          // invocations of a workgroup
  int lanes = 0;          // of a subgroup that share keys and query rows
  int rows = 0;           // query rows of a subgroup
  int subgroups = 1;      // that have query rows of their own
  int keys_per_lane = 0;  // in flight
  int rows_per_pass = 0;  // that are combined at a time
  int splits = 1;         // workgroups that share a sequence's keys
};
struct FlashSplitKvSharedPlan {
  int local = 0, rows = 0, splits = 1;
  int combine_local = 0;  // invocations of a workgroup of flash_attn_splitkv_combine
};

using AttentionPlan =
    std::variant<FlashSimdPlan, FlashSimtPlan, FlashCoopMatPlan, FlashSplitKvPlan, FlashSplitKvSharedPlan>;

// Blocks of a mask in the list of a workgroup of the forward on matrix units: 8 KiB of shared memory.
inline constexpr int kMostListed = 2048;
inline constexpr int64_t kMaxHeadDim = 512;

// Nothing if no kernel fits the device. The override attention_variant asks for one family; one that cannot serve
// the problem is passed over.
std::optional<AttentionPlan> plan_attention(const DeviceProfile& profile, const AttentionProblem& problem,
                                            AttentionPass pass, const Overrides& overrides);
// Whether some kernel serves these head sizes: every device has room for the smallest shapes.
constexpr bool servable(int64_t head_dim, int64_t v_dim) {
  return head_dim >= 1 && head_dim <= kMaxHeadDim && v_dim >= 1 && v_dim <= kMaxHeadDim;
}

const char* family_name(const AttentionPlan& plan);
std::string text_of(const AttentionPlan& plan);  // "family member=number ..."

// The kernels of coopmat.glsl, of simt.glsl and of simd.glsl have one list of specialization constants each. Those that
// come from the plan decide their shared memory.
using CoopMatSpec = FlashAttnFwdCoopmatSpec;
using SimtSpec = FlashAttnFwdSimtSpec;
using SimdSpec = FlashAttnFwdSimdSpec;
void set_plan(CoopMatSpec& spec, const FlashCoopMatPlan& plan, const MatrixLayout& layout);
void set_plan(SimtSpec& spec, const SimtShape& shape, int result_columns);
void set_plan(FlashAttnSplitkvSharedSpec& spec, const FlashSplitKvSharedPlan& plan, const AttentionProblem& problem);
void set_plan(FlashAttnSplitkvSpec& spec, const FlashSplitKvPlan& plan, const AttentionProblem& problem,
              uint32_t cluster);

}  // namespace aule::ops
