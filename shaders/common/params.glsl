// Include after `struct Params { ... };`. The block arrives as push constants, or, with `#pragma aule params ring`
// (for blocks over 128 bytes), through the stream's parameter ring. Either way the shader reads `p.member`.
#ifdef AULE_PARAMS_RING
layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer ParamsRef { Params value; };
layout(push_constant, scalar) uniform Push { ParamsRef params_; };
#define p params_.value
#else
layout(push_constant, scalar) uniform Push { Params p; };
#endif
