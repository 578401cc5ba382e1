// Which attention kernel serves a problem, and how it is cut up. Pure: shapes and capabilities in, a plan out.
//
// rows   a lane owns rows, operands pass by subgroup shuffles, no barrier: CPU devices (lavapipe), head sizes to 128
// tiles  tiles staged in shared memory, register blocks: every device, head sizes to 512
// Kernels with matrix units come as further families: a row here, asked first.
#pragma once
#include <cstdint>

#include "kernels/caps.h"
#include "kernels/dtype.h"

namespace aule::ops {

struct AttentionProblem {
  int64_t batch = 0, heads = 0, kv_heads = 0, q_len = 0, k_len = 0, head_dim = 0, v_dim = 0;
  DType dtype = DType::f32;
};

enum class AttentionPass : uint8_t { forward, dq, dkdv };
enum class AttentionFamily : uint8_t { none, rows, tiles };

struct AttentionPlan {
  AttentionFamily family = AttentionFamily::none;
  int local = 0;        // invocations of a workgroup
  int dim = 0, v_dim = 0;  // rows: padded head sizes
  int columns = 0;         // tiles: columns of the result of one workgroup
  int rows = 0;         // rows of a lane
  int block = 0;        // rows of a workgroup
  int splits = 1;       // workgroups that share a block of rows, each with its own columns of the result
};

inline constexpr int64_t kMaxHeadDim = 512;

// AULE_ATTENTION_VARIANT=rows|tiles asks for one family; a family that cannot serve the problem is passed over.
AttentionPlan attention_plan(const Caps& caps, const AttentionProblem& problem, AttentionPass pass);
const char* attention_family_name(AttentionFamily family);

}  // namespace aule::ops
