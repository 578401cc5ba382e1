// The first statements of main() of the kernels with a block of queries per workgroup: its position and its tiles of
// keys. Sets bh, b, h, row0, tile_last, a_base, b_base, bias_base, dropout, begin, end, last_tile,
// block_first and block_last. Kernels that list the blocks of a mask (LISTED_BLOCKS) find its first tile themselves.
#ifndef LISTED_BLOCKS
#define LISTED_BLOCKS false
#endif
  const int blocks = (p.q_len + BLOCK - 1) / BLOCK;
  const uint group = linear_group();
  if (group >= p.groups) return;  // whole workgroups, so no barrier is missed
  const int own_first = (blocks - 1 - int(group % uint(blocks))) * BLOCK,
      first = MOVES_LAST_BLOCK ? min(own_first, p.q_len - BLOCK) : own_first;
  bh = int(group / uint(blocks));
  b = bh / p.heads;
  h = bh % p.heads;
  begin_sequence(b);
  if (RAGGED && first >= query_count()) return;
  const int kv_h = h / (p.heads / p.kv_heads), subgroup = int(gl_SubgroupID);
  row0 = first + subgroup / ROLE_SPLIT * ROW_BLOCKS * MAT_M;
  tile_last = last_key();
  a_base = key_rows(p.key, p.key_stride, b, kv_h);
  b_base = key_rows(p.value, p.value_stride, b, kv_h);
  if (BIAS_DTYPE >= 0) bias_base = bias_head(b, h);
  if (ALIBI) head_slope = F32Ref(bias_base).v;
  if (DROPOUT) dropout = dropout_begin();

  // Tiles [begin, end) hold visible keys; in [full_begin, full_end) every row of the block sees every key.
  const int last = min(first + BLOCK, query_count()) - 1;
  block_first = first;
  block_last = last;
  begin = keys_begin(first) / TILE;
  end = (max(keys_end(last), 0) + TILE - 1) / TILE;
  if (BLOCK_MASK && !LISTED_BLOCKS) begin = min(kept_tile(bias_base, first, last, begin, end), max(begin, end));
  const int full_end = BLOCK_MASK && !UNMASKED ? begin : max(begin, min(end, max(keys_end(first), 0) / TILE));
  const int full_begin = BOUNDED_LEFT && !BLOCK_MASK ?
      clamp((max(last + mask_diagonal() - p.left, 0) + TILE - 1) / TILE, begin, full_end) : begin;
  last_tile = max(end, 1) - 1;

