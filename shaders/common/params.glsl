// Include after `struct Params { ... };`. The block arrives as push constants, or, with `#pragma aule params ring`
// (for blocks over 128 bytes), through the stream's parameter ring. Either way the shader reads `p.member`.
#ifdef AULE_PARAMS_RING
layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer ParamsRef { Params value; };
layout(push_constant, scalar) uniform Push { ParamsRef params_; };
#define p params_.value

// `address`, or a readable one if it is 0. A load from an address of the block that may be 0 goes through this, before
// its condition. lavapipe 26.2 executes a load with an address that all lanes share even if no lane takes the branch,
// which ends the process with a segmentation fault.
#define AULE_READABLE
uint64_t readable(uint64_t address) { return address != uint64_t(0) ? address : uint64_t(params_); }
#else
layout(push_constant, scalar) uniform Push { Params p; };
#endif
