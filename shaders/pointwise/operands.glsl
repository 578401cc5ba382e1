// Specialization constants of a pointwise kernel after OP: storage dtype and access mode of out and of each operand.
// The file that includes this explains the values of MODE.
layout(constant_id = 1) const int OUT_DTYPE = 0;
layout(constant_id = 2) const int OUT_MODE = 0;
layout(constant_id = 3) const int A_DTYPE = 0;
layout(constant_id = 4) const int A_MODE = 0;
layout(constant_id = 5) const int B_DTYPE = 0;
layout(constant_id = 6) const int B_MODE = 0;
layout(constant_id = 7) const int C_DTYPE = 0;
layout(constant_id = 8) const int C_MODE = 0;
