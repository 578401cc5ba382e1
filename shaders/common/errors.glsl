// Device-side checks. A kernel writes its first bad index to the device's error record and continues without an access
// out of bounds. The host throws at the next synchronisation.
#ifndef AULE_ERRORS_GLSL
#define AULE_ERRORS_GLSL
#include "dtype_codes.h"
layout(buffer_reference, scalar, buffer_reference_align = 8) coherent buffer ErrorRef {
  uint code;      // AULE_ERR_*, 0 while nothing happened
  uint kernel;    // the op's tag, given by the host in params (see ops/tensor/device_assert.h)
  int64_t value;  // offending index
  int64_t bound;  // allowed: [-bound, bound) or [0, bound)
};
void report_error(uint64_t record, uint code, uint kernel, int64_t value, int64_t bound) {
  ErrorRef r = ErrorRef(record);
  if (atomicCompSwap(r.code, 0u, code) == 0u) {
    r.kernel = kernel;
    r.value = value;
    r.bound = bound;
  }
}
#endif
