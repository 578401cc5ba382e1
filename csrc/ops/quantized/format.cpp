#include "ops/quantized/format.h"

#include <c10/util/Exception.h>

#include <string>

#include "core/integer.h"

namespace aule::ops {
namespace {

constexpr QuantizedFormat kFormats[] = {
#define QUANTIZED_FORMAT(code, name, decoder, values, data_bytes, scale_bytes, scale_at, span, run, lanes, levels, \
                         integers)                                                                                 \
  {code, #name, values, data_bytes, scale_bytes, scale_at, span, run, lanes, levels, integers},
#include "quantized/formats.def"
};

}  // namespace

std::span<const QuantizedFormat> quantized_formats() { return kFormats; }

const QuantizedFormat& quantized_format(const char* op, std::string_view name) {
  for (const QuantizedFormat& format : kFormats)
    if (name == format.name) return format;
  std::string known;
  for (const QuantizedFormat& format : kFormats) known += (known.empty() ? "" : ", ") + std::string(format.name);
  TORCH_CHECK_VALUE(false, op, ": expected format to be one of ", known, ", but got ", name);
}

int64_t packed_row_bytes(const QuantizedFormat& format, int64_t k) {
  const int64_t bytes = k / format.values * (format.data_bytes + format.scale_bytes);
  return format.scale_bytes == 0 ? bytes : round_up(bytes, int64_t{16});
}

}  // namespace aule::ops
