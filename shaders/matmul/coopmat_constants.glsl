// The constants of a product on cooperative matrices, which its planner sets: gemm_coopmat.comp says what it does.
#ifndef AULE_GEMM_COOPMAT_CONSTANTS_GLSL
#define AULE_GEMM_COOPMAT_CONSTANTS_GLSL
layout(constant_id = 0) const int MAT_M = 16;
layout(constant_id = 1) const int MAT_N = 16;  // and the step along k
layout(local_size_x_id = 2) in;
layout(constant_id = 2) const uint LOCAL = 256;
layout(constant_id = 3) const uint BM = 128;
layout(constant_id = 4) const uint BN = 256;
layout(constant_id = 5) const uint WM = 64;
layout(constant_id = 6) const uint WN = 64;
layout(constant_id = 7) const uint BK = 64;
layout(constant_id = 8) const bool A_MN_MAJOR = false;
layout(constant_id = 9) const bool B_MN_MAJOR = false;
layout(constant_id = 10) const int A_VEC = 8;
layout(constant_id = 11) const int B_VEC = 8;
layout(constant_id = 12) const int C_VEC = 0;    // 0: no c; 1: any strides; 8: rows of vec8s
// 0: float32 partial sums [split][batch][m][n]; 1: any strides; 8: rows of vec8s
layout(constant_id = 13) const int OUT_VEC = 8;
layout(constant_id = 14) const uint BAND = 8;   // row tiles that share their columns in the cache
layout(constant_id = 15) const int K_CHECKS = 1;     // loads compared with k. 0: none; 1: every step; 2: the first one
layout(constant_id = 16) const bool IS_RAGGED = true;  // m or n is no multiple of BM or BN
// vec8s of a row that neighbours load: BK / 8, or 4 with two slabs of 32 k
layout(constant_id = 17) const uint LINE = 8;
// The address of a vec8 of a k-major operand. 0: the invocation's, rows clamped; 1: the workgroup's, which moves along
// k, and a 32-bit offset of the invocation, in vec8s; 2: that offset moves. 1 and 2 need 16-byte loads and no check of
// m and n (IS_RAGGED).
layout(constant_id = 18) const int ADDRESSES = 0;
// If a is k-major and LINE 8: an invocation loads rows r and r + 8 and writes whole lanes of a's matrices.
layout(constant_id = 19) const bool PAIRS = false;
layout(constant_id = 20) const int ACTIVATION = 0;  // activation_codes.h
layout(constant_id = 21) const bool RESIDUAL = false;  // read as OUT_VEC says
// 0: a workgroup makes a tile or one of its splits. 1: after `whole` such tiles, workgroups share the steps of the
// others, `share` each. 2: workgroups of one subgroup add its part of a shared tile.
layout(constant_id = 22) const int SHARES = 0;
layout(constant_id = 23) const bool ODD_N = false;     // rows of vec8s end inside the last one: n is no multiple of 8
// The last tile of rows, and of columns, begins so much earlier that it is whole. What it shares with the tile before
// is not stored.
layout(constant_id = 24) const bool MOVES_LAST = false;
#endif
