// One to eight neighbouring elements as one access of 2 to 16 bytes. `count` is a constant; the address is aligned to
// what it accesses. Expects DTYPE (float types of 2 or 4 bytes).
#include "common/vec16b.glsl"
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Vec8bRef { uvec2 v; };
const int SIZE = DTYPE == AULE_DT_F32 ? 4 : 2;

uvec4 load_elements(uint64_t address, int count) {
  const int bytes = count * SIZE;
  if (bytes == 16) return Vec16bRef(address).v;
  if (bytes == 8) return uvec4(Vec8bRef(address).v, 0, 0);
  if (bytes == 4) return uvec4(U32Ref(address).v, 0, 0, 0);
  return uvec4(uint(U16Ref(address).v), 0, 0, 0);
}
void store_elements(uint64_t address, int count, float x[MAX_E]) {
  const int bytes = count * SIZE;
  const uvec4 words = to_vec16b(x);
  if (bytes == 16) Vec16bRef(address).v = words;
  else if (bytes == 8) Vec8bRef(address).v = words.xy;
  else if (bytes == 4) U32Ref(address).v = words.x;
  else U16Ref(address).v = uint16_t(words.x);
}
