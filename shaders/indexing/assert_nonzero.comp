// Reports that a condition, one byte, is 0.
#include "common/dtype.glsl"
#include "common/errors.glsl"

struct Params {
  uint64_t condition;
  uint64_t error;
  uint tag;
};
#include "common/params.glsl"

layout(local_size_x = 1) in;

void main() {
  if (uint(U8Ref(p.condition).v) == 0u) report_error(p.error, AULE_ERR_ASSERT, p.tag, 0, 1);
}
