// Shared by the pooling kernels: a 3-D window over the input; 1-D and 2-D pooling have extents of 1 in front.
#include "common/dtype.glsl"
#include "common/indexing.glsl"

// Windows of output position `o` along one axis: [begin, end) in input coordinates, step `dilation`.
// Adaptive pooling: floor(o * in / out) .. ceil((o + 1) * in / out).
int adaptive_begin(int o, int in_size, int out_size) { return (o * in_size) / out_size; }
int adaptive_end(int o, int in_size, int out_size) { return ((o + 1) * in_size + out_size - 1) / out_size; }
