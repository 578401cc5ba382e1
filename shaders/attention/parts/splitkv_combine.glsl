// Functions of flash_attn_splitkv.comp: addresses, barriers, the store of a row, and the combination of the splits by
// the last workgroup of a head. The kernel has declared its constants and the references to partials.
#ifndef AULE_ATTENTION_SPLITKV_COMBINE_GLSL
#define AULE_ATTENTION_SPLITKV_COMBINE_GLSL
// A barrier that also makes the workgroup's earlier writes to buffers visible to it, and to readers of its next
// release.
void meet_with_buffers() {
  controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, gl_StorageSemanticsBuffer | gl_StorageSemanticsShared,
                 gl_SemanticsAcquireRelease);
}

// A barrier. If the workgroup is one subgroup, the subgroup's, which is faster on software devices.
void meet() {
  if (LOCAL > CLUSTER) {
    barrier();
  } else {
    subgroupMemoryBarrier();
    subgroupBarrier();
  }
}
uint64_t times(uint stride, int n) { return uint64_t(stride) * uint64_t(uint(n)); }
// Row 0 of a head's queries (and results) or keys, and the offset of another row of keys from there, in bytes.
uint64_t query_rows(uint64_t base, uint stride[3], int b, int h) {
  return base + (times(stride[0], b) + times(stride[1], h) + (RAGGED ? times(stride[2], sequence.x) : uint64_t(0))) *
      ELEM_BYTES;
}
uint64_t key_rows(uint64_t base, uint stride[3], int b, int h) {
  return base + ((PAGED ? uint64_t(0) : times(stride[0], b)) + times(stride[1], h) +
      (RAGGED ? times(stride[2], sequence.z) : uint64_t(0))) * KEY_BYTES;
}
uint64_t key_offset(uint64_t page_bytes, uint64_t step_bytes, int row) {
  if (PAGED) return page_bytes * uint64_t(uint(page_of(row))) + step_bytes * uint64_t(uint(row % PAGE));
  return step_bytes * uint64_t(uint(row));
}

// A row's four columns, of the sums `x` and `sum`.
void store_result(int b, int kv_h, int r, int column, vec4 x, float sum, float top) {
  const int query = r % QUERIES, h = kv_h * MEMBERS + r / QUERIES;
  if (query >= (RAGGED ? sequence.y : QUERIES)) return;  // beyond a sequence's own
  const float inverse = sum == 0.0 ? 0.0 : 1.0 / sum;  // a row that sees nothing is 0
  const uint64_t row = query_rows(p.out_, p.out_stride, b, h) + times(p.out_stride[2], query) * ELEM_BYTES;
  [[unroll]] for (int i = 0; i < 4; ++i)
    if (column + i < p.v_dim) store_float(row, uint64_t(uint(column + i)), DTYPE, x[i] * inverse);
  if (column == 0) {
    const uint64_t heads = uint64_t(uint(p.kv_heads * MEMBERS));  // logsumexp is [B, H, Lq], ragged [H, total_q]
    const uint64_t at = RAGGED ? uint64_t(uint(h)) * uint64_t(uint(p.total_q)) + uint64_t(uint(sequence.x + query))
                               : (uint64_t(uint(b)) * heads + uint64_t(uint(h))) * QUERIES + uint64_t(uint(query));
    F32Ref(p.logsumexp + at * 4).v = sum == 0.0 ? NEG_INF : (top + log2(sum)) * 0.6931471805599453;
  }
}

// The last workgroup of a head combines its splits. A piece is four columns of a row. STREAMS invocations share the
// splits of each piece, FLYING loads at a time.
const int PIECES = LOCAL < ROWS * BLOCKS * WIDTH / 4 ? LOCAL : ROWS * BLOCKS * WIDTH / 4;
const int STREAMS = LOCAL / PIECES, FLYING = 4;
shared vec4 combined[STREAMS > 1 ? LOCAL : 1];
shared vec2 combined_sums[STREAMS > 1 ? LOCAL : 1];
void combine_splits(int splits, int t, int b, int kv_h, int piece0) {
  const int piece = piece0 + t % PIECES, stream = t / PIECES, r = min(piece * 4 / PITCH, HEAD_ROWS - 1),
      column = piece * 4 % PITCH;
  const uint64_t first = times(uint(p.splits * HEAD_ROWS), b * p.kv_heads + kv_h) + uint64_t(uint(r));
  const uint64_t stats = p.stats + first * 8, partial = p.partial + (first * PITCH + uint64_t(uint(column))) * 4;
  float top = LOWEST, sum = 0.0;
  vec4 x = vec4(0.0);
  [[dont_unroll]] for (int s0 = stream; s0 < splits; s0 += STREAMS * FLYING) {
    vec4 y[FLYING];
    vec2 s[FLYING];
    [[unroll]] for (int i = 0; i < FLYING; ++i) {
      const uint at = uint(min(s0 + i * STREAMS, splits - 1) * HEAD_ROWS);
      s[i] = SumRef(stats + uint64_t(at * 8u)).v;
      y[i] = PartialRef(partial + uint64_t(at * uint(PITCH * 4))).v;
    }
    float above = top;
    [[unroll]] for (int i = 0; i < FLYING; ++i) above = max(above, s[i].x);
    const float factor = exp2(top - above);
    x *= factor;
    sum *= factor;
    top = above;
    [[unroll]] for (int i = 0; i < FLYING; ++i) {
      const float f = s0 + i * STREAMS < splits ? exp2(s[i].x - top) : 0.0;
      x += f * y[i];
      sum += f * s[i].y;
    }
  }
  if (STREAMS > 1) {
    combined[t] = x;
    combined_sums[t] = vec2(top, sum);
    meet();  // the sums of each stream are written
    if (stream == 0) {
      vec2 others[STREAMS];
      [[unroll]] for (int i = 0; i < STREAMS; ++i) {
        others[i] = combined_sums[i * PIECES + t];
        top = max(top, others[i].x);
      }
      x = vec4(0.0);
      sum = 0.0;
      [[unroll]] for (int i = 0; i < STREAMS; ++i) {
        const float f = exp2(others[i].x - top);
        x += f * combined[i * PIECES + t];
        sum += f * others[i].y;
      }
    }
  }
  if (stream == 0 && piece < HEAD_ROWS * PITCH / 4) store_result(b, kv_h, r, column, x, sum, top);
}
#endif
