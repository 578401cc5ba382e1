// For halo_conv.comp and halo_conv_weight.comp: positions of results as one flat number. Every row of places has
// `pitch` positions, every strip of a plane has `rows` rows. So a tap is one distance for all positions: what it reads
// past the end of a row lies outside the image. With a stride, a phase is the pixels of one remainder by it; a tap
// reads one phase. PHASES 1: of the source. 2: of the result. 0: the stride is 1. The kernel has declared Params, DEEP,
// PHASES and `divided`.
#ifndef AULE_CONV_FLAT_POSITIONS_GLSL
#define AULE_CONV_FLAT_POSITIONS_GLSL
// {x, y}: what the least tap adds to a position, the phase's remainder, how many taps it has, and the first of them.
struct Phase {
  ivec2 first;
  uvec2 rest, taps, tap;
};
Phase phase_of(uint number) {
  Phase f;
  f.taps = uvec2(p.kernel_width, p.kernel_height);
  f.first = ivec2(p.first[2], p.first[1]);
  f.rest = f.tap = uvec2(0);
  if (PHASES != 0) {
    const uvec2 stride = uvec2(p.stride[1], p.stride[0]);
    f.rest = uvec2(number % stride.x, number / stride.x);
    const uvec2 start = f.rest + uvec2(p.pad[1], p.pad[0]), steps = start / stride;
    f.tap = start - steps * stride;
    f.taps = (f.taps - f.tap + stride - 1) / stride;
    f.first = PHASES == 1 ? -ivec2(steps) : ivec2(steps) - ivec2(f.taps) + 1;
  }
  return f;
}
uint phases() { return PHASES != 0 ? p.stride[0] * p.stride[1] : 1; }

// The plane among those of all images, the strip, the row and the column of a position.
void locate(uint at, out uint plane, out uint strip, out uint row, out uint column) {
  const uint line = divided(at, p.by_pitch), lines = divided(line, p.by_rows);
  column = at - line * p.pitch;
  row = line - lines * p.rows;
  plane = divided(lines, p.by_strips);
  strip = lines - plane * p.strips;
}
// The number of the result at a position; false: there is none.
bool result_of(uint at, Phase phase, out uint result) {
  uint plane, strip, row, column;
  locate(at, plane, strip, row, column);
  bool is_there = plane < p.planes && column < p.strip_width;
  column += strip * p.strip_width;
  if (PHASES == 2) {
    column = column * p.stride[1] + phase.rest.x;
    row = row * p.stride[0] + phase.rest.y;
  }
  result = (plane * p.out_size[0] + row) * p.out_size[1] + column;
  return is_there && column < p.out_size[1] && row < p.out_size[0];
}
// The pixel of the source that the least tap reads at a position; false: it is outside its plane. `z`: its plane in the
// image.
bool pixel_of(uint at, Phase phase, out uint pixel, out int z) {
  uint plane, strip, row, column;
  locate(at, plane, strip, row, column);
  const bool is_there = plane < p.planes;
  z = 0;
  if (DEEP) {
    const uint image = divided(plane, p.by_planes);
    z = int(plane - image * p.image_planes) * p.mul_z + p.first[0];
    plane = image * uint(p.size[0]) + uint(z);
  }
  int y = int(row) + phase.first.y, x = int(strip * p.strip_width + column) + phase.first.x;
  if (PHASES == 1) {
    y = y * int(p.stride[0]) + int(phase.rest.y);
    x = x * int(p.stride[1]) + int(phase.rest.x);
  }
  pixel = (plane * uint(p.size[1]) + uint(y)) * uint(p.size[2]) + uint(x);
  return is_there && uint(y) < uint(p.size[1]) && uint(x) < uint(p.size[2]);
}
#endif
