// A pass of attention as the planners see it: sizes, dtypes and masks, no tensor.
#pragma once
#include <cstdint>

#include "core/dtype.h"
#include "ops/coopmat/layout.h"

namespace aule::ops {

// A tensor that is added to scores, or says which of them count.
struct AttentionMask {
  enum class Kind : uint8_t {
    none,
    bias,     // numbers, added
    boolean,  // true: the key is seen
    alibi,    // a slope for each head: what scores lose for each position of distance
    blocks,   // true: this block of queries sees this block of keys
  };
  Kind kind = Kind::none;
  int block_q = 0, block_k = 0;  // queries and keys of a block

  bool has_blocks() const { return kind == Kind::blocks; }
};

struct AttentionProblem {
  int64_t batch = 0, heads = 0, kv_heads = 0, q_len = 0, k_len = 0, head_dim = 0, v_dim = 0;
  DType dtype = DType::f32;
  AttentionMask mask;
  bool masked = false;            // causal or windowed
  bool ragged = false;            // sequences of their own lengths; q_len and k_len are the longest
  bool unmodified_scores = true;  // scale * q k with scale > 0: no bias of elements, no soft cap
  bool fits_i32 = false;          // strides have 32 bits
  bool vec16b = false;            // query, key and value are 16-bit and can be loaded 16 bytes at a time
  bool int8 = false;              // keys and values are int8 with scales, which split-KV alone reads
  int64_t num_splits = 0;         // of the keys: 0: the planner chooses; 1: none, whatever the rest of the batch is
  MatrixLayout layout;            // of the device's matrices for `dtype`; not usable: plan without them

  // The backward has two numbers of each log-sum-exp beside a bias of numbers.
  bool float_bias() const { return mask.kind == AttentionMask::Kind::bias; }
};

enum class AttentionPass : uint8_t { forward, dq, dkdv };

inline constexpr int64_t kMaxHeadDim = 512;

}  // namespace aule::ops
