// Formats of quantized weights: the rows of shaders/quantized/formats.def.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

namespace aule::ops {

struct QuantizedFormat {
  int code;  // for the kernels' constant FORMAT
  const char* name;
  uint32_t values;       // of a block, along k
  uint32_t data_bytes;   // of a block; with scale_bytes the bytes of a block in a file
  uint32_t scale_bytes;  // kept apart from the data; 0: they are in it
  uint32_t scale_at;     // where they are in a file's block
  uint32_t span;         // octets that an invocation decodes at once
  uint32_t run, lanes;   // how spans of neighbours interleave
  bool has_levels;       // its numbers are those of a table of 16
  bool has_integers;     // its numbers are integers that dot products of bytes take

  bool has_scales() const { return values >= 32; }  // else they are tensors of their own
};

std::span<const QuantizedFormat> quantized_formats();
const QuantizedFormat& quantized_format(const char* op, std::string_view name);
// The bytes of a packed row of k values. Rows with scales of their own end at a multiple of 16 bytes.
int64_t packed_row_bytes(const QuantizedFormat& format, int64_t k);

}  // namespace aule::ops
