// Shared by all attention kernels: the parameter block, the band of visible keys, delta and the dropout mask.
//
//   S = softcap(scale * Q K^T) + bias - slope * |i + diagonal - j|
//   P = softmax(S) over the visible keys;  O = dropout(P) V
//   query i sees key j when  i + diagonal - left <= j <= i + diagonal + right   (none of both: left = right = 2^30)
//
// Letters: B H Lq Lk, D the head size of query and key, Dv that of value. Strides are in elements, {batch, head, row};
// the last dimension is dense. `heads` counts query heads. `kv_heads`, a divisor of it, counts key and value heads.
#ifndef AULE_ATTENTION_GLSL
#define AULE_ATTENTION_GLSL
layout(local_size_x_id = 4) in;
#include "common/dtype.glsl"
#include "common/indexing.glsl"

#if defined(ATTENTION_SPLITKV)
#include "attention/parts/splitkv_params.glsl"
#elif defined(ATTENTION_COOPMAT)
#include "attention/parts/coopmat_params.glsl"
#else
struct Params {
  uint64_t query, key, value, out_, logsumexp, bias;
  uint64_t grad_out, stats, grad_query, grad_key, grad_value, grad_bias;  // stats: STATS_BYTES
  uint64_t grad_logsumexp;                                                // 0: none
  uint64_t partial;                         // of split-KV in two kernels, float32
  uint64_t seed, offset, state;
  uint64_t sequences;                       // ragged: ivec4 per batch element
  uint64_t cu_seq_q, cu_seq_k, seqused_k;   // the lists it is made of (sequences.glsl); 0: not given
  uint64_t pages;                           // int32 [B, page_step]
  int64_t query_stride[3], key_stride[3], value_stride[3], out_stride[3];
  int64_t grad_out_stride[3], grad_query_stride[3], grad_key_stride[3], grad_value_stride[3];
  int64_t bias_stride[4];  // {batch, head, query, key}; 0 where broadcast
  uint groups;             // workgroups that have work
  int heads, kv_heads, q_len, k_len, head_dim, v_dim;
  int diagonal, left, right;
  int splits;                 // split-KV: workgroups that share the keys
  int total_q, total_k;       // ragged: rows of all sequences together, or keys that a sequence has room for
  int page_step, page_count;  // pages of a sequence, and in all
  float scale, softcap;
  uint dropout_rest;  // of the threshold, below THRESHOLD
  float dropout_scale;
};
#define ATTENTION_GRAD_LOGSUMEXP
#include "common/params.glsl"
#endif
#include "common/philox.glsl"

// Every kernel has these specialization constants; FAMILY_CONSTANTS is the first number of its family's own.
layout(constant_id = 0) const int DTYPE = 0;        // dtype of query, key, value, out and their gradients
layout(constant_id = 1) const int BIAS_DTYPE = -1;  // -1: no bias; AULE_DT_BOOL: true means visible
layout(constant_id = 2) const bool DROPOUT = false;
layout(constant_id = 3) const bool SOFTCAP = false;
layout(constant_id = 4) const int LOCAL = 8;  // local size

layout(constant_id = 5) const bool DROPOUT_STATE = false;  // the seed is in memory
layout(constant_id = 6) const int THRESHOLD = 0;           // of dropout, its upper 8 bits; p.dropout_rest: the others
layout(constant_id = 7) const bool RAGGED = false;         // sequences of their own lengths, read on the device
layout(constant_id = 8) const int PAGE_ROWS = 0;           // of a page; 0: no pages
// ALiBi (Press et al. 2022): the bias is a slope, float32, by which scores fall with the distance of query and key.
layout(constant_id = 9) const bool ALIBI = false;
// Block-sparse: the bias is bool [B, H, blocks of queries, blocks of keys]. Tiles in which nothing is kept are skipped.
layout(constant_id = 10) const int MASK_ROWS = 0;  // queries of a block; 0: no such mask
layout(constant_id = 11) const int MASK_KEYS = 0;
#define FAMILY_CONSTANTS 12
const bool BLOCK_MASK = MASK_ROWS > 0;
const bool PAGED = PAGE_ROWS > 0;  // keys and values are pages [page, Hkv, PAGE_ROWS, D], in the order of `pages`
const int PAGE = PAGED ? PAGE_ROWS : 1;

#include "attention/parts/elements.glsl"

// Of this workgroup's batch element if RAGGED: {first query, queries, first key, keys} as in sequences.glsl.
ivec4 sequence;
int batch;  // set if RAGGED
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer SequenceRef { ivec4 v; };
int key_count() { return RAGGED ? sequence.w : p.k_len; }
int mask_diagonal() { return RAGGED ? sequence.w - sequence.y : p.diagonal; }
// Rows to clamp to; an empty sequence starts at a row that may be read.
int last_key() { return RAGGED ? max(sequence.w, 1) - 1 : p.k_len - 1; }
#ifndef ATTENTION_SPLITKV
void begin_sequence(int b) {
  if (RAGGED) sequence = SequenceRef(p.sequences + uint64_t(uint(b)) * 16).v;
  batch = b;
}
int query_count() { return RAGGED ? sequence.y : p.q_len; }
int last_query() { return RAGGED ? max(sequence.y, 1) - 1 : p.q_len - 1; }
// Index of a query row in logsumexp and stats: [B, H, Lq], ragged [H, total_q].
int64_t stats_index(int bh, int row) {
  if (RAGGED) return int64_t(bh % p.heads) * p.total_q + (sequence.x + row);
  return int64_t(bh) * p.q_len + row;
}
#endif

#if !defined(ATTENTION_COOPMAT) || defined(ATTENTION_PAGED) || defined(ATTENTION_SPLITKV)
// The page that holds a row of this batch element.
int page_of(int row) {
  return clamp(I32Ref(p.pages + uint64_t(int64_t(batch) * p.page_step + row / PAGE) * 4).v, 0, p.page_count - 1);
}
#endif
#if !defined(ATTENTION_COOPMAT) && !defined(ATTENTION_SPLITKV)
// Row 0 of a head's queries or keys, and the offset of another row of keys from there, in bytes.
uint64_t query_rows(uint64_t base, int64_t stride[3], int b, int h) {
  const int64_t first = RAGGED ? int64_t(sequence.x) * stride[2] : int64_t(0);
  return base + uint64_t((int64_t(b) * stride[0] + int64_t(h) * stride[1] + first) * ELEM_BYTES);
}
uint64_t key_rows(uint64_t base, int64_t stride[3], int b, int h) {
  const int64_t first = RAGGED ? int64_t(sequence.z) * stride[2] : int64_t(0);
  return base + uint64_t(((PAGED ? int64_t(0) : int64_t(b) * stride[0]) + int64_t(h) * stride[1] + first) * ELEM_BYTES);
}
uint64_t key_offset(int64_t page_stride, int64_t step_bytes, int row) {
  if (PAGED) return uint64_t(int64_t(page_of(row)) * page_stride * ELEM_BYTES + int64_t(row % PAGE) * step_bytes);
  return uint64_t(int64_t(row) * step_bytes);
}
#endif

// First and last + 1 key that rows [row, row_last] may see.
int keys_begin(int row) { return max(0, row + mask_diagonal() - p.left); }
int keys_end(int row_last) { return min(key_count(), row_last + mask_diagonal() + p.right + 1); }
#ifndef ATTENTION_SPLITKV
// First and last + 1 query that may see some of the keys [key, key_last].
int queries_begin(int key) { return max(0, key - mask_diagonal() - p.right); }
int queries_end(int key_last) { return min(query_count(), key_last - mask_diagonal() + p.left + 1); }
#endif

// delta = sum_d dO[d] * O[d] uses the stored output. If that has 16 bits, delta is off by up to 0.02 at D = 16. A row
// that sees few keys has the whole error in dS = P * (dP - delta). So the dQ kernels sum delta again, as
// sum_j P[j] * dP[j], if `rows` rows see at most `keys` keys together, and store it for dK and dV.
bool sums_delta(int keys, int rows) { return DTYPE != AULE_DT_F32 && keys > 0 && keys <= 64 + rows; }
#ifdef ATTENTION_GRAD_LOGSUMEXP
float delta_of_logsumexp(int64_t index) {
  bool given = p.grad_logsumexp != uint64_t(0);
  float x = F32Ref(readable(p.grad_logsumexp) + (given ? uint64_t(index) * 4 : uint64_t(0))).v;
  return given ? -x : 0.0;
}
#endif

// ALiBi's slope: kernels that have one head set it once, and then no score waits for memory.
#ifdef ATTENTION_ONE_SLOPE
float head_slope;
float slope_at(uint64_t address) { return head_slope; }
#else
float slope_at(uint64_t address) { return F32Ref(address).v; }
#endif
// `seen`: the key's position from the query's, key - row - mask_diagonal().
float load_bias(uint64_t address, int seen) {
  if (ALIBI) return -slope_at(address) * float(abs(seen));
  if (BIAS_DTYPE == AULE_DT_BOOL) return uint(U8Ref(address).v) != 0u ? 0.0 : NEG_INF;
  return load_float(address, 0, BIAS_DTYPE);
}
// Row and column of the bias for a query and a key.
int bias_row_of(int row) { return BLOCK_MASK ? row / max(MASK_ROWS, 1) : row; }
int bias_column_of(int key) { return BLOCK_MASK ? key / max(MASK_KEYS, 1) : key; }
#ifndef ATTENTION_SPLITKV
bool keeps_block(uint64_t head, int i, int j) {
  return uint(U8Ref(head + uint64_t(uint(i)) * uint64_t(p.bias_stride[2]) +
      uint64_t(uint(j)) * uint64_t(p.bias_stride[3])).v) != 0u;
}
// The first key from `at` on, before `end`, that some of these rows see; `end` if there is none. `head`: its mask.
int next_kept_key(uint64_t head, int row, int row_last, int at, int end) {
  [[dont_unroll]] for (int j = bias_column_of(at); j * MASK_KEYS < end; ++j)
    [[dont_unroll]] for (int i = bias_row_of(row); i <= bias_row_of(row_last); ++i)
      if (keeps_block(head, i, j)) return max(at, j * MASK_KEYS);
  return end;
}
// The same of queries that see some of these keys.
int next_kept_query(uint64_t head, int key, int key_last, int at, int end) {
  [[dont_unroll]] for (int i = bias_row_of(at); i * MASK_ROWS < end; ++i)
    [[dont_unroll]] for (int j = bias_column_of(key); j <= bias_column_of(key_last); ++j)
      if (keeps_block(head, i, j)) return max(at, i * MASK_ROWS);
  return end;
}
#endif
// The backward's numbers of each query row: {logsumexp, delta}. Beside a bias of numbers it is {hi, delta, lo, unused}:
// the log-sum-exp is hi + lo, of which lo has what the float32 hi has no bits for (flash_attn_bwd_row_sums.comp).
const bool TWO_PARTS = BIAS_DTYPE >= 0 && BIAS_DTYPE != AULE_DT_BOOL && !ALIBI;
const int STATS_BYTES = TWO_PARTS ? 16 : 8;
float below_logsumexp(float x, float hi, float lo) {
  if (!TWO_PARTS) return x - hi;
  precise float y = (x - hi) - lo;  // in that order: hi - lo would be hi again
  return y;
}
uint64_t bias_bytes() { return BIAS_DTYPE == AULE_DT_BOOL ? 1 : (BIAS_DTYPE == AULE_DT_F32 ? 4 : 2); }

// Drivers compute tanh from exp, which overflows. Beyond 15 it is 1 in float32, so the argument is clamped.
float capped_tanh(float x) { return tanh(clamp(x, -15.0, 15.0)); }

// Dropout is a function of (batch and head, query, key) alone, so every tiling and the backward have the same mask.
// Queries and keys are divided into units of 32 x 32, a unit into 32 cells of 32 elements. A cell's mask is one word:
//   cell  4 * (query % 8) + key / 2 % 4: the elements of a unit that one lane of NVIDIA's accumulators holds
//   bit   16 * (key % 2) + 8 * (query / 16 % 2) + 4 * (key / 16 % 2) + 2 * (query / 8 % 2) + key / 8 % 2
// A cell makes a draw of twelve words: Philox with key 0 after eight, six and four rounds. Bit i of the words is a
// number of 12 bits. Element i is kept if that is at least the threshold, p in units of 2^-40. The threshold's upper 8
// bits are the constant THRESHOLD (a pipeline for each of 256), the next 4 the upper bits of dropout_rest. All 32
// comparisons are made at once, from the lowest bit on: `kept & w` if the threshold has a 1, `kept | w` if it has a 0.
// If all 12 bits are the threshold's, one number for the 32 elements decides by its other 28: the third word after
// five rounds, times a constant. The probability is p to 2^-41. Correlations: docs/use/attention.md, "Dropout".
struct Dropout {
  uvec4 start;
};
Dropout dropout_begin() {
  return Dropout(philox_draw(philox_begin(p.seed, p.offset, DROPOUT_STATE ? p.state : uint64_t(0)), 0u, 0u));
}
uint dropout_compare(uint kept, uint w, int bit) { return (THRESHOLD >> bit & 1) != 0 ? kept & w : kept | w; }
// The same with a bit of dropout_rest, counted from the highest.
uint dropout_compare_rest(uint kept, uint w, int bit) {
  const uint zero = uint(int(~p.dropout_rest << bit) >> 31);
  return kept & w | zero & (kept | w);
}
uint dropout_word(Dropout d, int bh, uint row_unit, uint key_unit, uint cell) {
  const uvec4 third = philox_rounds(d.start ^ uvec4(key_unit << 5 | cell, row_unit, uint(bh), 0u), uvec2(0u), 0, 4);
  const uvec4 shared_ = philox_rounds(third, uvec2(0u), 4, 5);
  const uvec4 second = philox_rounds(shared_, uvec2(0u), 5, 6);
  const uvec4 first = philox_rounds(second, uvec2(0u), 6, 8);
  uint kept = shared_.z * 0x9E3779B1u >= p.dropout_rest << 4 ? ~0u : 0u;
  kept = dropout_compare_rest(kept, third.w, 3);
  kept = dropout_compare_rest(kept, third.z, 2);
  kept = dropout_compare_rest(kept, third.y, 1);
  kept = dropout_compare_rest(kept, third.x, 0);
  kept = dropout_compare(kept, second.w, 0);
  kept = dropout_compare(kept, second.z, 1);
  kept = dropout_compare(kept, second.y, 2);
  kept = dropout_compare(kept, second.x, 3);
  kept = dropout_compare(kept, first.w, 4);
  kept = dropout_compare(kept, first.z, 5);
  kept = dropout_compare(kept, first.y, 6);
  kept = dropout_compare(kept, first.x, 7);
  return THRESHOLD < 256 ? kept : 0u;
}
// dS = P * (kept * dP - delta) is multiplied by the dropout scale at the end only, so delta is divided by it before.
float dropout_unscale() { return DROPOUT ? 1.0 / p.dropout_scale : 1.0; }
uint dropout_cell(int row, int key) { return uint((row & 7) << 2 | (key >> 1 & 3)); }
uint dropout_bit(int row, int key) {
  return uint((key & 1) << 4 | (row & 16) >> 1 | (key & 16) >> 2 | (row & 8) >> 2 | (key & 8) >> 3);
}
bool dropout_keeps(Dropout d, int bh, int row, int key) {
  return (dropout_word(d, bh, uint(row) / 32u, uint(key) / 32u, dropout_cell(row, key)) >> dropout_bit(row,
      key) & 1u) != 0u;
}
// Bit i: key 32 * key_unit + i of this row; or query 32 * row_unit + i of this key.
uint dropout_row(Dropout d, int bh, int row, uint key_unit) {
  uint kept = 0u;
  [[dont_unroll]] for (uint t = 0u; t < 4u; ++t) {
    const uint w = dropout_word(d, bh, uint(row) / 32u, key_unit,
        uint(row & 7) << 2 | t) >> ((row & 16) >> 1 | (row & 8) >> 2);
    const uint even = (w & 1u) | (w & 2u) << 7 | (w & 16u) << 12 | (w & 32u) << 19;
    const uint odd = (w >> 16 & 1u) | (w >> 16 & 2u) << 7 | (w >> 16 & 16u) << 12 | (w >> 16 & 32u) << 19;
    kept |= (even | odd << 1) << 2u * t;
  }
  return kept;
}
uint dropout_column(Dropout d, int bh, uint row_unit, int key) {
  uint kept = 0u;
  [[dont_unroll]] for (uint g = 0u; g < 8u; ++g) {
    const uint w = dropout_word(d, bh, row_unit, uint(key) / 32u, g << 2 | uint(key >> 1 & 3)) >> dropout_bit(0, key);
    kept |= ((w & 1u) | (w & 4u) << 6 | (w & 256u) << 8 | (w & 1024u) << 14) << g;
  }
  return kept;
}
#endif
