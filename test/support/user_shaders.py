"""Sources that users of `compile_shader` might write."""

AXPB = """
layout(buffer_reference, scalar) readonly buffer In { float v[]; };
layout(buffer_reference, scalar) writeonly buffer Out { float v[]; };
params { Out y; In x, b; float a; uint n; };
void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i < n) y.v[i] = a * x.v[i] + b.v[i];
}
"""
LINEAR = AXPB.replace("gl_GlobalInvocationID.x", "uint(linear_invocation())").replace(
    "params {", "#include <aule/common/indexing.glsl>\nparams {"
)
