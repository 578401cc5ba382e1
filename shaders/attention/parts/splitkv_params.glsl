// The block of flash_attn_splitkv: 256 bytes of push constants. Sizes in its grid or constants are left out.
struct Params {
  uint64_t query, key, value, out_, logsumexp, bias;
  uint64_t partial, stats, counters;
  uint64_t seed, offset, state;
  uint64_t cu_seq_q, cu_seq_k, seqused_k, pages;
  uint query_stride[3], key_stride[3], value_stride[3], out_stride[3];
  uint bias_stride[4];  // {batch, head, query, key}; 0 where broadcast
  int kv_heads, k_len, head_dim, v_dim, splits;
  int diagonal, left, right;
  int total_q, total_k, page_step, page_count;
  float scale, softcap;
  uint dropout_rest;  // of the threshold, below THRESHOLD in attention.glsl
  float dropout_scale;
};
#include "common/params.glsl"
// As in common/params.glsl: an address that may be read, in place of 0.
#define AULE_READABLE
uint64_t readable(uint64_t address) { return address != uint64_t(0) ? address : p.query; }
