// Elements of DTYPE, and numbers that all kernels of attention share.
#ifndef AULE_ATTENTION_ELEMENTS_GLSL
#define AULE_ATTENTION_ELEMENTS_GLSL
#define NEG_INF uintBitsToFloat(0xff800000u)
#define POS_INF uintBitsToFloat(0x7f800000u)
const float LOG2E = 1.4426950408889634;
// Below every finite score. A row without a visible key so far needs no case of its own.
const float LOWEST = -3.0e38;
const int ELEM_BYTES = DTYPE == AULE_DT_F32 ? 4 : 2;

layout(buffer_reference, scalar, buffer_reference_align = 8) buffer PairRef { uint64_t v; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Vec16bRef { uvec4 v; };
// Two 16-bit elements in one word.
vec2 pair(uint w) { return DTYPE == AULE_DT_F16 ? unpackHalf2x16(w) :
    vec2(bf16_to_float(w & 0xffffu), uintBitsToFloat(w & 0xffff0000u)); }
#endif
