// main() of index_move.comp and index_move_wide.comp.
#include "common/raw.glsl"
#include "indexing/walk.glsl"

void main() {
  uint64_t id = linear_invocation();
  if (id >= uint64_t(p.n)) return;
  Place first = first_place(uint(id));
  const uint steps = walk_steps();
  for (uint s = 0u; s < steps; ++s) {
    Place place = place_at(first, s);
    if (PUT) {
      if (place.good)
        store_bits(p.indexed, uint64_t(place.indexed), DTYPE, load_bits(p.plain, uint64_t(place.plain), DTYPE));
    } else {
      u64vec2 bits = u64vec2(0);
      if (place.good) bits = load_bits(p.indexed, uint64_t(place.indexed), DTYPE);
      store_bits(p.plain, uint64_t(place.plain), DTYPE, bits);
    }
  }
}
