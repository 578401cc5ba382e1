#pragma aule feature subgroup_shuffle
#pragma aule params wide
#pragma aule inline
// Attention of few queries over many keys: FlashAttention forward split over the keys (Flash-Decoding, Dao et al.
// 2023). Memory-bound: every key and value is read once. Deterministic.
//
// Workgroup (split of the keys, key head, b) of LOCAL invocations. Its rows are the queries of all heads of the group,
// row = member * QUERIES + query. A team of LANES lanes works on ROWS of them and KEYS keys at a time, without shared
// memory and without a barrier: docs/use/attention.md, "Few queries, many keys". Row q[j] of a lane is own_row ^ j. All
// teams take equally many steps, so subgroups do not diverge.
// Teams are combined in shared memory, PASS rows at a time, and written as float32 {partial, stats} in the layout of
// splitkv_combine.glsl. The last workgroup of a head to arrive combines the splits: O = sum_s 2^(m_s - m) O_s /
// sum_s 2^(m_s - m) l_s. RAGGED: sequences of their own lengths, with QUERIES the most queries of a sequence.
// INT8: keys and values of 8 bits, with scales (vec8.glsl). A lane has 16 columns side by side: 16 bytes.
// What was tried, and what it gave: docs/ladders/flash_attn_splitkv.md
#define ATTENTION_SPLITKV
#include "attention/parts/attention.glsl"
#include "attention/parts/sequences.glsl"
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_vote : require
#extension GL_KHR_shader_subgroup_shuffle : require

layout(constant_id = FAMILY_CONSTANTS) const int MEMBERS = 4;   // query heads of a key head
layout(constant_id = FAMILY_CONSTANTS + 1) const int QUERIES = 1;   // of a sequence
layout(constant_id = FAMILY_CONSTANTS + 2) const int VEC8S = 8;    // of 8 columns of q and k
layout(constant_id = FAMILY_CONSTANTS + 3) const int VEC8S_V = 8;  // of 8 columns of v
layout(constant_id = FAMILY_CONSTANTS + 4) const bool ALIGNED = false;  // 16-byte loads
layout(constant_id = FAMILY_CONSTANTS + 5) const int CLUSTER = 32;     // lanes of the smallest subgroup
layout(constant_id = FAMILY_CONSTANTS + 6) const int LANES = 8;        // a power of two, at most CLUSTER
layout(constant_id = FAMILY_CONSTANTS + 7) const int KEYS = 4;         // a power of two
layout(constant_id = FAMILY_CONSTANTS + 8) const int PASS = 4;         // a divisor of ROWS
layout(constant_id = FAMILY_CONSTANTS + 9) const bool INT8 = false;    // keys and values, but not queries

const int HEAD_ROWS = MEMBERS * QUERIES;
const int ROWS = HEAD_ROWS <= 1 ? 1 : HEAD_ROWS <= 2 ? 2 : 4;  // of a team, at most LANES
const int BLOCKS = HEAD_ROWS <= 4 ? 1 : HEAD_ROWS <= 8 ? 2 : 4;
const int TWINS = INT8 ? 2 : 1;  // vec8s of a lane side by side
const int ACROSS = LANES * TWINS;  // vec8s of a team side by side
const int PER = (VEC8S + ACROSS - 1) / ACROSS * TWINS, PER_V = (VEC8S_V + ACROSS - 1) / ACROSS * TWINS;
const int KEY_BYTES = INT8 ? 1 : ELEM_BYTES;
const int TEAMS = CLUSTER / LANES;  // of a cluster
const int CLUSTERS = LOCAL / CLUSTER / BLOCKS;
const int STEP = CLUSTERS * TEAMS * KEYS;  // keys of a step of the workgroup
const int ROW_LANES = LANES / ROWS;        // neighbours with the same row
const int KEY_LANES = KEYS < ROW_LANES ? KEYS : ROW_LANES;
const int SAME = ROW_LANES / KEY_LANES, HELD = KEYS / KEY_LANES;
const int WIDTH = PER_V * LANES * 8;  // columns in shared memory
const int PITCH = VEC8S_V * 8;
const float RISE = 32.0;

shared vec4 sums[LOCAL / CLUSTER * PASS * WIDTH / 4];
shared vec2 tops[LOCAL / CLUSTER * ROWS];  // {m, l} of a cluster
shared uint arrived;

layout(buffer_reference, scalar, buffer_reference_align = 16) coherent buffer PartialRef { vec4 v; };
layout(buffer_reference, scalar, buffer_reference_align = 8) coherent buffer SumRef { vec2 v; };
layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer CounterRef { uint v; };
#include "attention/parts/vec8.glsl"
#include "attention/parts/splitkv_combine.glsl"
// Keys of 8 bits and dropout do not meet.
#define KEY_SCALES p.seed
#define VALUE_SCALES p.offset
RawVec8 load_columns(uint64_t row, uint64_t rows, uint64_t scales, int column, int dim) {
  if (INT8) return load_int8(row, rows, scales, column);
  return load_raw(row, column, dim);
}
// The nth vec8 of a lane of a team.
int vec8_of(int lane, int n) { return (lane + n / TWINS * LANES) * TWINS + n % TWINS; }

int lane, t, split, kv_h, b, head_dim, v_dim, splits, q_last;
// This invocation's block of rows, its cluster in the block, team, lane of the team, row and first key in the team.
int block, cluster, team, c, own_row, own_key;
int begin, end, stride;
int first;  // key of a step; the next of a team is TEAMS on
uint64_t k_base, v_base, k_page, v_page, k_step, v_step;
RawVec8 q_loaded[ROWS * PER], k[KEYS * PER], v[KEYS * PER_V];
Vec8 q[ROWS * PER];

// This lane ends with the scores of one row: the keys that the row sees, its bias, its number for dropout.
int row, query, head, diagonal, seen_from, seen_to;
uint64_t bias_row;
float scale, softcap;
Dropout dropout;

float m, l;  // of own_row; l of this lane's keys only
Vec8 o[ROWS * PER_V];
int key0, next;        // the first key of a step of the workgroup, and of its next step
float s[ROWS * KEYS];  // scores, then P
bool rises, writes;    // a score is far above the maximum; this team's sums are the cluster's
int j0;                // the first row of a pass
uint64_t at;           // of this split's partials, in rows

// The splits take the keys that some row may see in turn, a step at a time.
void begin_keys() {
  begin = keys_begin(0) + split * STEP;
  end = keys_end(q_last);
  stride = splits * STEP;
  first = cluster * KEYS * TEAMS + team;
  k_base = key_rows(p.key, p.key_stride, b, kv_h);
  v_base = key_rows(p.value, p.value_stride, b, kv_h);
  k_page = uint64_t(p.key_stride[0]) * KEY_BYTES;
  v_page = uint64_t(p.value_stride[0]) * KEY_BYTES;
  k_step = uint64_t(p.key_stride[2]) * KEY_BYTES;
  v_step = uint64_t(p.value_stride[2]) * KEY_BYTES;
}

// Keys past the last load a row that exists.
#define LOAD_K(key0)                                                                                                   \
  [[unroll]] for (int i = 0; i < KEYS; ++i) {                                                                          \
    const uint64_t row = k_base + key_offset(k_page, k_step, min((key0) + first + i * TEAMS, end - 1));                \
    [[unroll]] for (int n = 0; n < PER; n += TWINS) k[i * PER + n] =                                                   \
        load_columns(row, p.key, KEY_SCALES, min(vec8_of(c, n), VEC8S - TWINS) * 8, head_dim);                         \
  }
#define LOAD_V(key0)                                                                                                   \
  [[unroll]] for (int i = 0; i < KEYS; ++i) {                                                                          \
    const uint64_t row = v_base + key_offset(v_page, v_step, min((key0) + first + i * TEAMS, end - 1));                \
    [[unroll]] for (int n = 0; n < PER_V; n += TWINS) v[i * PER_V + n] =                                               \
        load_columns(row, p.value, VALUE_SCALES, min(vec8_of(c, n), VEC8S_V - TWINS) * 8, v_dim);                      \
  }

void load_queries() {
  [[unroll]] for (int j = 0; j < ROWS; ++j) {
    const int r = min(block * ROWS + (own_row ^ j), HEAD_ROWS - 1), h = kv_h * MEMBERS + r / QUERIES;
    const uint64_t row = query_rows(p.query, p.query_stride, b, h) +
        times(p.query_stride[2], min(r % QUERIES, q_last)) * ELEM_BYTES;
    [[unroll]] for (int n = 0; n < PER; ++n)
      q_loaded[j * PER + n] = load_raw(row, min(vec8_of(c, n), VEC8S - 1) * 8, head_dim);
  }
}

void unpack_queries() {
  [[unroll]] for (int i = 0; i < ROWS * PER; ++i) {
    q[i] = unpack(q_loaded[i]);
    if (VEC8S % ACROSS != 0 && vec8_of(c, i % PER) >= VEC8S) q[i] = Vec8(vec4(0.0), vec4(0.0));
  }
}

void begin_row() {
  row = min(block * ROWS + own_row, HEAD_ROWS - 1);
  query = row % QUERIES;
  head = kv_h * MEMBERS + row / QUERIES;
  diagonal = mask_diagonal();
  seen_from = query + diagonal - p.left;
  seen_to = min(query + diagonal + p.right, end - 1);
  bias_row = p.bias;
  if (BIAS_DTYPE >= 0)
    bias_row += bias_bytes() * (times(p.bias_stride[0], b) + times(p.bias_stride[1], head) +
        times(p.bias_stride[2], query));
  scale = SOFTCAP || BIAS_DTYPE >= 0 ? p.scale : p.scale * LOG2E;
  softcap = p.softcap;
  if (DROPOUT) dropout = dropout_begin();
}

// This lane's columns of Q K^T, of all rows and keys of the team.
void scores() {
  [[unroll]] for (int i = 0; i < KEYS; ++i) {
    if (INT8) {  // a scale for the sum of 16 products
      [[unroll]] for (int n = 0; n < PER; n += TWINS) {
        const RawVec8 x = k[i * PER + n];
        const float f = VEC8S % ACROSS != 0 && vec8_of(c, n) >= VEC8S ? 0.0 : scale_of(x);
        [[unroll]] for (int j = 0; j < ROWS; ++j) {
          const float y = products(x, q[j * PER + n], q[j * PER + n + 1]);
          s[j * KEYS + i] = n == 0 ? f * y : fma(f, y, s[j * KEYS + i]);
        }
      }
      continue;
    }
    [[unroll]] for (int n = 0; n < PER; ++n) {
      Vec8 x = unpack(k[i * PER + n]);
      if (VEC8S % ACROSS != 0 && vec8_of(c, n) >= VEC8S) x = Vec8(vec4(0.0), vec4(0.0));  // may be infinite
      [[unroll]] for (int j = 0; j < ROWS; ++j) {
        float y = n == 0 ? x.low[0] * q[j * PER + n].low[0] : fma(x.low[0], q[j * PER + n].low[0], s[j * KEYS + i]);
        [[unroll]] for (int d = 1; d < 4; ++d) y = fma(x.low[d], q[j * PER + n].low[d], y);
        [[unroll]] for (int d = 0; d < 4; ++d) y = fma(x.high[d], q[j * PER + n].high[d], y);
        s[j * KEYS + i] = y;
      }
    }
  }
}

// Sums over the lanes: half of the rows, then half of the keys go to the other half of the lanes.
void scores_over_lanes() {
  [[unroll]] for (int kept = ROWS / 2; kept > 0; kept /= 2)
    [[unroll]] for (int i = 0; i < kept * KEYS; ++i) s[i] += subgroupShuffleXor(s[i + kept * KEYS],
        uint(kept * ROW_LANES));
  [[unroll]] for (int kept = KEYS / 2; kept >= HELD; kept /= 2) {
    const int to = SAME * kept / HELD;
    const bool upper = (c & to) != 0;
    [[unroll]] for (int i = 0; i < kept; ++i)
      s[i] = (upper ? s[i + kept] : s[i]) + subgroupShuffleXor(upper ? s[i] : s[i + kept], uint(to));
  }
  [[unroll]] for (int to = SAME / 2; to > 0; to /= 2)
    [[unroll]] for (int i = 0; i < HELD; ++i) s[i] += subgroupShuffleXor(s[i], uint(to));
}

// The scores in log2 units, -inf where the row does not see the key.
void modify() {
  rises = false;
  [[unroll]] for (int i = 0; i < HELD; ++i) {
    const int key = key0 + first + (own_key * HELD + i) * TEAMS;
    float x = s[i] * scale;
    if (SOFTCAP) x = softcap * capped_tanh(x / softcap);
    bool visible = key >= seen_from && key <= seen_to;
    if (BIAS_DTYPE >= 0) {
      const float bias = load_bias(bias_row + bias_bytes() * times(p.bias_stride[3], min(key, end - 1)),
          key - query - diagonal);
      visible = visible && bias != NEG_INF;
      x += bias;
    }
    if (SOFTCAP || BIAS_DTYPE >= 0) x *= LOG2E;
    s[i] = visible ? max(x, LOWEST) : NEG_INF;
    rises = rises || s[i] > m + RISE;
  }
}

// The maximum becomes that of all keys so far.
void rescale() {
  float top = m;
  [[unroll]] for (int i = 0; i < HELD; ++i) top = max(top, s[i]);
  [[unroll]] for (int to = SAME; to < ROW_LANES; to *= 2) top = max(top, subgroupShuffleXor(top, uint(to)));
  const float factor = exp2(m - top);
  m = top;
  l *= factor;
  [[unroll]] for (int j = 0; j < ROWS; ++j) {
    const float f = j == 0 ? factor : subgroupShuffleXor(factor, uint(j * ROW_LANES));
    [[unroll]] for (int n = 0; n < PER_V; ++n) {
      o[j * PER_V + n].low *= f;
      o[j * PER_V + n].high *= f;
    }
  }
}

// Scores become P.
void weigh() {
  [[unroll]] for (int i = 0; i < HELD; ++i) {
    s[i] = exp2(s[i] - m);
    l += s[i];
    if (DROPOUT) {
      const int key = key0 + first + (own_key * HELD + i) * TEAMS;
      s[i] = dropout_keeps(dropout, b * p.kv_heads * MEMBERS + head, query, key) ? s[i] * p.dropout_scale : 0.0;
    }
  }
}

// And back: P of all keys of the own row, then of the other rows.
void weights_to_lanes() {
  [[unroll]] for (int kept = HELD; kept < KEYS; kept *= 2) {
    const int to = SAME * kept / HELD;
    const bool upper = (c & to) != 0;
    [[unroll]] for (int i = 0; i < kept; ++i) {
      const float here = s[i], there = subgroupShuffleXor(here, uint(to));
      s[i] = upper ? there : here;
      s[i + kept] = upper ? here : there;
    }
  }
  [[unroll]] for (int j = 1; j < ROWS; ++j)
    [[unroll]] for (int i = 0; i < KEYS; ++i) s[j * KEYS + i] = subgroupShuffleXor(s[i], uint(j * ROW_LANES));
}

void accumulate() {
  [[unroll]] for (int i = 0; i < KEYS; ++i) {
    if (INT8) {  // a scale for a weight of 16 columns
      [[unroll]] for (int n = 0; n < PER_V; n += TWINS) {
        const RawVec8 x = v[i * PER_V + n];
        const Vec8 left = vec8_of_int8(x.a.xy), right = vec8_of_int8(x.a.zw);
        const float f = scale_of(x);
        [[unroll]] for (int j = 0; j < ROWS; ++j) {
          const float w = s[j * KEYS + i] * f;
          o[j * PER_V + n].low += w * left.low;
          o[j * PER_V + n].high += w * left.high;
          o[j * PER_V + n + 1].low += w * right.low;
          o[j * PER_V + n + 1].high += w * right.high;
        }
      }
      continue;
    }
    [[unroll]] for (int n = 0; n < PER_V; ++n) {
      const Vec8 x = unpack(v[i * PER_V + n]);
      [[unroll]] for (int j = 0; j < ROWS; ++j) {
        o[j * PER_V + n].low += s[j * KEYS + i] * x.low;
        o[j * PER_V + n].high += s[j * KEYS + i] * x.high;
      }
    }
  }
}

// Combines the teams of a cluster, by shuffles.
void combine_teams() {
  float top = m;
  [[unroll]] for (int to = LANES; to < CLUSTER; to *= 2) top = max(top, subgroupShuffleXor(top, uint(to)));
  const float factor = exp2(m - top);
  l *= factor;
  [[unroll]] for (int to = SAME; to < ROW_LANES; to *= 2) l += subgroupShuffleXor(l, uint(to));
  [[unroll]] for (int to = LANES; to < CLUSTER; to *= 2) l += subgroupShuffleXor(l, uint(to));
  [[unroll]] for (int j = 0; j < ROWS; ++j) {
    const float f = j == 0 ? factor : subgroupShuffleXor(factor, uint(j * ROW_LANES));
    [[unroll]] for (int n = 0; n < PER_V; ++n) {
      o[j * PER_V + n].low *= f;
      o[j * PER_V + n].high *= f;
      [[unroll]] for (int to = LANES; to < CLUSTER; to *= 2) {
        [[unroll]] for (int i = 0; i < 4; ++i) {
          o[j * PER_V + n].low[i] += subgroupShuffleXor(o[j * PER_V + n].low[i], uint(to));
          o[j * PER_V + n].high[i] += subgroupShuffleXor(o[j * PER_V + n].high[i], uint(to));
        }
      }
    }
  }
  writes = team == 0;
  if (writes && c % ROW_LANES == 0) tops[t / CLUSTER * ROWS + own_row] = vec2(top, l);
}

// Clusters of a block are combined through shared memory: sums[cluster][block][j][column], of row own_row(column) ^ j.
void put_sums() {
  if (writes) {
    [[unroll]] for (int j = 0; j < PASS; ++j) {
      [[unroll]] for (int n = 0; n < PER_V; ++n) {
        const int to = ((t / CLUSTER * PASS + j) * WIDTH + vec8_of(c, n) * 8) / 4;
        sums[to] = o[(j0 + j) * PER_V + n].low;
        sums[to + 1] = o[(j0 + j) * PER_V + n].high;
      }
    }
  }
}

void combine_clusters() {
  [[dont_unroll]] for (int i = t; i < BLOCKS * PASS * WIDTH / 4; i += LOCAL) {
    const int column = i * 4 % WIDTH, j = i * 4 / WIDTH % PASS, of = i * 4 / WIDTH / PASS;
    const int own = column / 8 / TWINS % LANES / ROW_LANES ^ (j0 + j), r = of * ROWS + own;
    vec2 others[CLUSTERS];
    float most = LOWEST, sum = 0.0;
    [[unroll]] for (int n = 0; n < CLUSTERS; ++n) {
      others[n] = tops[(n * BLOCKS + of) * ROWS + own];
      most = max(most, others[n].x);
    }
    vec4 x = vec4(0.0);
    [[unroll]] for (int n = 0; n < CLUSTERS; ++n) {
      const float f = exp2(others[n].x - most);
      x += f * sums[((n * BLOCKS + of) * PASS + j) * WIDTH / 4 + column / 4];
      sum += f * others[n].y;
    }
    if (r < HEAD_ROWS && column < PITCH) {
      if (splits == 1) {
        store_result(b, kv_h, r, column, x, sum, most);
      } else {
        PartialRef(p.partial + ((at + uint64_t(uint(r))) * PITCH + uint64_t(uint(column))) * 4).v = x;
        if (column == 0) SumRef(p.stats + (at + uint64_t(uint(r))) * 8).v = vec2(most, sum);
      }
    }
  }
}

void main() {
  lane = int(gl_SubgroupInvocationID);
  t = int(gl_SubgroupID * gl_SubgroupSize) + lane;
  split = int(gl_WorkGroupID.x);
  kv_h = int(gl_WorkGroupID.y);
  b = int(gl_WorkGroupID.z);
  if (RAGGED) sequence = sequence_of(b, QUERIES);
  batch = b;
  head_dim = p.head_dim;
  v_dim = p.v_dim;
  q_last = RAGGED ? max(sequence.y, 1) - 1 : QUERIES - 1;
  block = t / CLUSTER % BLOCKS;
  cluster = t / CLUSTER / BLOCKS;
  team = lane / LANES % TEAMS;
  c = lane % LANES;
  own_row = c / ROW_LANES;
  own_key = c / SAME % KEY_LANES;
  // A cache may have more room than rows: splits without a step of their own leave, and one that is alone writes the
  // result itself.
  splits = clamp((keys_end(q_last) - keys_begin(0) + STEP - 1) / STEP, 1, p.splits);
  if (split >= splits) return;
  begin_keys();

  // The queries are loaded first: loads arrive in order, and behind the keys and values they would arrive last.
  load_queries();
  if (begin < end) {
    LOAD_K(begin)
    LOAD_V(begin)
  }
  unpack_queries();
  begin_row();
  m = LOWEST;
  l = 0.0;
  [[unroll]] for (int i = 0; i < ROWS * PER_V; ++i) o[i] = Vec8(vec4(0.0), vec4(0.0));

  [[dont_unroll]] for (key0 = begin; key0 < end; key0 += stride) {
    scores();
    next = key0 + stride;
    if (next < end) { LOAD_K(next) }
    scores_over_lanes();
    modify();
    if (subgroupAny(rises)) {
      rescale();
    }
    weigh();
    weights_to_lanes();
    accumulate();
    if (next < end) { LOAD_V(next) }
  }

  combine_teams();
  at = times(uint(HEAD_ROWS), (b * p.kv_heads + kv_h) * p.splits + split);
  [[unroll]] for (j0 = 0; j0 < ROWS; j0 += PASS) {
    put_sums();
    meet();  // every cluster's part is written
    combine_clusters();
    if (j0 + PASS < ROWS) meet();  // the sums have been read
  }
  if (splits == 1) return;
  const uint64_t counter = p.counters + uint64_t(uint(b * p.kv_heads + kv_h)) * 4;
  meet_with_buffers();  // this workgroup's part is written
  if (t == 0)
    arrived = atomicAdd(CounterRef(counter).v, 1u, gl_ScopeDevice, gl_StorageSemanticsBuffer,
        gl_SemanticsAcquireRelease);
  meet_with_buffers();  // its number is known
  if (int(arrived) != splits - 1) return;
  if (t == 0) CounterRef(counter).v = 0u;  // for the next call
  [[dont_unroll]] for (int piece = 0; piece < HEAD_ROWS * PITCH / 4; piece += PIECES) {
    if (piece > 0) meet();  // the sums of the streams have been read
    combine_splits(splits, t, b, kv_h, piece);
  }
}
