// The mainloop of a product on cooperative matrices: gemm_coopmat.comp, gemm_int8.comp and implicit_gemm.comp, each
// with loads of its own.
//
//   load the first step | for each step: registers to shared memory, barrier, load the next step, multiply, barrier
//
// MULTIPLY_STEP multiplies the step in shared memory: acc[FM][FN] += a[FM] * b[FN] for each s below END.
// LOAD_A(fragment, i, s) and LOAD_B(fragment, j, s) are the kernel's; b's fragments live one at a time.
#define MULTIPLY_STEP(END, NEXT)                                                                    \
  UN for (uint s = 0; s < END; NEXT) {                                                              \
    MatA a[FM];                                                                                     \
    UN for (uint i = 0; i < FM; ++i) { LOAD_A(a[i], i, s) }                                         \
    UN for (uint j = 0; j < FN; ++j) {                                                              \
      MatB b;                                                                                       \
      LOAD_B(b, j, s)                                                                               \
      UN for (uint i = 0; i < FM; ++i) acc[i][j] = coopMatMulAdd(a[i], b, acc[i][j]);               \
    }                                                                                               \
  }
