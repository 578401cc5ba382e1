#pragma aule inline
// Weight gradient of a convolution of thin groups (depthwise above all), 1-D and 2-D, in either memory format:
//   w[c, m, ky, kx] = sum over n, y, x of grad[n, c, y, x] * image[n, g * summed + m, y', x'],
//   y' = y * stride - pad + ky * dilation, x' likewise; for each pair (c, m) of an out channel and one of the `summed`
//   channels of its group g.
// An invocation has ROWS x TAPS_X taps of CHANNELS neighbouring pairs in registers, and takes every POSITIONS-th strip
// of RESULTS neighbours of grad's rows, past which a row of image passes as in grouped_conv.comp. A workgroup has LANES
// of such vectors, TAP_BLOCKS blocks of taps, and POSITIONS, which it adds up in fixed order. Several parts of the
// positions are [part][pair][taps] in float32, and grouped_conv_parts.comp adds them. POSITIONS 1: no barrier.
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const int LOCAL = 64;  // LANES * TAP_BLOCKS * POSITIONS
layout(constant_id = 1) const int DTYPE = 0;
layout(constant_id = 2) const int RESULT_DTYPE = 0;
layout(constant_id = 3) const bool CHANNELS_LAST = false;
layout(constant_id = 4) const int KERNEL_Y = 3;
layout(constant_id = 5) const int KERNEL_X = 3;
layout(constant_id = 6) const int STRIDE_Y = 1;
layout(constant_id = 7) const int STRIDE_X = 1;
layout(constant_id = 8) const int DILATION_Y = 1;
layout(constant_id = 9) const int DILATION_X = 1;
layout(constant_id = 10) const int PAD_X = 1;
layout(constant_id = 11) const int ROWS = 3;
layout(constant_id = 12) const int TAPS_X = 3;
layout(constant_id = 13) const int RESULTS = 8;
layout(constant_id = 14) const int CHANNELS = 1;         // of image in a load; 1 unless channels-last
layout(constant_id = 15) const bool ONE_GRADIENT = false;  // the pairs of a vector share their out channel
layout(constant_id = 16) const int BLOCK = 1;            // neighbours of a load, which divide the rows of image
layout(constant_id = 17) const int GRADIENT_BLOCK = 1;   // and of grad
layout(constant_id = 18) const int LANES = 1;
layout(constant_id = 19) const int TAP_BLOCKS = 1;
layout(constant_id = 20) const int POSITIONS = 1;        // 1, or a multiple of BATCH
layout(constant_id = 21) const bool WHOLE_STRIPS = false;
#include "common/indexing.glsl"
#include "conv/division.glsl"
#include "conv/elements.glsl"
struct Params {
  uint64_t image, grad, w;
  uint by_strips[2], by_height[2];
  int image_height, image_width, height, width, pad_y;
  uint image_channels, channels, summed, outs;   // outs: out channels of a group
  uint strips, positions, each;                  // strips of a row, of all rows, and of a part
  uint lane_blocks, tap_groups;                  // of workgroups
};
#include "common/params.glsl"
#define UN [[unroll]]

const int GRADIENTS = ONE_GRADIENT ? 1 : CHANNELS, TAPS = KERNEL_Y * KERNEL_X;
const int BLOCKS_X = (KERNEL_X + TAPS_X - 1) / TAPS_X;
const int SHIFT = 1 << 20, FROM = (SHIFT - PAD_X) / BLOCK * BLOCK - SHIFT;
const int LOADS = ((RESULTS - 1) * STRIDE_X + (TAPS_X - 1) * DILATION_X - PAD_X - FROM) / BLOCK + 1;
const int SUMS = ROWS * TAPS_X * CHANNELS;  // of an invocation
const int BATCH = 8, COLUMNS = LANES * TAP_BLOCKS, PITCH = LOCAL + 4;
const int SHARES = POSITIONS / BATCH;  // of a sum over the workgroup
shared float sums[POSITIONS == 1 ? 1 : BATCH * PITCH];

uint pixel, out_pixel, strip, tap_row, tap_column;
int y;
uint64_t plane, gradient_row;
float acc[SUMS], grad[RESULTS * GRADIENTS];

int meeting(int s, int r) { return FROM + s + PAD_X - r * STRIDE_X; }
bool is_tap(int t) { return t >= 0 && t % DILATION_X == 0 && t / DILATION_X < TAPS_X; }

void load_gradients() {
  UN for (int i = 0; i < RESULTS / GRADIENT_BLOCK; ++i) {
    const uint x = strip * uint(RESULTS) + uint(i * GRADIENT_BLOCK);
    uvec4 words = uvec4(0);
    if (WHOLE_STRIPS || x < uint(p.width))
      words = load_elements(gradient_row + uint64_t(x * out_pixel * uint(SIZE)), GRADIENTS * GRADIENT_BLOCK);
    UN for (int v = 0; v < GRADIENTS * GRADIENT_BLOCK; ++v)
      grad[i * GRADIENTS * GRADIENT_BLOCK + v] = element(words, uint(v));
  }
}

// Adds one row of image to row r of the taps. Channels-last elements outside of it are loaded from its nearest
// place and passed over: many small loads are in flight together, which a branch for each would forbid.
void add_row(int r, uint64_t row, bool is_row) {
  UN for (int i = 0; i < LOADS; ++i) {
    bool meets = false;
    UN for (int e = 0; e < BLOCK; ++e)
      UN for (int g = 0; g < RESULTS; ++g) meets = meets || is_tap(meeting(i * BLOCK + e, g));
    if (meets) {
      const int x = int(strip) * RESULTS * STRIDE_X + int(tap_column) * DILATION_X + FROM + i * BLOCK;
      const bool inside = is_row && uint(x) < uint(p.image_width);
      uvec4 words = uvec4(0);
      if (CHANNELS_LAST) {
        const uint nearest = uint(clamp(x, 0, p.image_width - 1));
        words = load_elements(row + uint64_t(nearest * pixel * uint(SIZE)), CHANNELS * BLOCK);
        words = inside ? words : uvec4(0);
      } else if (inside) {
        words = load_elements(row + uint64_t(uint(x) * pixel * uint(SIZE)), CHANNELS * BLOCK);
      }
      UN for (int e = 0; e < BLOCK; ++e) {
        UN for (int g = 0; g < RESULTS; ++g) {
          const int t = meeting(i * BLOCK + e, g);
          if (is_tap(t)) {
            // Past the row's end an infinite element of image must not meet the zeros of grad.
            const bool has = WHOLE_STRIPS || strip * uint(RESULTS) + uint(g) < uint(p.width);
            UN for (int v = 0; v < CHANNELS; ++v) {
              const int at = (r * TAPS_X + t / DILATION_X) * CHANNELS + v;
              const float x = has ? element(words, uint(e * CHANNELS + v)) : 0.0;
              acc[at] = fma(x, grad[g * GRADIENTS + (ONE_GRADIENT ? 0 : v)], acc[at]);
            }
          }
        }
      }
    }
  }
}

void add_strip() {
  load_gradients();
  UN for (int r = 0; r < ROWS; ++r) {
    const int place = y * STRIDE_Y - p.pad_y + (int(tap_row) + r) * DILATION_Y;
    const bool is_row = uint(place) < uint(p.image_height);
    const uint nearest = uint(clamp(place, 0, p.image_height - 1));
    if (CHANNELS_LAST || is_row)
      add_row(r, plane + uint64_t(nearest * uint(p.image_width) * pixel * uint(SIZE)), is_row);
  }
}

// Sum `i` of a vector and its block of taps, which begins at tap (row, column).
void store_sum(uint part, uint vector, uint row, uint column, uint i, float x) {
  const uint v = i % uint(CHANNELS), k = i / uint(CHANNELS);
  const uint ky = row + k / uint(TAPS_X), kx = column + k % uint(TAPS_X), pairs = p.channels * p.summed;
  if (ky < uint(KERNEL_Y) && kx < uint(KERNEL_X) && vector * uint(CHANNELS) < pairs) {
    const uint pair = vector * uint(CHANNELS) + v;
    store_float(p.w, uint64_t(part * pairs + pair) * uint64_t(TAPS) + uint64_t(ky * uint(KERNEL_X) + kx), RESULT_DTYPE,
        x);
  }
}

void main() {
  const uint t = gl_LocalInvocationID.x, group = linear_group();
  const uint lane_block = group % p.lane_blocks, rest = group / p.lane_blocks;
  const uint tap_group = rest % p.tap_groups, part = rest / p.tap_groups;
  const uint vector = lane_block * LANES + t % LANES, position = t / COLUMNS;
  const uint tap_block = tap_group * TAP_BLOCKS + t / LANES % TAP_BLOCKS;
  tap_row = tap_block / BLOCKS_X * ROWS;
  tap_column = tap_block % BLOCKS_X * TAPS_X;
  const uint pair = vector * CHANNELS, channel = pair / p.summed;
  const uint from = channel / p.outs * p.summed + pair % p.summed;
  const uint area = uint(p.image_height * p.image_width), out_area = uint(p.height * p.width);
  pixel = CHANNELS_LAST ? p.image_channels : 1u;
  out_pixel = CHANNELS_LAST ? p.channels : 1u;
  UN for (int i = 0; i < SUMS; ++i) acc[i] = 0.0;
  const uint end = pair < p.channels * p.summed ? min(p.positions, (part + 1u) * p.each) : 0u;
  for (uint q = part * p.each + position; q < end; q += POSITIONS) {
    const uint line = divided(q, p.by_strips), n = divided(line, p.by_height);
    strip = q - line * p.strips;
    y = int(line - n * uint(p.height));
    plane = p.image + uint64_t(n) * uint64_t(area * p.image_channels * uint(SIZE)) +
        uint64_t(from * (CHANNELS_LAST ? 1u : area) * uint(SIZE));
    gradient_row = p.grad + uint64_t(n) * uint64_t(out_area * p.channels * uint(SIZE)) +
        uint64_t((channel * (CHANNELS_LAST ? 1u : out_area) + uint(y * p.width) * out_pixel) * uint(SIZE));
    add_strip();
  }
  if (POSITIONS == 1) {
    UN for (int i = 0; i < SUMS; ++i) { store_sum(part, vector, tap_row, tap_column, uint(i), acc[i]); }
  } else {
    UN for (int first = 0; first < SUMS; first += BATCH) {
      UN for (int b = 0; b < BATCH; ++b)
        sums[b * PITCH + int(t)] = first + b < SUMS ? acc[first + b < SUMS ? first + b : 0] : 0.0;
      barrier();  // the batch is written
      const uint b = t % BATCH, column = t / BATCH % COLUMNS, share = t / (BATCH * COLUMNS);
      float x = 0.0;
      UN for (int i = 0; i < BATCH; ++i) x += sums[b * PITCH + (share + i * SHARES) * COLUMNS + column];
      barrier();  // and read
      if (SHARES > 1) {
        sums[b * PITCH + share * COLUMNS + column] = x;
        barrier();  // the shares are written
        x = 0.0;
        if (share == 0u) {
          for (uint i = 0u; i < SHARES; ++i) x += sums[b * PITCH + i * COLUMNS + column];
        }
        barrier();  // and read
      }
      const uint block = tap_group * TAP_BLOCKS + column / LANES;
      if (share == 0u && first + int(b) < SUMS)
        store_sum(part, lane_block * LANES + column % LANES, block / BLOCKS_X * ROWS, block % BLOCKS_X * TAPS_X,
            uint(first) + b, x);
    }
  }
}
