#pragma aule axis T float16_t bfloat16_t
#pragma aule feature cooperative_matrix
#pragma aule feature subgroup_shuffle
#pragma aule feature float16
#pragma aule feature bfloat16 if T=bfloat16_t
#pragma aule params wide
#pragma aule inline
// dQ = scale * dS K on cooperative matrices, from the dS that flash_attn_bwd_dkdv_coopmat wrote to the workspace.
// A product that skips the tiles in which no query of the block sees a key. Deterministic.
//
// Workgroup (block of DS_ROWS queries, query head of the chunk), heavy causal blocks first. Its subgroups share the
// block: ROW_BLOCKS * MAT_M queries by WIDTH columns each. dS arrives as accumulators of dS^T in the order of their
// lanes, and goes to shared memory as rows of keys, from which matrix loads transpose it. It takes the place of the
// second operand of coopmat_tiles.glsl, whose DV is DS_ROWS here. Matrices are square, with 8 elements of a lane.
// What was tried, and what it gave: docs/ladders/flash_attn_bwd_dq_from_ds.md
#define ATTENTION_ADDRESSES ds_workspace, grad_query
#define ATTENTION_STRIDES grad_query_stride[3], first_head, key_blocks
#include "attention/parts/coopmat.glsl"
#include "attention/parts/coopmat_tiles.glsl"

const int DOWN = DS_ROWS / (ROW_BLOCKS * MAT_M), ACROSS = SUBGROUPS / DOWN;  // subgroups
const int WIDTH = D / ACROSS, WIDTH_FRAGS = WIDTH / MAT_N;
const int PIECES = TILE / MAT_M * 8, LOADS_DS = (PIECES + SUBGROUPS - 1) / SUBGROUPS;  // matrices of a tile of dS
const bool WHOLE_DS = PIECES % SUBGROUPS == 0;
shared T elems[DS_IN_PAIRS ? 8 : TILE * PITCH_V * 8];

Acc dq[ROW_BLOCKS * WIDTH_FRAGS];
uvec4 next_ds[LOADS_DS];
uint64_t ds_base;
int query_blocks, query_block, row0;

void fetch(int tile) {
  fetch_a(tile);
  if (!WHOLE_TILES) {  // rows past the last key repeat it, and are zeroed here
    [[unroll]] for (int i = 0; i < LOADS_A; ++i)
      if (tile * TILE + (int(gl_LocalInvocationIndex) + i * LOCAL) / VEC8S > tile_last) next_a[i] = uvec4(0);
  }
  [[unroll]] for (int i = 0; i < LOADS_DS; ++i) {
    const int piece = int(gl_SubgroupID) + i * SUBGROUPS;
    if (WHOLE_DS || piece < PIECES)
      next_ds[i] = Vec16bRef(ds_base + uint64_t(ds_index(tile * (TILE / MAT_M) + piece / 8, query_block + piece % 8,
          query_blocks) * DS_BYTES)).v;
  }
}
void put() {
  put_a(0);
  [[unroll]] for (int i = 0; i < LOADS_DS; ++i) {
    const int piece = int(gl_SubgroupID) + i * SUBGROUPS;
    if (WHOLE_DS || piece < PIECES) {
      [[unroll]] for (int e = 0; e < 8; e += 2) {
        const int row = piece / 8 * MAT_M + lane_row() + NIBBLE(ELEM_ROWS, e);
        const int column = piece % 8 * MAT_M + lane_col() + NIBBLE(ELEM_COLS, e);
        if (DS_IN_PAIRS) {
          tiles[TILE_A + row * PITCH_V + column / 8][column % 8 / 2] = next_ds[i][e / 2];
        } else {
          const int other_row = piece / 8 * MAT_M + lane_row() + NIBBLE(ELEM_ROWS, e + 1);
          const int other_column = piece % 8 * MAT_M + lane_col() + NIBBLE(ELEM_COLS, e + 1);
          const vec2 x = pair(next_ds[i][e / 2]);
          elems[row * PITCH_V * 8 + column] = T(x.x);
          elems[other_row * PITCH_V * 8 + other_column] = T(x.y);
        }
      }
    }
  }
}

void main() {
  const int blocks = (p.q_len + DS_ROWS - 1) / DS_ROWS, members = p.heads / p.kv_heads;
  const uint group = linear_group();
  if (group >= p.groups) return;  // whole workgroups, so no barrier is missed
  const int first = (blocks - 1 - int(group % uint(blocks))) * DS_ROWS;
  const int in_chunk = int(group / uint(blocks)), b_kv = int(p.first_head) + in_chunk / members;
  const int b = b_kv / p.kv_heads, kv_h = b_kv % p.kv_heads, h = kv_h * members + in_chunk % members;
  const int subgroup = int(gl_SubgroupID), down = subgroup % DOWN, column0 = subgroup / DOWN * WIDTH;
  row0 = first + down * ROW_BLOCKS * MAT_M;
  tile_last = last_key();
  a_base = key_rows(p.key, p.key_stride, b, kv_h);
  query_blocks = ds_blocks(p.q_len);
  ds_base = p.ds_workspace + uint64_t(uint(in_chunk)) * uint64_t(ds_matrices(int(p.key_blocks), query_blocks)) *
      DS_BYTES +
            uint64_t(uint(lane()) * 16u);
  query_block = first / MAT_M;

  const int last = min(first + DS_ROWS, p.q_len) - 1;
  const int begin = keys_begin(first) / TILE, end = (max(keys_end(last), 0) + TILE - 1) / TILE;
  const int last_tile = max(end, 1) - 1;
  [[unroll]] for (int i = 0; i < ROW_BLOCKS * WIDTH_FRAGS; ++i) dq[i] = Acc(0.0);
  fetch(min(begin, last_tile));
  [[dont_unroll]] for (int tile = begin; tile < end; ++tile) {
    put();
    barrier();  // the tile is written
    fetch(min(tile + 1, last_tile));
    [[unroll]] for (int k = 0; k < TILE / MAT_N; ++k) {
      MatA ds[ROW_BLOCKS];
      [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r) {
        const int column = (down * ROW_BLOCKS + r) * MAT_M;
        if (DS_IN_PAIRS) coopMatLoad(ds[r], tiles, uint(TILE_A + k * MAT_N * PITCH_V + column / 8), uint(PITCH_V),
            COLUMN_MAJOR);
        else coopMatLoad(ds[r], elems, uint(k * MAT_N * PITCH_V * 8 + column), uint(PITCH_V * 8), COLUMN_MAJOR);
      }
      [[unroll]] for (int i = 0; i < WIDTH_FRAGS; ++i) {
        MatB key;
        coopMatLoad(key, tiles, uint(k * MAT_N * PITCH + column0 / 8 + i * MAT_N / 8), uint(PITCH), ROW_MAJOR);
        [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r) dq[r * WIDTH_FRAGS + i] =
            coopMatMulAdd(ds[r], key, dq[r * WIDTH_FRAGS + i]);
      }
    }
    barrier();  // the tile has been read
  }
  const int staging = subgroup * STAGING_SIZE;
#define BY_SCALE(r, e) (p.scale * TRUNCATION_BIAS * (DROPOUT ? p.dropout_scale : 1.0))
  const uint64_t dq_head = query_rows(p.grad_query, p.grad_query_stride, b, h) + uint64_t(column0 * 2);
  STORE_ROWS(dq, BY_SCALE, dq_head, uint(p.grad_query_stride[2]) * 2u, last_query(), p.head_dim - column0, WIDTH)
}
