// Recurrent layers whose sequences stay with a workgroup for many steps: what forward and backward share. ROWS vectors
// of K elements, in shared memory, times one matrix [K][N], which every workgroup reads again each step: as much of it
// as registers hold is read once. Four columns belong to an invocation, whose SLICES neighbours share k.
// The file that includes this has the constants DTYPE, CELL, ROWS, HIDDEN, and K and N in multiples of 4.
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer U32x2Aligned { uvec2 v; };

const uint COLUMNS = N / 4, SLICES = LOCAL / COLUMNS, K_SLICE = (K + SLICES - 1) / SLICES;
// 64 registers hold weights all the time, 32 take those that come: with conditions on k rather than on loads, so that
// these are in flight together.
const uint REGISTERS = DTYPE == AULE_DT_F32 ? 4 : 2;  // of four weights
const uint HELD = K_SLICE < 64 / REGISTERS ? K_SLICE : 64 / REGISTERS, AT_ONCE = 32 / REGISTERS;
const uint K_PADDED = SLICES * K_SLICE;  // zeros after K
shared float vectors[ROWS * K_PADDED];
shared vec4 partial[SLICES * ROWS * COLUMNS];

uvec4 held[HELD];
uint column, slice;
uint64_t matrix;

// As they lie in memory, zeros past the end.
uvec4 load_weights(uint k) {
  const uint64_t at = uint64_t(min(k, K - 1) * N + column * 4);
  uvec4 words = uvec4(0);
  if (DTYPE == AULE_DT_F32) words = floatBitsToUint(F32x4Ref(matrix + at * 4).v);
  else words.xy = U32x2Aligned(matrix + at * 2).v;
  return K == K_PADDED || k < K ? words : uvec4(0);
}
vec4 four_weights(uvec4 words) {
  if (DTYPE == AULE_DT_F32) return uintBitsToFloat(words);
  if (DTYPE == AULE_DT_F16) return vec4(unpackHalf2x16(words.x), unpackHalf2x16(words.y));
  return uintBitsToFloat(uvec4(words.x << 16, words.x & 0xffff0000u, words.y << 16, words.y & 0xffff0000u));
}

// Zeros in the vectors, and the first weights in registers.
void begin(uint64_t address) {
  matrix = address;
  column = gl_LocalInvocationID.x % COLUMNS;
  slice = gl_LocalInvocationID.x / COLUMNS;
  [[unroll]] for (uint i = 0; i < HELD; ++i) held[i] = load_weights(slice * K_SLICE + i);
  for (uint i = gl_LocalInvocationID.x; i < ROWS * K_PADDED; i += LOCAL) vectors[i] = 0.0;
  barrier();  // zeros are written
}

// Between two barriers: the vectors are written, the partial sums not yet read.
void multiply() {
  if (slice >= SLICES) return;
  vec4 sums[ROWS];
  [[unroll]] for (uint r = 0; r < ROWS; ++r) sums[r] = vec4(0.0);
  const uint first = slice * K_SLICE;
  [[unroll]] for (uint i = 0; i < HELD; ++i) {
    const vec4 w = four_weights(held[i]);
    [[unroll]] for (uint r = 0; r < ROWS; ++r) sums[r] += vectors[r * K_PADDED + first + i] * w;
  }
  [[dont_unroll]] for (uint i = HELD; i < K_SLICE; i += AT_ONCE) {
    uvec4 words[AT_ONCE];
    [[unroll]] for (uint j = 0; j < AT_ONCE; ++j) words[j] = load_weights(first + i + j);
    [[unroll]] for (uint j = 0; j < AT_ONCE; ++j) {
      const bool own = (K_SLICE - HELD) % AT_ONCE == 0 || i + j < K_SLICE;
      const uint k = min(first + i + j, K_PADDED - 1);
      const vec4 w = four_weights(own ? words[j] : uvec4(0));
      [[unroll]] for (uint r = 0; r < ROWS; ++r) sums[r] += vectors[r * K_PADDED + k] * w;
    }
  }
  [[unroll]] for (uint r = 0; r < ROWS; ++r) partial[(slice * ROWS + r) * COLUMNS + column] = sums[r];
}

float product(uint r, uint n) {
  float sum = 0.0;
  [[unroll]] for (uint s = 0; s < SLICES; ++s) sum += partial[(s * ROWS + r) * COLUMNS + n / 4][n & 3];
  return sum;
}
