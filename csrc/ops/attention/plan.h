// Which attention kernel serves a problem, and how it is cut up. Pure: shapes and capabilities in, a plan out.
//
// rows   a lane owns rows, operands pass by subgroup shuffles, no barrier: CPU devices (lavapipe), head sizes to 128
// tiles  tiles staged in shared memory, register blocks: every device, head sizes to 512
// lanes  few queries over many keys: forward split over the keys, group * q_len <= 16, every device but CPUs
// decode the same with barriers between keys and half as fast, for devices whose push constants are few
// matrix matrix units with a known element layout, 16-bit types, head sizes to 256: asked first
// staged matrix units with an unknown layout: scores pass through shared memory; head sizes to 256
#pragma once
#include <cstdint>

#include "core/device_profile.h"
#include "core/dtype.h"
#include "kernels_attention.gen.h"
#include "ops/coopmat/layout.h"

namespace aule::ops {

struct AttentionProblem {
  int64_t batch = 0, heads = 0, kv_heads = 0, q_len = 0, k_len = 0, head_dim = 0, v_dim = 0;
  DType dtype = DType::f32;
  bool banded = false;  // causal or windowed
  bool ragged = false;  // sequences of their own lengths; q_len and k_len are the most
  bool plain = true;    // scores are scale * q k with scale > 0: no bias, no soft cap
  bool narrow = false;  // strides have 32 bits
  bool packed = false;  // eight elements of query, key and value make one load of 16 bytes
  int device = 0;       // whose measured shapes are looked up
  // Of the keys: 0 as many as are good; 1 none, and a sequence's result does not depend on the rest of the batch.
  int64_t num_splits = 0;
};

enum class AttentionPass : uint8_t { forward, dq, dkdv };
enum class AttentionFamily : uint8_t { none, rows, tiles, matrix, staged, decode, lanes };

// The portable kernels (tiles.glsl).
struct TilesShape {
  int local = 0, lanes = 0;   // invocations of a workgroup; of them side by side in a row
  int rows = 0, columns = 0;  // of an invocation's scores
  int depth = 0, strip = 0;   // of a step: elements of the scores' operands; columns of scores for the result
  int stages = 1;             // steps in shared memory; 1: loads go straight there
  int unroll_scores = 1, unroll_result = 1;  // chunks of four elements; rows
  int most = 128;                            // columns of the result of one workgroup
};

struct AttentionPlan {
  AttentionFamily family = AttentionFamily::none;
  int local = 0;                       // invocations of a workgroup
  int dim = 0, v_dim = 0;              // rows, matrix: padded head sizes
  int columns = 0;                     // tiles: columns of the result of one workgroup
  int rows = 0;                        // rows of a lane; matrix: blocks of rows of a subgroup
  int tile = 0, step = 0, stages = 0;  // matrix: rows of a tile, its blocks in flight, tiles in shared memory
  TilesShape tiles;
  bool shuffles = false;       // tiles: a row's lanes are in one subgroup
  int block = 0;               // rows of a workgroup
  int direct = 0, fences = 0;  // matrix: those of MatrixShape
  int parts = 1;               // matrix: subgroups that share rows; 2: one has S, one dP, and each a result
  bool hand_over = false;      // matrix: accumulators become A operands within a lane
  int splits = 1;              // workgroups that share a block of rows, each with its own columns of the result
                               // (decode, lanes: with its own keys)
                               // lanes also: columns lanes share `tile` keys and `rows` rows, `parts` subgroups
                               // the keys; `step` of the rows are put together at a time
};

inline constexpr int64_t kMaxHeadDim = 512;

// The kernels of matrix.glsl, of tiles.glsl and of rows.glsl have one list of specialization constants each. What they
// have from the plan decides their shared memory.
using MatrixSpec = FlashAttnFwdMatrixSpec;
using TilesSpec = FlashAttnFwdSpec;
using RowsSpec = FlashAttnFwdRowsSpec;
void set_plan(MatrixSpec& spec, const AttentionPlan& plan, const MatrixLayout& layout);
void set_plan(TilesSpec& spec, const TilesShape& shape, int columns);
void set_plan(FlashDecodeSpec& spec, const AttentionPlan& plan, const AttentionProblem& problem);
void set_plan(FlashDecodeLanesSpec& spec, const AttentionPlan& plan, const AttentionProblem& problem, uint32_t cluster);

// The override attention_variant asks for one family; a family that cannot serve the problem is passed over.
// attention_shape(_dq, _dkdv)=warps,rows,tile,step,stages[,direct[,fences]] replaces the table's row of the matrix
// family, for measurements (with the variant splitkv it is local,tile), attention_tiles(_dq, _dkdv) the shape of the
// tiles family (attention/tuning_table.h).
AttentionPlan attention_plan(const DeviceProfile& caps, const MatrixLayout& layout, const AttentionProblem& problem,
                             AttentionPass pass);
const char* attention_family_name(AttentionFamily family);

}  // namespace aule::ops
