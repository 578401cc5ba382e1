// The products of scores and of their gradients, for both kernels of the backward: rows that a subgroup keeps in
// registers times a tile of the others.
MatA own_frag[ROW_BLOCKS * FRAGS], own_frag_v[ROW_BLOCKS * FRAGS_V];  // {Q, dO} or {K, V}
Acc s[ROW_BLOCKS], dp[ROW_BLOCKS];

void products(int stage, int block) {
  [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r) s[r] = Acc(0.0);
  [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r) dp[r] = Acc(0.0);
  [[unroll]] for (int d = 0; d < FRAGS; ++d) {
    MatB x;
    coopMatLoad(x, tiles, uint(stage * STAGE_SIZE + block * MAT_N * PITCH + d * MAT_N / 8), uint(PITCH), COLUMN_MAJOR);
    [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r) s[r] = coopMatMulAdd(own_frag[r * FRAGS + d], x, s[r]);
  }
  [[unroll]] for (int d = 0; d < FRAGS_V; ++d) {
    MatB x;
    coopMatLoad(x, tiles, uint(stage * STAGE_SIZE + TILE_A + block * MAT_N * PITCH_V + d * MAT_N / 8), uint(PITCH_V),
        COLUMN_MAJOR);
    [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r) dp[r] = coopMatMulAdd(own_frag_v[r * FRAGS_V + d], x, dp[r]);
  }
}
