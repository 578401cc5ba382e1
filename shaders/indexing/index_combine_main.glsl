// main() of index_combine.comp and index_combine_wide.comp.
#include "indexing/walk.glsl"

#define COMBINE_OP(code, name) const int OP_##name = code;
#include "indexing/combine_ops.def"

layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer WordRef { uint v; };
#ifdef ADD_native
layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer FloatWordRef { float v; };
#endif

#if defined(C_vec2) || defined(C_dvec2)
#define COMPLEX
#include "common/complex.glsl"
#endif

bool is_nan(float x) { return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u; }

float combine(float a, float b) {
  switch (OP) {
    case OP_add: return a + b;
    case OP_mul: return a * b;
    case OP_max: return is_nan(a) || a >= b ? a : b;
    default: return is_nan(a) || a <= b ? a : b;
  }
}
int64_t combine(int64_t a, int64_t b) {
  switch (OP) {
    case OP_add: return a + b;
    case OP_mul: return a * b;
    case OP_max: return a >= b ? a : b;
    default: return a <= b ? a : b;
  }
}
#ifdef C_double
double combine(double a, double b) {
  switch (OP) {
    case OP_add: return a + b;
    case OP_mul: return a * b;
    case OP_max: return isnan(a) || a >= b ? a : b;
    default: return isnan(a) || a <= b ? a : b;
  }
}
#endif

// The element's new bits, from its old ones.
uint combined_bits(uint bits, float x, int64_t y) {
  switch (DTYPE) {
    case AULE_DT_F32: return floatBitsToUint(combine(uintBitsToFloat(bits), x));
    case AULE_DT_F16: return packHalf2x16(vec2(combine(unpackHalf2x16(bits).x, x), 0.0)) & 0xffffu;
    case AULE_DT_BF16: return float_to_bf16(combine(bf16_to_float(bits), x));
    case AULE_DT_I16: return uint(int(combine(int64_t(int(bits << 16) >> 16), y))) & 0xffffu;
    case AULE_DT_I8: return uint(int(combine(int64_t(int(bits << 24) >> 24), y))) & 0xffu;
    case AULE_DT_U8: return uint(int(combine(int64_t(bits), y))) & 0xffu;
    case AULE_DT_BOOL: return combine(int64_t(bits), y) != int64_t(0) ? 1u : 0u;
    default: return uint(int(combine(int64_t(int(bits)), y)));
  }
}

void combine_atomically(uint64_t address, float x, int64_t y) {
  if (OP == OP_add && DTYPE == AULE_DT_I64) {
    uint low = uint(y), high = uint(y >> 32);
    uint old = low == 0u ? 0u : atomicAdd(WordRef(address).v, low);
    high += old + low < old ? 1u : 0u;
    if (high != 0u) atomicAdd(WordRef(address + 4).v, high);
    return;
  }
  if (OP == OP_add && DTYPE == AULE_DT_I32) {
    atomicAdd(WordRef(address).v, uint(int(y)));
    return;
  }
#ifdef ADD_native
  if (OP == OP_add && DTYPE == AULE_DT_F32) {
    atomicAdd(FloatWordRef(address).v, x);
    return;
  }
#endif
  const int bytes = DTYPE == AULE_DT_F32 || DTYPE == AULE_DT_I32 ? 4 : DTYPE == AULE_DT_F16 || DTYPE == AULE_DT_BF16 ||
      DTYPE == AULE_DT_I16 ? 2 : 1;
  uint mask = bytes == 4 ? 0xffffffffu : bytes == 2 ? 0xffffu : 0xffu;
  uint shift = (uint(address) & 3u) * 8u;
  WordRef word = WordRef(address & ~uint64_t(3));
  uint seen = word.v;
  for (;;) {
    uint bits = combined_bits((seen >> shift) & mask, x, y);
    uint wanted = (seen & ~(mask << shift)) | (bits << shift);
    if (wanted == seen) break;
    uint found = atomicCompSwap(word.v, seen, wanted);
    if (found == seen) break;
    seen = found;
  }
}

uint64_t element_bytes() {
  switch (DTYPE) {
    case AULE_DT_F64: case AULE_DT_I64: return uint64_t(8);
    case AULE_DT_F32: case AULE_DT_I32: return uint64_t(4);
    case AULE_DT_F16: case AULE_DT_BF16: case AULE_DT_I16: return uint64_t(2);
    default: return uint64_t(1);
  }
}

void main() {
  uint64_t id = linear_invocation();
  if (id >= uint64_t(p.n)) return;
  Place first = first_place(uint(id));
  const uint steps = walk_steps();
  for (uint s = 0u; s < steps; ++s) {
    Place place = place_at(first, s);
    if (!place.good) continue;
    uint64_t from = uint64_t(place.plain), to = uint64_t(place.indexed);
#if defined(COMPLEX)
    store_complex(p.indexed, to, DTYPE,
        c_mul(load_complex(p.indexed, to, DTYPE), load_complex(p.plain, from, PLAIN_DTYPE)));
#elif defined(C_double)
    double x = double(p.alpha) * load_double(p.plain, from, PLAIN_DTYPE);
    store_double(p.indexed, to, DTYPE, combine(load_double(p.indexed, to, DTYPE), x));
#else
    float x = 0.0;
    int64_t y = int64_t(0);
    if (is_integer_dtype(DTYPE)) y = int64_t(p.integer_alpha) * load_int64(p.plain, from, PLAIN_DTYPE);
    else x = p.alpha * load_float(p.plain, from, PLAIN_DTYPE);
    if (ATOMIC) combine_atomically(p.indexed + to * element_bytes(), x, y);
    else if (is_integer_dtype(DTYPE)) store_int64(p.indexed, to, DTYPE, combine(load_int64(p.indexed, to, DTYPE), y));
    else store_float(p.indexed, to, DTYPE, combine(load_float(p.indexed, to, DTYPE), x));
#endif
  }
}
