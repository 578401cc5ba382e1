#pragma aule params ring
#pragma aule inline
// Attention of few queries over many keys: FlashAttention forward split over the keys (Flash-Decoding, Dao et al.
// 2023). Memory-bound: every key and value is read once. Deterministic.
//
// Workgroup (split of the keys, b, key head) of LOCAL invocations. The ROWS rows are the queries of all heads of the
// group, row = member * q_len + query. Tiles of LOCAL keys: an invocation owns a key for the scores, then eight columns
// of V of every LANES_V-th key for the output, so V is read in whole rows. All invocations keep m and l of all rows.
// Results, in float32: partial [B * Hkv, splits, rows, v_dim rounded up to 8] = sum of 2^(s - m) v and stats
// [B * Hkv, splits, rows, 2] = {m, sum of 2^(s - m)}, scores s in log2 units. flash_attn_splitkv_combine adds them up.
// RAGGED: `q_len` is the most queries of a sequence. Rows beyond a sequence's own are not stored, and splits without a
// key write weights of 0.
// What was tried, and what it gave: docs/ladders/flash_attn_splitkv_shared.md
#include "attention/parts/attention.glsl"
#include "attention/parts/sequences.glsl"

layout(constant_id = FAMILY_CONSTANTS) const int ROWS = 4;  // a power of two up to 16, at least group * q_len
layout(constant_id = FAMILY_CONSTANTS + 1) const int VEC8S = 8;    // of 8 columns of q and k
layout(constant_id = FAMILY_CONSTANTS + 2) const int VEC8S_V = 8;  // of 8 columns of v, at most 32
layout(constant_id = FAMILY_CONSTANTS + 3) const bool ALIGNED = false;  // 16-byte loads

// One vec8 of columns per invocation in the second phase: LANES_V = the power of two from VEC8S_V up.
const int LANES_V = VEC8S_V <= 1 ? 1 : VEC8S_V <= 2 ? 2 : VEC8S_V <= 4 ? 4 : VEC8S_V <= 8 ? 8 :
    VEC8S_V <= 16 ? 16 : 32;
const int STREAMS = LOCAL / LANES_V;  // keys worked on at a time in the second phase
const int FLYING = LANES_V < 8 ? LANES_V : 8;  // loads of V of an invocation in flight; a tile is LANES_V of them
const int ROW_SHARES = LOCAL / ROWS < 8 ? LOCAL / ROWS : 8;

shared vec4 q_rows[ROWS * VEC8S * 2];
shared float weight[LOCAL * ROWS];   // [key][row]: scores, then P
shared float shares[16 * 8];
shared float sums[LOCAL * 8];        // one row's partial outputs

#include "attention/parts/vec8.glsl"
Vec8 load_vec8(uint64_t row, int column, int dim) { return unpack(load_raw(row, column, dim)); }

int t, splits, split, b_kv, b, kv_h, members, rows;
int q_len, k_len, head_dim, v_dim, diagonal, q_last;
uint64_t k_base, v_base;
int64_t k_step, v_step;
float scale, softcap;
Dropout dropout;

float m[ROWS], l[ROWS];  // l: this invocation's keys only
vec4 low[ROWS], high[ROWS];
int column, first_stream;

// A tile of keys: this invocation's, its scores and then P, and the loads of V in flight.
int begin, end, key0, key, safe, keys, v_column;
float score[ROWS];
RawVec8 v[FLYING];

void load_queries() {
  [[dont_unroll]] for (int i = t; i < ROWS * VEC8S; i += LOCAL) {
    const int r = min(i / VEC8S, rows - 1), h = kv_h * members + r / q_len;
    const uint64_t row = query_rows(p.query, p.query_stride, b, h) +
        uint64_t(int64_t(min(r % q_len, q_last)) * p.query_stride[2] * ELEM_BYTES);
    const Vec8 x = load_vec8(row, i % VEC8S * 8, head_dim);
    q_rows[i * 2] = x.low;
    q_rows[i * 2 + 1] = x.high;
  }
}

// S = Q K^T of the own key.
void scores() {
  [[unroll]] for (int r = 0; r < ROWS; ++r) score[r] = 0.0;
  // The first loads of V arrive while the scores are computed.
  keys = min(LOCAL, end - key0);
  v_column = column < v_dim ? column : 0;
  [[unroll]] for (int i = 0; i < FLYING; ++i)
    v[i] = load_raw(v_base + key_offset(p.value_stride[0], v_step, key0 + min(first_stream + i * STREAMS, keys - 1)),
        v_column, v_dim);
  const uint64_t k_row = k_base + key_offset(p.key_stride[0], k_step, safe);
  [[unroll]] for (int c = 0; c < VEC8S; ++c) {
    const Vec8 x = load_vec8(k_row, c * 8, head_dim);
    [[unroll]] for (int r = 0; r < ROWS; ++r)
      score[r] += dot(x.low, q_rows[(r * VEC8S + c) * 2]) + dot(x.high, q_rows[(r * VEC8S + c) * 2 + 1]);
  }
}

// The scores in log2 units, -inf where a row does not see the key.
void modify() {
  [[unroll]] for (int r = 0; r < ROWS; ++r) {
    const int row = min(r, rows - 1), query = row % q_len, h = kv_h * members + row / q_len;
    float x = score[r] * scale;
    if (SOFTCAP) x = softcap * capped_tanh(x / softcap);
    const int seen = key - query - diagonal;
    float bias = 0.0;
    if (BIAS_DTYPE >= 0)
      bias = load_bias(p.bias + bias_bytes() * uint64_t(int64_t(b) * p.bias_stride[0] +
          int64_t(h) * p.bias_stride[1] + int64_t(query) * p.bias_stride[2] + int64_t(safe) * p.bias_stride[3]), seen);
    const bool visible = key < end && seen >= -p.left && seen <= p.right && bias != NEG_INF;
    score[r] = visible ? max((x + bias) * LOG2E, LOWEST) : NEG_INF;
    weight[t * ROWS + r] = score[r];
  }
}

// The largest score of each row in a share of the tile.
void share_maxima() {
  if (t < ROWS * ROW_SHARES) {
    const int r = t % ROWS, from = t / ROWS;
    float top = NEG_INF;
    [[dont_unroll]] for (int i = from; i < LOCAL; i += ROW_SHARES) top = max(top, weight[i * ROWS + r]);
    shares[from * ROWS + r] = top;
  }
}

// Scores become P. What is summed so far follows the new maxima.
void weigh() {
  [[unroll]] for (int r = 0; r < ROWS; ++r) {
    float top = m[r];
    [[unroll]] for (int i = 0; i < ROW_SHARES; ++i) top = max(top, shares[i * ROWS + r]);
    const float factor = exp2(m[r] - top);
    m[r] = top;
    l[r] *= factor;
    low[r] *= factor;
    high[r] *= factor;
    float x = exp2(score[r] - top);
    l[r] += x;
    if (DROPOUT) {
      const int row = min(r, rows - 1), query = row % q_len, bh = b * p.heads + kv_h * members + row / q_len;
      x = dropout_keeps(dropout, bh, query, safe) ? x * p.dropout_scale : 0.0;
    }
    weight[t * ROWS + r] = x;
  }
}

// O += P V. Keys past the last have weight 0 and load a row that exists.
void accumulate() {
  [[dont_unroll]] for (int first = first_stream; first < keys; first += STREAMS * FLYING) {
    [[unroll]] for (int i = 0; i < FLYING; ++i) {
      const Vec8 x = unpack(v[i]);
      [[unroll]] for (int r = 0; r < ROWS; ++r) {
        const float w = weight[(first + i * STREAMS) * ROWS + r];
        low[r] += w * x.low;
        high[r] += w * x.high;
      }
    }
    if (FLYING < LANES_V && first + STREAMS * FLYING < keys) {
      [[unroll]] for (int i = 0; i < FLYING; ++i)
        v[i] = load_raw(v_base + key_offset(p.value_stride[0], v_step,
            key0 + min(first + (FLYING + i) * STREAMS, keys - 1)), v_column, v_dim);
    }
  }
}

// The sum of l in a share of the invocations.
void share_sums() {
  if (t < ROWS * ROW_SHARES) {
    const int r = t % ROWS, from = t / ROWS;
    float sum = 0.0;
    [[dont_unroll]] for (int i = from; i < LOCAL; i += ROW_SHARES) sum += weight[i * ROWS + r];
    shares[from * ROWS + r] = sum;
  }
}

// A row's output is the sum over the streams.
void store_partials() {
  [[unroll]] for (int r = 0; r < ROWS; ++r) {
    float sum = 0.0;
    [[unroll]] for (int i = 0; i < ROW_SHARES; ++i) sum += shares[i * ROWS + r];
    [[unroll]] for (int i = 0; i < 4; ++i) {
      sums[t * 8 + i] = low[r][i];
      sums[t * 8 + 4 + i] = high[r][i];
    }
    barrier();  // the row's partial outputs are written
    if (r < rows) {
      const uint64_t at = uint64_t((int64_t(b_kv) * splits + split) * rows + r);
      [[dont_unroll]] for (int d = t; d < v_dim; d += LOCAL) {
        float x = 0.0;
        [[dont_unroll]] for (int i = 0; i < STREAMS; ++i) x += sums[(i * LANES_V + d / 8) * 8 + d % 8];
        F32Ref(p.partial + (at * uint64_t(VEC8S_V * 8) + uint64_t(d)) * 4).v = x;
      }
      if (t == 0) {
        F32Ref(p.stats + at * 8).v = m[r];
        F32Ref(p.stats + at * 8 + 4).v = sum;
      }
    }
    barrier();  // they have been read
  }
}

void main() {
  const uint group = linear_group();
  if (group >= p.groups) return;  // whole workgroups, so no barrier is missed
  t = int(gl_LocalInvocationID.x);
  splits = p.splits;
  split = int(group) % splits;
  b_kv = int(group) / splits;
  b = b_kv / p.kv_heads;
  kv_h = b_kv % p.kv_heads;
  members = p.heads / p.kv_heads;
  rows = members * p.q_len;
  if (RAGGED) sequence = sequence_of(b, p.q_len);
  batch = b;
  q_len = p.q_len;
  k_len = p.k_len;
  head_dim = p.head_dim;
  v_dim = p.v_dim;
  diagonal = mask_diagonal();
  q_last = last_query();
  k_base = key_rows(p.key, p.key_stride, b, kv_h);
  v_base = key_rows(p.value, p.value_stride, b, kv_h);
  k_step = p.key_stride[2] * ELEM_BYTES;
  v_step = p.value_stride[2] * ELEM_BYTES;
  scale = p.scale;
  softcap = p.softcap;
  if (DROPOUT) dropout = dropout_begin();
  load_queries();
  barrier();  // q is staged
  [[unroll]] for (int r = 0; r < ROWS; ++r) {
    m[r] = LOWEST;
    l[r] = 0.0;
    low[r] = vec4(0.0);
    high[r] = vec4(0.0);
  }
  column = t % LANES_V * 8;
  first_stream = t / LANES_V;

  // The splits share the keys that some row may see, at least two tiles each.
  const int from = keys_begin(0), until = keys_end(q_last);
  const int share = max((max(until - from, 0) + splits * LOCAL - 1) / (splits * LOCAL) * LOCAL, 2 * LOCAL);
  begin = from + split * share;
  end = min(until, begin + share);
  [[dont_unroll]] for (key0 = begin; key0 < end; key0 += LOCAL) {
    key = key0 + t;
    safe = min(key, end - 1);
    scores();
    modify();
    barrier();  // the scores are written
    share_maxima();
    barrier();  // the maxima of the shares are written, the scores have been read
    weigh();
    barrier();  // P is written
    accumulate();
    barrier();  // P has been read
  }

  // Sums over the invocations: of l over all of them, of the output over the streams.
  [[unroll]] for (int r = 0; r < ROWS; ++r) weight[t * ROWS + r] = l[r];
  barrier();  // l is written
  share_sums();
  barrier();  // the sums of the shares are written
  store_partials();
}
