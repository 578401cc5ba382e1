// Atomic sum of a float32 in memory: the device's own (variants ADD=native, which require float32_atomic_add and
// GL_EXT_shader_atomic_float), else compare-and-swap. The order of the sums is not determined.
#ifndef AULE_ATOMIC_FLOAT_GLSL
#define AULE_ATOMIC_FLOAT_GLSL
#ifdef ADD_native
layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer AtomicFloatRef { float v; };
void atomic_add(uint64_t address, float x) { atomicAdd(AtomicFloatRef(address).v, x); }
#else
layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer AtomicFloatRef { uint v; };
void atomic_add(uint64_t address, float x) {
  AtomicFloatRef word = AtomicFloatRef(address);
  uint seen = word.v;
  for (;;) {
    const uint found = atomicCompSwap(word.v, seen, floatBitsToUint(uintBitsToFloat(seen) + x));
    if (found == seen) break;
    seen = found;
  }
}
#endif
#endif
