#pragma aule params ring
// Before the kernels of a ragged batch: 16 bytes for each sequence (sequences.glsl), and zeros in the rows of up to
// three results that belong to no sequence. Packed tensors may end with such rows, and no other kernel writes them.
layout(constant_id = 0) const int GROUPS = 1;
layout(constant_id = 1) const int LOCAL = 1;
layout(local_size_x_id = 1) in;
#include "common/dtype.glsl"
#include "common/indexing.glsl"

struct Params {
  uint64_t sequences;                      // ivec4 [batch]
  uint64_t cu_seq_q, cu_seq_k, seqused_k;  // 0: not given
  uint64_t tail[3], tail_list[3];          // a result, and the list whose last element is the first row of its padding
  int64_t tail_stride[6];                  // {head, row} of each, in elements
  int tail_rows[3], tail_heads[3], tail_dim[3];
  int batch, q_len, total_q, total_k;
  int bytes;  // of an element: 2 or 4
};
#include "common/params.glsl"
#include "attention/parts/sequences.glsl"

void main() {
  const int local = int(gl_WorkGroupSize.x), group = int(gl_WorkGroupID.x), t = int(gl_LocalInvocationID.x);
  [[dont_unroll]] for (int b = group * local + t; b < p.batch;
      b += GROUPS * local) U32x4Ref(p.sequences + uint64_t(b) * 16).v = uvec4(sequence_of(b, p.q_len));
  [[unroll]] for (int i = 0; i < 3; ++i) {  // of those not given all is 0
    const int rows = p.tail_rows[i], dim = p.tail_dim[i], size = p.tail_heads[i] * dim;
    const int from = clamp(count_at(p.tail_list[i], p.batch), 0, rows);
    [[dont_unroll]] for (int row = from + group; row < rows; row += GROUPS)
      [[dont_unroll]] for (int e = t; e < size; e += local) {
        const uint64_t at = uint64_t(int64_t(e / dim) * p.tail_stride[i * 2] + int64_t(row) * p.tail_stride[i * 2 + 1] +
            int64_t(e % dim));
        if (p.bytes == 4) U32Ref(p.tail[i] + at * 4).v = 0u;
        else U16Ref(p.tail[i] + at * 2).v = uint16_t(0);
      }
  }
}
