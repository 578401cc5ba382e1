// A term of element i of grad_in, for kernels that scatter gradients: by an atomic, or for itself where one invocation
// has the plane (ORDERED). Include after atomic_float.glsl, real.glsl, the constants and Params.
void add_to(uint64_t i, REAL x) {
#ifndef C_double
  if (!ORDERED) {
    atomic_add(p.grad_in + i * 4, x);
    return;
  }
#endif
  STORE(p.grad_in, i, REAL_DTYPE, LOAD(p.grad_in, i, REAL_DTYPE) + x);
}
