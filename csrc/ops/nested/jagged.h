// Jagged tensors (torch.nested, layout=torch.jagged): batches of rows, packed or padded.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

namespace aule::ops {

// values [rows, inner], offsets int32 or int64 [batch + 1] -> [batch, length, inner]. Longer sequences are cut.
at::Tensor jagged_to_padded_dense(const at::Tensor& values, at::TensorList offsets, at::IntArrayRef max_lengths,
                                  double padding_value);
// dense [batch, length, inner] -> [rows, inner]; rows of no sequence are 0. Without `rows` this waits for the offsets.
at::Tensor padded_dense_to_jagged(const at::Tensor& dense, at::TensorList offsets, std::optional<int64_t> rows);

}  // namespace aule::ops
