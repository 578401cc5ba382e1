#pragma aule axis DIRECTION to_depth to_space
// Blocks of an image's places as channels: a strided convolution becomes one of stride 1, whose channels fill 16 bytes.
// blocks: [image][bz][by][bx][(rz, ry, rx, channel)], dense, the last padded by zeros to whole 16 bytes; it has the
// place b * BLOCK + r - pad of the image, 0 outside of it.
//   to_depth: an invocation makes 16 bytes of blocks.
//   to_space: an invocation makes one element of the image, of any strides; a place in no block is the bias or 0.
layout(local_size_x = 256) in;
#include "common/dtype.glsl"
#include "common/indexing.glsl"
layout(constant_id = 0) const int SIZE = 2;             // bytes of an element: 2 or 4
layout(constant_id = 1) const uint BLOCK_Z = 1;
layout(constant_id = 2) const uint BLOCK_Y = 2;
layout(constant_id = 3) const uint BLOCK_X = 2;
layout(constant_id = 4) const bool CHANNELS_LAST = false;  // of the image: invocations run along its memory
struct Params {
  uint64_t image, blocks, bias;  // bias: 0 where there is none
  int64_t image_strides[5];      // images, channels, z, y, x
  uint n;                        // invocations
  uint channels, padded;         // of the image; elements of a block
  int size[3];                   // of the image
  int count[3];                  // of blocks
  int pad[3];
};
#include "common/params.glsl"
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Vec16b { uvec4 v; };

uint load_bits(uint64_t base, uint64_t i) {
  return SIZE == 4 ? U32Ref(base + i * 4).v : uint(U16Ref(base + i * 2).v);
}

uint64_t place_of(uint image, uint channel, ivec3 at) {
  return uint64_t(int64_t(image) * p.image_strides[0] + int64_t(channel) * p.image_strides[1] +
      int64_t(at.z) * p.image_strides[2] + int64_t(at.y) * p.image_strides[3] + int64_t(at.x) * p.image_strides[4]);
}

#ifdef DIRECTION_to_depth
void main() {
  const uint64_t id = linear_invocation();
  if (id >= p.n) return;
  const uint e_of_16 = 16 / SIZE, vecs = p.padded / e_of_16, block = uint(id) / vecs;
  const uint bx = block % p.count[2], plane = block / p.count[2], by = plane % p.count[1], volume = plane / p.count[1];
  const uint bz = volume % p.count[0], image = volume / p.count[0];
  const ivec3 first = ivec3(bx * BLOCK_X, by * BLOCK_Y, bz * BLOCK_Z) - ivec3(p.pad[2], p.pad[1], p.pad[0]);
  const uint element = (uint(id) - block * vecs) * e_of_16;
  uint place = element / p.channels, channel = element - place * p.channels;
  uvec4 v = uvec4(0);
  [[unroll]] for (uint e = 0; e < e_of_16; ++e) {
    const ivec3 at = first + ivec3(place % BLOCK_X, place / BLOCK_X % BLOCK_Y, place / (BLOCK_X * BLOCK_Y));
    if (place < BLOCK_X * BLOCK_Y * BLOCK_Z && uint(at.x) < uint(p.size[2]) && uint(at.y) < uint(p.size[1]) &&
        uint(at.z) < uint(p.size[0])) {
      const uint bits = load_bits(p.image, place_of(image, channel, at));
      if (SIZE == 4) v[e] = bits;
      else v[e / 2] |= bits << (16 * (e % 2));
    }
    if (++channel == p.channels) {
      channel = 0;
      ++place;
    }
  }
  Vec16b(p.blocks + id * 16).v = v;
}
#else
void main() {
  const uint64_t id = linear_invocation();
  if (id >= p.n) return;
  uint rest = uint(id), channel = 0;
  if (CHANNELS_LAST) {
    channel = rest % p.channels;
    rest /= p.channels;
  }
  ivec3 at;
  at.x = int(rest % p.size[2]);
  rest /= p.size[2];
  at.y = int(rest % p.size[1]);
  rest /= p.size[1];
  at.z = int(rest % p.size[0]);
  rest /= p.size[0];
  if (!CHANNELS_LAST) {
    channel = rest % p.channels;
    rest /= p.channels;
  }
  const uvec3 from = uvec3(at + ivec3(p.pad[2], p.pad[1], p.pad[0])), extent = uvec3(BLOCK_X, BLOCK_Y, BLOCK_Z),
              block = from / extent, within = from - block * extent;
  uint bits = 0;
  if (block.x < p.count[2] && block.y < p.count[1] && block.z < p.count[0]) {
    const uint number = ((rest * p.count[0] + block.z) * p.count[1] + block.y) * p.count[2] + block.x;
    const uint place = (within.z * BLOCK_Y + within.y) * BLOCK_X + within.x;
    bits = load_bits(p.blocks, uint64_t(number) * p.padded + place * p.channels + channel);
  } else if (p.bias != 0) {
    bits = load_bits(p.bias, channel);
  }
  const uint64_t to = p.image + place_of(rest, channel, at) * SIZE;
  if (SIZE == 4) U32Ref(to).v = bits;
  else U16Ref(to).v = uint16_t(bits);
}
#endif
