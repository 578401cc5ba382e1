// Checks of generated kernels: they report and go on with an index that is in bounds. Params has `errors`, the address
// of the device's error record, and `error_tag`, which names the kernel.
#include "common/errors.glsl"
void report_index(int64_t value, int64_t bound) {
  report_error(p.errors, AULE_ERR_INDEX_OUT_OF_RANGE, p.error_tag, value, bound);
}
void report_assert() { report_error(p.errors, AULE_ERR_ASSERT, p.error_tag, int64_t(0), int64_t(0)); }
