// The block of the cooperative-matrix kernels: push constants, which take no registers. To fit, strides have 32 bits.
// ATTENTION_ADDRESSES and ATTENTION_STRIDES are the members that only one kernel has.
struct Params {
  uint64_t query, key, value, bias;
  uint64_t seed, offset, state;
  uint64_t sequences;
  uint64_t ATTENTION_ADDRESSES;
  uint query_stride[3], key_stride[3], value_stride[3];
  uint ATTENTION_STRIDES;
  uint bias_stride[4];  // {batch, head, query, key}; 0 where broadcast
  uint groups;          // workgroups that have work
  int heads, kv_heads, q_len, k_len, head_dim, v_dim, total_q;
#ifdef ATTENTION_PAGED
  int page_step, page_count;
#endif
  int diagonal, left, right;
  float scale, softcap;
  uint dropout_rest;  // of the threshold, below THRESHOLD in attention.glsl
  float dropout_scale;
};
#include "common/params.glsl"
// Sizes of heads; a zero that no compiler sees to be one; a condition that never holds.
#define HEAD_DIM p.head_dim
#define V_DIM p.v_dim
#define OPAQUE_ZERO int(p.groups >> 31)
#define NEVER (p.groups == 0xffffffffu)
// As in common/params.glsl: an address that may be read, in place of 0.
#define AULE_READABLE
uint64_t readable(uint64_t address) { return address != uint64_t(0) ? address : p.query; }
